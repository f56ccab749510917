"""chat/: the service and its terminal client as programs, and the page that shows their files."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
from opentelemetry import trace

from rsocket_trio import (
    BearerAuthentication,
    Caller,
    Metadata,
    Reconnect,
    connect,
    connect_pool,
)
from rsocket_trio.otel import Telemetry
from rsocket_trio.pool import target_file
from tests.docs.test_code_blocks import ROOT, blocks
from tests.examples.chromium import opened
from tests.waiting import until

SHOWN = {".py", ".html", ".js"}


@pytest.fixture
def start(examples, environment, tmp_path):
    """Start a program of the example, in a directory of its own."""

    @contextmanager
    def start(*arguments):
        with subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return start


@pytest.fixture
def serve(start, examples):
    """Serve the chat; the process, and its address."""

    @contextmanager
    def serve(uri="tcp://127.0.0.1:0", *options):
        target = str(examples / "chat" / "server.py")
        listen = ("--listen", uri, *options)
        with start("-m", "rsocket_trio", "serve", target, *listen) as server:
            yield server, server.stdout.readline().strip().removeprefix("listening on ")

    return serve


@pytest.fixture
def token(start, examples):
    """Make the token of a user."""

    def token(name):
        with start(examples / "chat" / "tokens.py", name) as program:
            return program.communicate()[0].strip()

    return token


@pytest.fixture
def bob(token, load):
    """The typed client of a second user, connected to an address."""
    api = load("chat/api.py")
    me = Metadata(auth=BearerAuthentication(token("bob")))

    @asynccontextmanager
    async def bob(uri):
        async with connect(uri, setup_metadata=me) as requester:
            yield Caller(requester).of(api.Chat)

    return bob


def test_two_users_and_a_restart(serve, start, token, bob, examples, tmp_path):
    """A terminal and a typed client talk; the terminal comes back with the server, and reads on."""
    (tmp_path / "ada.token").write_text(token("ada"))

    async def answer(uri, *texts):
        async with bob(uri) as chat:
            assert await chat.join("lobby") == ["ada", "bob"]
            async with chat.messages("lobby") as messages:
                assert (await messages.receive()).text == "hello"
            for text in texts:
                await chat.say("lobby", text)

    with serve() as (server, uri):
        with start(examples / "chat" / "client.py", uri, "lobby", "ada.token") as terminal:
            assert terminal.stdout.readline() == f"! dialling {uri}\n"
            assert terminal.stdout.readline() == "here are ada\n"
            terminal.stdin.write("\nhello\n")
            terminal.stdin.flush()
            assert terminal.stdout.readline().startswith("! ")  # an empty line is no message
            assert terminal.stdout.readline() == "ada: hello\n"
            trio.run(answer, uri, "hi\x1b[2J")
            assert terminal.stdout.readline() == "bob: 'hi\\x1b[2J'\n"
            server.terminate()
            assert server.wait() == 0
            assert "ada chat.lobby.say completed" in server.stderr.read()
            assert terminal.stdout.readline() == "! the server stops\n"
            with serve(uri):
                lines = iter(terminal.stdout.readline, "")
                assert next(line for line in lines if line[0] != "!") == "here are ada\n"
                trio.run(answer, uri, "again")
                assert next(lines) == "bob: again\n"  # and nothing of before


def test_the_terminal_ends_with_its_input(serve, start, token, examples, tmp_path):
    """The end of standard input ends the client, and nothing else is waited for."""
    (tmp_path / "ada.token").write_text(token("ada"))
    with serve() as (_, uri):
        with start(examples / "chat" / "client.py", uri, "lobby", "ada.token") as terminal:
            said, complained = terminal.communicate("")
    assert (said, complained, terminal.returncode) == (f"! dialling {uri}\nhere are ada\n", "", 0)


def test_the_terminal_says_why_it_cannot_begin(serve, start, examples, tmp_path):
    """A token that nobody has signed is refused, without a traceback."""
    (tmp_path / "ada.token").write_text("ada.0000")
    with serve() as (_, uri):
        with start(examples / "chat" / "client.py", uri, "lobby", "ada.token") as terminal:
            said, complained = terminal.communicate("")
    assert (said, terminal.returncode) == (f"! dialling {uri}\n", 1)
    assert complained == "the chat has ended: UNAUTHENTICATED: a token of this chat is needed\n"


USERS = ("ada", "bob", "cleo")


class Talker:
    """A user with a pool, who says numbers, and reads what all have said."""

    def __init__(self, api, name, count):
        self.said, self.heard = 0, []
        self._api, self._name, self._count = api, name, count

    async def run(self, targets, token, over):
        """Talk until all have heard everything; a message that fails fails the test."""
        me = Metadata(auth=BearerAuthentication(token))
        options = {"setup_metadata": me, "reconnect": Reconnect(spread=0.1)}
        traced = [Telemetry()]
        async with connect_pool(targets, **options, middleware=traced) as pool:
            chat = Caller(pool).of(self._api.Chat)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, chat)
                while not over.is_set():
                    await self._say(chat, f"{self._name} {self.said}")
                    self.said += 1
                    await trio.sleep(0.2)  # the chat lets nobody flood it
                self._count[self._name] = self.said
                await until(self._has_heard_all)
                nursery.cancel_scope.cancel()

    def _has_heard_all(self):
        return len(self._count) == len(USERS) and len(self.heard) >= sum(self._count.values())

    async def _say(self, chat, text):
        while True:
            try:
                await chat.say("lobby", text)
            except self._api.NotInRoom:  # nothing was said: this session is a new one
                await chat.join("lobby")
            else:
                return

    async def _read(self, chat):
        after = 0
        while True:
            try:
                async with chat.messages("lobby", after=after) as messages:
                    async for message in messages:
                        assert message.number > after
                        after = message.number
                        self.heard.append(message.text)
            except self._api.NotInRoom:
                await chat.join("lobby")


def get(uri, path):
    """The status and the text of a page; nobody may be there."""
    try:
        with urllib.request.urlopen(uri + path, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return None, ""


def said_by(metrics):
    """How often the workers were asked to say a message, those that are gone too."""
    (count,) = re.findall(r'calls_started_total{.*route="chat\.{room}\.say"} (\S+)', metrics)
    return float(count)


@pytest.fixture
def deploy(start, examples):
    """Serve the chat by the command of the page about deployment; the process, and addresses."""
    page = (ROOT / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ rsocket-trio (serve server\.py .*)$", page, re.MULTILINE)
    words = shlex.split(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", line))
    words[1] = str(examples / "chat" / "server.py")

    @contextmanager
    def deploy():
        with start("-m", "rsocket_trio", *words) as parent:
            lines = [parent.stdout.readline().rsplit(maxsplit=1) for _ in range(2)]
            assert [words[0] for words in lines] == ["listening on", "answering probes at"]
            yield parent, *(words[1] for words in lines)

    return deploy


async def test_a_deployment_is_replaced_and_nobody_loses_a_message(deploy, token, load, tmp_path):
    """By a new generation, then by another deployment, while three users talk.

    Each message is there once for each of them. Probes and scrapers see what happens, and a trace
    is found in the access log. Only all parts together show that the page about deployment is
    right.
    """
    api, count = load("chat/api.py"), {}
    users = {name: Talker(api, name, count) for name in USERS}
    tokens = {name: token(name) for name in users}
    targets = tmp_path / "targets"
    theirs = trace.SpanContext(0x5EED, 0xBEEF, True, trace.TraceFlags(1))
    over = trio.Event()

    async def look(path, base):
        return await trio.to_thread.run_sync(get, base, path)

    async def go_on():
        """Wait until each user has said three more messages."""
        marks = {name: each.said + 3 for name, each in users.items()}
        await until(lambda: all(each.said >= marks[name] for name, each in users.items()))

    with trio.fail_after(90), deploy() as (first, uri, probes), deploy() as (second, later, others):
        targets.write_text(uri)
        async with trio.open_nursery() as nursery:
            with trace.use_span(trace.NonRecordingSpan(theirs)):
                for name, each in users.items():
                    source = target_file(targets, every=0.2)
                    nursery.start_soon(each.run, source, tokens[name], over)
            await go_on()
            assert (await look("/ready", probes))[0] == 200
            status, metrics = await look("/metrics", probes)
            assert status == 200
            for route in ("join", "say", "messages"):
                assert f'route="chat.{{room}}.{route}"' in metrics
            before = said_by(metrics)
            first.send_signal(signal.SIGHUP)
            lines = iter(first.stderr.readline, "")
            await trio.to_thread.run_sync(
                lambda: next(line for line in lines if "generation 2 serves" in line)
            )
            assert (await look("/ready", probes))[0] == 200
            await go_on()
            assert said_by((await look("/metrics", probes))[1]) >= before + 3 * len(users)
            first.terminate()
            await trio.to_thread.run_sync(
                lambda: next(line for line in lines if "stopping: serving for" in line)
            )
            assert await look("/ready", probes) == (503, "not ready\n")
            targets.with_suffix(".new").write_text(later)
            targets.with_suffix(".new").rename(targets)
            rest = await trio.to_thread.run_sync(first.communicate)
            assert (first.returncode, "Traceback" in rest[1]) == (0, False)
            assert (await look("/ready", probes))[0] is None
            await go_on()
            over.set()
        assert 'route="chat.{room}.say"' in (await look("/metrics", others))[1]
        second.terminate()
        assert await trio.to_thread.run_sync(second.wait) == 0
    said = sorted(f"{name} {n}" for name, each in users.items() for n in range(each.said))
    for each in users.values():
        assert sorted(each.heard) == said
    logged = [line for line in (tmp_path / "access.log").read_text().splitlines() if "say" in line]
    completed = [line for line in logged if "outcome=completed" in line]
    assert len(completed) == len(said)
    assert all(f" trace={theirs.trace_id:032x} " in line for line in completed)


@pytest.mark.interop
async def test_the_page(serve, start, token, bob, examples, chromium, tmp_path):
    """Its user enters with a token, reads and writes, and is there again after a restart."""
    files = shutil.copytree(examples / "chat" / "page", tmp_path / "page")
    http = ("http.server", "0", "--bind", "127.0.0.1", "--directory", files)
    status = "document.getElementById('status').textContent"
    said = "[...document.querySelectorAll('#messages li')].map((line) => line.textContent)"

    def fill(form, **values):
        fields = "".join(f"form.elements.{name}.value = {text!r};" for name, text in values.items())
        return f"{{const form = document.getElementById('{form}'); {fields} form.requestSubmit();}}"

    with trio.fail_after(60), start("-u", "-m", *http) as site:
        origin = re.search(r"\((.*)/\)", site.stdout.readline())[1]
        options = ("--allow-origin", origin)
        with serve("ws://127.0.0.1:0/rsocket", *options) as (server, uri):
            script = files / "chat.js"
            script.write_text(script.read_text().replace("ws://127.0.0.1:7879/rsocket", uri))
            async with opened(chromium, tmp_path / "profile", origin) as page:
                await page.run(fill("enter", token="ada.0000"))
                await page.wait_until(f"{status} === 'a token of this chat is needed'")
                await page.run(fill("enter", token=token("ada")))
                await page.wait_until(f"{status} === 'here are ada'")
                async with bob(uri) as chat:
                    await chat.join("lobby")
                    await chat.say("lobby", "<b>hi</b>")
                    await page.wait_until(f"{said}.length === 1")
                    await page.run(fill("say", text="hello"))
                    await page.wait_until(f"{said}.length === 2")
                server.terminate()
                await page.wait_until(f"{status} !== 'here are ada'")
                assert server.wait() == 0
                with serve(uri, *options):
                    await page.wait_until(f"{status} === 'here are ada'")
                    await page.run(fill("say", text="again"))
                    await page.wait_until(f"{said}.length === 3")
                    assert await page.run(said) == ["bob: <b>hi</b>", "ada: hello", "ada: again"]
                    await page.save_picture("chat.png")


def test_the_terminal_ends_when_its_token_is_refused(serve, start, token, examples, tmp_path):
    """A server with another key refuses the new session, and no other one is tried."""
    (tmp_path / "ada.token").write_text(token("ada"))
    with serve() as (server, uri):
        with start(examples / "chat" / "client.py", uri, "lobby", "ada.token") as terminal:
            assert terminal.stdout.readline() == f"! dialling {uri}\n"
            assert terminal.stdout.readline() == "here are ada\n"
            server.terminate()
            server.wait()
            (tmp_path / "chat.key").unlink()
            with serve(uri):
                assert terminal.wait() == 1
                assert "a token of this chat is needed" in terminal.stderr.read()


def test_the_page_shows_the_example(examples):
    """The last block of each file on the page of the documentation is that file of the example."""
    shown = {}
    for _, language, mark, text in blocks(ROOT / "docs" / "howto" / "build-an-application.md"):
        if language in {"python", "html", "javascript"} and mark:
            shown["test_chat.py" if mark == "pytest" else mark.removeprefix("file: ")] = text
    files = [path for path in (examples / "chat").rglob("*.*") if path.suffix in SHOWN]
    assert shown == {
        str(path.relative_to(examples / "chat")): path.read_text()
        for path in files
        if not path.is_symlink()
    }
