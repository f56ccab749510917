"""chat/: the service and its terminal client as programs, and the page that shows their files."""

import re
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio

from rsocket_trio import BearerAuthentication, Caller, Metadata, connect
from tests.docs.test_code_blocks import ROOT, blocks
from tests.examples.chromium import opened

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
