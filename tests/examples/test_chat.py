"""chat/: the service and its terminal client as programs, and the page that shows their files."""

import subprocess
import sys
from contextlib import contextmanager

import pytest
import trio

from rsocket_trio import BearerAuthentication, Caller, Metadata, connect
from tests.docs.test_code_blocks import ROOT, blocks


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
    def serve():
        target = str(examples / "chat" / "server.py")
        listen = ("--listen", "tcp://127.0.0.1:0")
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


def test_two_users_and_a_restart(serve, start, token, examples, load, tmp_path):
    """A terminal and a typed client talk; the terminal ends with the server; the history stays."""
    api = load("chat/api.py")
    (tmp_path / "ada.token").write_text(token("ada"))
    bob = Metadata(auth=BearerAuthentication(token("bob")))

    async def answer(uri):
        async with connect(uri, setup_metadata=bob) as requester:
            chat = Caller(requester).of(api.Chat)
            assert await chat.join("lobby") == ["ada", "bob"]
            async with chat.messages("lobby") as messages:
                assert (await messages.receive()).text == "hello"
            await chat.say("lobby", "hi\x1b[2J")

    async def read_again(uri):
        async with connect(uri, setup_metadata=bob) as requester:
            chat = Caller(requester).of(api.Chat)
            assert await chat.join("lobby") == ["bob"]
            async with chat.messages("lobby") as messages:
                found = [await messages.receive() for _ in range(2)]
        assert [(one.author, one.text) for one in found] == [
            ("ada", "hello"),
            ("bob", "hi\x1b[2J"),
        ]

    with serve() as (server, uri):
        with start(examples / "chat" / "client.py", uri, "lobby", "ada.token") as terminal:
            assert terminal.stdout.readline() == "here are ada\n"
            terminal.stdin.write("\nhello\n")
            terminal.stdin.flush()
            assert terminal.stdout.readline().startswith("! ")  # an empty line is no message
            assert terminal.stdout.readline() == "ada: hello\n"
            trio.run(answer, uri)
            assert terminal.stdout.readline() == "bob: 'hi\\x1b[2J'\n"
            server.terminate()
            assert (terminal.wait(), terminal.stderr.read()) == (0, "")
        assert server.wait() == 0
        assert "ada chat.lobby.say completed" in server.stderr.read()
    with serve() as (_, uri):
        trio.run(read_again, uri)


def test_the_terminal_ends_with_its_input(serve, start, token, examples, tmp_path):
    """The end of standard input ends the client, and nothing else is waited for."""
    (tmp_path / "ada.token").write_text(token("ada"))
    with serve() as (_, uri):
        with start(examples / "chat" / "client.py", uri, "lobby", "ada.token") as terminal:
            said, complained = terminal.communicate("")
    assert (said, complained, terminal.returncode) == ("here are ada\n", "", 0)


def test_the_terminal_says_why_it_cannot_begin(serve, start, examples, tmp_path):
    """A token that nobody has signed is refused, without a traceback."""
    (tmp_path / "ada.token").write_text("ada.0000")
    with serve() as (_, uri):
        with start(examples / "chat" / "client.py", uri, "lobby", "ada.token") as terminal:
            said, complained = terminal.communicate("")
    assert (said, terminal.returncode) == ("", 1)
    assert complained == "the chat has ended: UNAUTHENTICATED: a token of this chat is needed\n"


def test_the_page_shows_the_example(examples):
    """The last block of each file on the page is that file of the example."""
    shown = {}
    for _, language, mark, text in blocks(ROOT / "docs" / "howto" / "build-an-application.md"):
        if language == "python" and mark:
            shown["test_chat.py" if mark == "pytest" else mark.removeprefix("file: ")] = text
    assert shown == {path.name: path.read_text() for path in (examples / "chat").glob("*.py")}
