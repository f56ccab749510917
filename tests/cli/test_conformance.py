"""The command ``conformance``: a line for each rule, and its exit status."""

from __future__ import annotations

import json
import queue
import threading
from contextlib import contextmanager

import pytest
import trio

from rsocket_trio.cli.main import main
from rsocket_trio.testing.rsio_conformance import RULES
from tests.rsio.conformance.reference import Reference, Shared

SOME = "RSIO-09,RSIO-20,b07"


@contextmanager
def peer(fault=""):
    """A server with a fault in another thread; yields its port."""
    ports = queue.SimpleQueue()
    shared = Shared()

    async def serve(stream):
        await Reference(stream, "server", shared, fault).run()

    async def serve_all():
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            token = trio.lowlevel.current_trio_token()
            ports.put((listeners[0].socket.getsockname()[1], token, nursery.cancel_scope.cancel))
            await trio.serve_listeners(serve, listeners)

    thread = threading.Thread(target=trio.run, args=[serve_all])
    thread.start()
    port, token, stop = ports.get()
    try:
        yield port
    finally:
        token.run_sync_soon(stop)
        thread.join()


def test_rules_that_pass(capfd):
    """Text: one line for each rule, and the numbers."""
    with peer() as port:
        status = main(["conformance", f"rsio://127.0.0.1:{port}", "--only", SOME])
    lines = capfd.readouterr().out.splitlines()
    assert status == 0
    assert [line.split()[:2] for line in lines[:3]] == [
        ["passed", "RSIO-09"],
        ["passed", "RSIO-20"],
        ["passed", "B07"],
    ]
    assert lines[3:] == ["3 passed, 0 failed, 0 skipped"]


def test_a_rule_that_fails(capfd):
    """JSON: an object for each rule; the reason names rule, cause and octets. The status is 1."""
    with peer("does not acknowledge cancel") as port:
        arguments = ["--only", "B07", "--patience", "0.3", "--json"]
        status = main(["conformance", f"rsio://127.0.0.1:{port}", *arguments])
    result, summary = map(json.loads, capfd.readouterr().out.splitlines())
    assert status == 1
    assert (result["rule"], result["source"], result["verdict"]) == ("B07", "B", "failed")
    assert "the end of 'never'" in result["reason"]
    assert "last octets received: 02" in result["reason"]
    assert summary == {"summary": {"passed": 0, "failed": 1, "skipped": 0}}


def test_a_rule_that_cannot_be_tested(capfd):
    """The line says why, and the status is 0."""
    with peer() as port:
        status = main(["conformance", f"rsio://127.0.0.1:{port}", "--only", "B16,RSIO-12"])
    lines = capfd.readouterr().out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines[::2]] == ["skipped", "skipped", "0"]
    assert "--pid" in lines[3]


def test_the_list(capfd):
    """All rules, without a connection."""
    assert main(["conformance", "--list"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(RULES)
    assert main(["conformance", "--list", "--json", "--only", "RSIO-46"]) == 0
    assert json.loads(capfd.readouterr().out)["needs"] == ["slow"]


def test_nobody_listens(capfd):
    """Status 3."""
    with peer() as port:
        pass
    assert main(["conformance", f"rsio://127.0.0.1:{port}"]) == 3
    assert "cannot connect" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["rsio://127.0.0.1:1", "--only", "RSIO-59"], "there is no rule 'RSIO-59'"),
        (["tcp://127.0.0.1:1"], "neither rsio://HOST:PORT nor"),
        (["rsio://127.0.0.1"], "neither rsio://HOST:PORT nor"),
        (["--listen", "rsios://127.0.0.1:0"], "is not rsio://HOST:PORT"),
        ([], "one of the arguments"),
        (["rsio://127.0.0.1:1", "--ca", "x"], "--ca works only with rsios://"),
    ],
)
def test_wrong_usage(arguments, text, capfd):
    """Status 2, and a text that says what is wrong."""
    assert main(["conformance", *arguments]) == 2
    assert text in capfd.readouterr().err


@contextmanager
def dialler(port):
    """A client in another thread, which connects to a port again and again."""
    tokens = queue.SimpleQueue()
    shared = Shared()

    async def dial():
        with trio.CancelScope() as scope:
            tokens.put((trio.lowlevel.current_trio_token(), scope.cancel))
            while True:
                try:
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                except OSError:
                    await trio.sleep(0.01)
                else:
                    await Reference(stream, "client", shared).run()

    thread = threading.Thread(target=trio.run, args=[dial])
    thread.start()
    token, stop = tokens.get()
    try:
        yield
    finally:
        token.run_sync_soon(stop)
        thread.join()


def test_a_client(capfd):
    """It is told where to connect to; rules for servers are skipped."""
    with peer() as port:
        pass
    with dialler(port):
        arguments = ["--listen", f"rsio://127.0.0.1:{port}", "--only", "RSIO-07,RSIO-08,RSIO-21"]
        status = main(["conformance", *arguments])
    lines = capfd.readouterr().out.splitlines()
    assert status == 0
    assert lines[0] == f"listening on rsio://127.0.0.1:{port}"
    assert [line.split()[0] for line in lines[1:]] == ["passed", "skipped", "it", "passed", "2"]
