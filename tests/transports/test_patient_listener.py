"""Accepting while the system has no resources: the server waits, and logs little."""

from __future__ import annotations

import errno
import os
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.log_policy import BURST
from rsocket_trio.sockets.patient_listener import PatientListener
from rsocket_trio.transports import FrameTransport, accept_transports, open_transport
from rsocket_trio.uri import Uri, parse_uri

URI = parse_uri("tcp://127.0.0.1:1")


class Full(trio.abc.Listener[trio.SocketStream]):
    """A listener that fails a number of times, and then reports that it has accepted."""

    def __init__(self, times: int, number: int) -> None:
        self.times = times
        self.number = number
        self.closed = False

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        if not self.times:
            raise ConnectionAbortedError(errno.ECONNABORTED, "accepted, as it were")
        self.times -= 1
        raise OSError(self.number, os.strerror(self.number))

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        self.closed = True


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
async def test_accepting_without_resources(
    number: int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It tries ten times a second, and logs that a few times; other errors are raised."""
    listener = Full(300, number)
    with pytest.raises(ConnectionAbortedError):
        async with PatientListener(listener, URI) as patient:
            await patient.accept()
    assert listener.closed
    assert 29.9 < trio.current_time() < 30.1
    assert len(caplog.records) <= 3 * (BURST + 1)
    assert os.strerror(number) in caplog.text
    assert str(URI) in caplog.text
    assert {record.name for record in caplog.records} == {"rsocket_trio"}


async def test_a_server_without_file_descriptors(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Connected clients are served meanwhile; waiting ones are served when there is room."""

    async def echo(transport: FrameTransport) -> None:
        while frames := await transport.receive_frames():
            await transport.send_frames(frames)

    accept = trio.SocketListener.accept
    failures = 0

    async def full(self: trio.SocketListener) -> trio.SocketStream:
        nonlocal failures
        stream = await accept(self)
        if failures < 1:
            failures += 1
            await trio.aclose_forcefully(stream)
            raise OSError(errno.EMFILE, "Too many open files")
        return stream

    uris: list[Uri] = await nursery.start(partial(accept_transports, "tcp://127.0.0.1:0", echo))
    async with open_transport(uris[0]) as first:
        monkeypatch.setattr(trio.SocketListener, "accept", full)
        # One more accept is under way already, which is not affected.
        for _ in range(2):
            async with open_transport(uris[0]):
                await trio.testing.wait_all_tasks_blocked(0.01)
        async with open_transport(uris[0]) as later:
            for client in (first, later):
                await client.send_frames([b"frame"])
                assert await client.receive_frames() == [b"frame"]
    assert failures == 1
    assert [record.name for record in caplog.records] == ["rsocket_trio"]
    nursery.cancel_scope.cancel()
