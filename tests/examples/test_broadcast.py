"""broadcast.py: the server sends requests to each of its clients."""

import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest
import trio

from rsocket_trio import Caller, Router, connect, serve


@pytest.fixture
def start(examples, environment):
    """Start broadcast.py beside the test; it is killed at the end."""
    with ExitStack() as stack:

        def start(*arguments):
            process = subprocess.Popen(
                [sys.executable, examples / "broadcast.py", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            stack.enter_context(process)  # waits for it and closes its pipe
            stack.callback(process.kill)
            return process

        yield start


def test_all_clients_receive_a_message(start, run):
    """The sender gets the number of clients that have received it."""
    server = start("serve", "--listen", "ws://127.0.0.1:0/rsocket")
    uri = server.stdout.readline().removeprefix("listening on ").strip()
    ada, bob = (start("join", name, "--uri", uri) for name in ("ada", "bob"))
    assert ada.stdout.readline() == "ada has joined\n"
    assert bob.stdout.readline() == "bob has joined\n"
    done = run("broadcast.py", "say", "lunch is ready", "--uri", uri)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 have heard it\n", "")
    assert ada.stdout.readline() == "ada hears: lunch is ready\n"
    assert bob.stdout.readline() == "bob hears: lunch is ready\n"
    bob.kill()
    bob.wait()
    done = run("broadcast.py", "say", "more", "--uri", uri)
    assert done.stdout == "1 have heard it\n"
    server.kill()
    assert ada.wait(timeout=20) == 0


def test_control_c_ends_the_server(start):
    """There is no traceback."""
    server = start("serve", "--listen", "tcp://127.0.0.1:0")
    server.stdout.readline()
    server.send_signal(signal.SIGINT)
    _, errors = server.communicate(timeout=20)
    assert (server.returncode, errors) == (130, "")


def test_a_client_without_a_server(run):
    """It prints one line, and no traceback."""
    done = run("broadcast.py", "say", "x", "--uri", "tcp://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


@pytest.fixture
def slow_client(load):
    """A client that never answers, and the server's module."""
    module = load("broadcast.py")
    client = Router()

    @client.request_response("hear")
    async def hear(text: str) -> bool:
        await trio.sleep_forever()

    return module, client


async def test_a_client_that_does_not_answer(nursery, slow_client, autojump_clock):
    """The server does not wait for it, and other clients are not delayed."""
    module, client = slow_client
    server = await nursery.start(serve, module.router, "tcp://127.0.0.1:0")
    async with connect(server.uris[0], responder=client):
        async with connect(server.uris[0]) as requester:
            assert await Caller(requester).request_response("say", "x", returns=int) == 0
    await server.aclose(grace=0)
