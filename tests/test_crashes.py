"""Whose fault is it when a connection crashes: ours, or that of an object of the application?

Without this, the log asks to report a mistake in a transport that the application wrote.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    FrameTransport,
    InternalError,
    Responder,
    TransportInfo,
    connect,
    parse_uri,
    rsio,
    serve_transport,
    ttrpc,
)
from rsocket_trio.interactions.isolation import contained, crash
from rsocket_trio.lumberjack.server.server import _Registry
from rsocket_trio.sockets.byte_stream import ByteStream
from tests.lumberjack.receiving import full_window, shared
from tests.ttrpc.scenes import request, things

HERE = "test_crashes.py, which is not in rsocket_trio"
REPORT = "please report this"


class Broken(trio.abc.HalfCloseableStream):
    """A stream with a mistake, behind the bytes that it is given."""

    def __init__(self, received: bytes = b"", scope=None) -> None:
        self.received = received
        self.scope = scope or trio.CancelScope()

    async def receive_some(self, max_bytes=None):
        await trio.lowlevel.checkpoint()
        received, self.received = self.received, b""
        if not received:
            self.scope.cancel()
        return received or {}["missing"]

    async def send_all(self, data):
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self):
        await trio.lowlevel.checkpoint()

    async def send_eof(self):
        await trio.lowlevel.checkpoint()

    async def aclose(self):
        pass  # a cancellation here would take the place of the mistake


class Mistaken(FrameTransport):
    """A transport with a mistake: it raises, or it returns what is no list of frames."""

    def __init__(self, answer=None, scope=None) -> None:
        self.info = TransportInfo(scheme="test", peer="tester")
        self.answer = answer
        self.scope = scope or trio.CancelScope()

    async def receive_frames(self):
        await trio.lowlevel.checkpoint()
        self.scope.cancel()
        return {}["missing"] if self.answer is None else self.answer

    async def send_frames(self, frames):
        await trio.lowlevel.checkpoint()

    def close(self):
        pass

    async def aclose(self):
        pass  # a cancellation here would take the place of the mistake


async def serve_lumberjack(stream):
    async def handle(batch):
        pass

    info = TransportInfo(scheme="memory", peer="tester")
    await _Registry(shared(handle), None, None).receive(ByteStream(stream, info))


SERVERS = {
    "rsocket": lambda: serve_transport(Responder(), Mistaken()),
    "rsio": lambda: rsio.serve_stream({}, Broken()),
    "rsio, a transport": lambda: rsio.serve_stream({}, Mistaken()),
    "ttrpc": lambda: ttrpc.serve_stream(things(), Broken(request(1, "Echo"))),
    "lumberjack": lambda: serve_lumberjack(Broken(full_window(1))),
}


@pytest.mark.parametrize("wire", SERVERS)
async def test_a_mistake_in_a_transport_of_a_server(wire, caplog):
    """The log names the place, and does not ask for a report."""
    await SERVERS[wire]()
    (record,) = [each for each in caplog.records if "crashed" in each.message]
    assert HERE in record.message
    assert REPORT not in record.message
    assert record.exc_info is not None


CLIENTS = {
    "rsocket": lambda scope=None: connect(Mistaken(scope=scope)),
    "rsio": lambda scope=None: rsio.connect(Broken(scope=scope)),
    "ttrpc": lambda scope=None: ttrpc.connect(Broken(scope=scope)),
}


@pytest.mark.parametrize("wire", CLIENTS)
async def test_a_mistake_in_a_transport_of_a_client(wire):
    """The error of the block names the place."""
    with pytest.raises(InternalError) as caught:
        async with CLIENTS[wire]():
            await trio.sleep_forever()
    assert HERE in str(caught.value)
    assert REPORT not in str(caught.value)


@pytest.mark.parametrize("wire", CLIENTS)
async def test_a_mistake_while_the_caller_is_cancelled(wire):
    """The error is the same, alone: the scope does not leave it in a group."""
    with pytest.raises(InternalError, match=HERE), trio.CancelScope() as scope:
        async with CLIENTS[wire](scope):
            await trio.sleep_forever()


async def test_a_transport_that_returns_what_it_must_not(caplog):
    """The error is raised in our code, but its cause is not there."""
    await serve_transport(Responder(), Mistaken([None]))
    (record,) = [each for each in caplog.records if "crashed" in each.message]
    assert "check first what its tests.test_crashes.Mistaken does and returns" in record.message


def test_a_fault_of_ours_is_to_be_reported():
    """Also one that is raised by what we call."""
    with pytest.raises(TypeError) as caught:
        parse_uri(None)  # type: ignore[arg-type]
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert REPORT in crash(error, trio.testing.memory_stream_pair()[0])


async def test_a_cancellation_goes_on():
    """It is not logged as a crash, and an error beside it is."""
    with trio.move_on_after(0) as scope:
        with contained(TransportInfo(scheme="test"), object()):
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_what_ends_the_program_goes_on():
    """A connection does not keep a Ctrl-C for itself."""
    with pytest.raises(KeyboardInterrupt):
        with contained(TransportInfo(scheme="test"), object()):
            raise KeyboardInterrupt
