"""Events that a stranger can cause are logged a few times, and then counted."""

from __future__ import annotations

import ast
import logging
import ssl
from functools import partial
from pathlib import Path

import pytest
import trio

import rsocket_trio
from rsocket_trio import Responder, serve, serve_transport
from rsocket_trio.frames import RequestFnfFrame, RequestResponseFrame
from rsocket_trio.log_policy import (
    BURST,
    INTERVAL,
    MAX_KINDS,
    MAX_TEXT,
    PeerLog,
    RateLimit,
    Suppressed,
    logger,
)
from rsocket_trio.testing.in_memory import frame_peer_client
from rsocket_trio.transports.memory import memory_transport_pair

ROOT = Path(rsocket_trio.__file__).parent


class Clock:
    """Time that stands still."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def count(limit, kind, times, text="text"):
    return sum(limit.admits(kind, logging.INFO, lambda: text) for _ in range(times))


def lines(caplog, above=logging.DEBUG):
    return [record.getMessage() for record in caplog.records if record.levelno > above]


def test_the_first_lines_and_then_a_count(clock):
    """The first lines of a kind are logged; the rest is a count at the end of the interval."""
    limit = RateLimit(clock)
    assert count(limit, "kind", 2000, "the first") == BURST
    clock.now += INTERVAL - 0.001
    assert count(limit, "kind", 1) == 0
    assert limit.overdue() == []
    clock.now += 0.001
    assert limit.overdue() == [Suppressed(2001 - BURST, logging.INFO, "the first")]
    assert limit.overdue() == []
    assert count(limit, "kind", 10) == BURST


def test_each_kind_has_its_own_limit(clock):
    """A flood of one kind does not hide another, and each kind has its own interval."""
    limit = RateLimit(clock, burst=1, interval=10)
    assert count(limit, "flood", 100) == 1
    clock.now += 6
    assert count(limit, "rare", 1) == 1
    clock.now += 4
    assert limit.overdue() == [Suppressed(99, logging.INFO, "text")]
    assert count(limit, "rare", 3) == 0
    assert count(limit, "flood", 3) == 1
    clock.now += 6
    assert limit.overdue() == [Suppressed(3, logging.INFO, "text")]
    assert limit.overdue(all_of_it=True) == [Suppressed(2, logging.INFO, "text")]
    clock.now += 100
    assert limit.overdue() == []


def test_the_memory_of_the_limit_is_bounded(clock):
    """The number of kinds is limited; the rest share one limit. Texts are cut."""
    limit = RateLimit(clock, burst=1)
    told = [count(limit, number, 2, "x" * 10_000) for number in range(MAX_KINDS + 100)]
    assert told == [1] * (MAX_KINDS + 1) + [0] * 99
    suppressed = limit.overdue(all_of_it=True)
    assert len(suppressed) == MAX_KINDS + 1
    assert sum(each.count for each in suppressed) == MAX_KINDS + 199
    assert {len(each.text) for each in suppressed} == {MAX_TEXT}
    assert count(limit, "room again", 2) == 1


async def test_a_flood_is_a_few_lines(caplog, autojump_clock):
    """The lines are unchanged, the count comes with the next logged line; DEBUG has all lines."""
    caplog.set_level(logging.DEBUG)
    for number in range(1000):
        logger.warning("a flood of %d", number)
        logger.debug("detail %d", number)
    assert lines(caplog) == [f"a flood of {number}" for number in range(BURST)]
    everything = lines(caplog, above=0)
    assert "a flood of 999" in everything
    assert "detail 999" in everything
    await trio.sleep(INTERVAL)
    caplog.clear()
    logger.info("something else")
    assert lines(caplog) == [
        f"{1000 - BURST} more lines of this kind in 10 s, the first of which was: a flood of 0",
        "something else",
    ]
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


async def test_a_line_names_its_caller(caplog):
    """Line and function are the caller's, as in any log."""
    caplog.set_level(logging.DEBUG)
    for log in (logger.debug, logger.info, logger.warning, logger.error):
        log("text")
    logger.log(logging.ERROR, "text")
    try:
        raise ValueError("the fault")
    except ValueError:
        logger.exception("text")
    assert {record.filename for record in caplog.records} == {Path(__file__).name}
    assert "the fault" in caplog.text


async def test_one_error_does_not_hide_another(caplog):
    """Errors raised in different places are different kinds, also inside groups."""

    def fail(where):
        if where == "often":
            raise ValueError("often")
        if where == "rare":
            raise ValueError("rare")
        raise ExceptionGroup("", [ExceptionGroup("", [KeyError("unraised")])])

    for where in ["often"] * 100 + ["rare", "group"]:
        try:
            fail(where)
        except (ValueError, ExceptionGroup):
            logger.exception("a handler failed")
    assert caplog.text.count("ValueError: often") == BURST
    assert caplog.text.count("ValueError: rare") == 1
    assert caplog.text.count("KeyError: 'unraised'") == 1


async def test_an_argument_whose_str_fails(caplog, monkeypatch):
    """The limit is not affected: it uses the message without its arguments."""
    monkeypatch.setattr(logging, "raiseExceptions", False)

    class Odd:
        def __str__(self):
            raise RuntimeError("no")

    for _ in range(BURST + 1):
        logger.error("odd: %s", Odd())
    caplog.clear()
    logger.settle(all_of_it=True)
    assert lines(caplog) == ["1 more lines of this kind in 10 s, the first of which was: odd: %s"]


def test_each_run_has_its_own_limit(caplog):
    """The counts end with their trio run, and outside of a run there is no limit."""

    async def main():
        for _ in range(10):
            logger.error("inside")

    trio.run(main)
    trio.run(main)
    for _ in range(10):
        logger.error("outside")
    assert lines(caplog) == ["inside"] * 2 * BURST + ["outside"] * 10


async def test_disabled_lines_are_not_counted(caplog):
    """Lines below the level of the log cause no summary."""
    quiet = PeerLog("rsocket_trio.test")
    assert quiet.enabled_for(logging.WARNING)
    assert not quiet.enabled_for(logging.INFO)
    for _ in range(100):
        quiet.info("a disabled line")
    quiet.settle(all_of_it=True)
    assert lines(caplog) == []


async def flood(uri, times, data):
    """Open connections one after the other, each to its end."""
    host, port = uri.split("//")[1].split("/")[0].split(":")
    for _ in range(times):
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            if data:
                await stream.send_all(data)
            await stream.send_eof()
            while await stream.receive_some():
                pass


@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws"])
async def test_empty_connections_are_logged_at_debug_only(scheme, caplog):
    """A client that connects and leaves, as a health probe does, causes no other line."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if scheme == "tls" else None
    async with trio.open_nursery() as nursery:
        start = partial(serve, Responder(), f"{scheme}://127.0.0.1:0", ssl_context=context)
        server = await nursery.start(start)
        await flood(server.uris[0], 100, b"")
        await server.aclose(grace=1)
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("scheme", "data"),
    [
        ("tcp", b"\0\0\6" + bytes(6)),
        ("tcp", b"\0\0\3abc"),
        ("ws", b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("ws", b"\r\n\r\n\r\n"),
    ],
)
async def test_refused_connections_are_counted(scheme, data, caplog):
    """A hundred malformed clients cost a few lines, and one line with their number."""
    caplog.set_level(logging.INFO)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Responder(), f"{scheme}://127.0.0.1:0")
        await flood(server.uris[0], 100, data)
        await server.aclose(grace=1)
    assert len(lines(caplog)) == BURST + 1
    assert lines(caplog)[-1].startswith(f"{100 - BURST} more lines of this kind")


async def test_the_next_connection_logs_the_count(caplog, mock_clock):
    """A connection without an error does so too."""
    async with trio.open_nursery() as nursery:
        start = partial(serve, Responder(), "tcp://127.0.0.1:0")
        server = await nursery.start(start)
        for _ in range(BURST + 3):
            logger.error("a flood")
        caplog.clear()
        mock_clock.jump(INTERVAL)
        await flood(server.uris[0], 1, b"")
        await server.aclose(grace=1)
    assert lines(caplog) == ["3 more lines of this kind in 10 s, the first of which was: a flood"]


async def test_failing_handlers_do_not_fill_the_log(caplog, autojump_clock):
    """A peer that repeats a failing request does not fill the log with tracebacks."""
    from rsocket_trio.frames import ErrorFrame, RequestResponseFrame
    from rsocket_trio.testing.frame_peer import FramePeer

    class Failing(Responder):
        async def request_response(self, payload):
            raise KeyError("internal")

    client, server = memory_transport_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, Failing(), server)
        peer = FramePeer(client)
        await peer.setup()
        for number in range(50):
            await peer.send(RequestResponseFrame(2 * number + 1))
            await peer.receive(ErrorFrame)
        await peer.aclose()
    assert caplog.text.count("KeyError: 'internal'") == BURST


def test_all_modules_use_the_log_policy():
    """No other module of the package has a logger, except the command line's for its user."""
    found = {
        str(file.relative_to(ROOT))
        for file in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"getLogger", "basicConfig"}
    }
    assert found == {"log_policy.py", "cli/logs.py"}


class Broken(logging.Filter):
    def filter(self, record):
        raise KeyError("a filter of the application")


class Hollow(ExceptionGroup):
    """A group that says it holds nothing."""

    @property
    def exceptions(self):
        return ()


@pytest.mark.parametrize("frame", [RequestResponseFrame(1), RequestFnfFrame(1)])
@pytest.mark.parametrize("fault", ["filter", "group"])
async def test_what_cannot_be_logged_ends_nothing(frame, fault, log_complaints, monkeypatch):
    """Neither the connection of a request, nor, with it, the server."""

    class Fails(Responder):
        async def request_response(self, payload):
            if payload.data:
                return payload
            raise Hollow("", [KeyError()])

        async def fire_and_forget(self, payload):
            await self.request_response(payload)

    if fault == "filter":
        monkeypatch.setattr(logging.getLogger("rsocket_trio"), "filters", [Broken()])
    async with frame_peer_client(Fails()) as peer:
        await peer.send(frame, RequestResponseFrame(3, data=b"next"))
        answers = [each.stream_id for each in await peer.drain()]
        assert answers[-1] == 3
    assert bool(log_complaints) == (fault == "filter")
    log_complaints.clear()


def test_a_complaint_goes_where_those_of_logging_go(monkeypatch, capsys):
    monkeypatch.undo()
    monkeypatch.setattr(logging.getLogger("rsocket_trio"), "filters", [Broken()])
    logger.error("text")
    assert "a filter of the application" in capsys.readouterr().err
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.error("text")
    assert not capsys.readouterr().err
