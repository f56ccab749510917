"""A listener on a Unix socket whose queue is full, as that of a server which is busy."""

from __future__ import annotations

import socket

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rsocket_trio.sockets.unix import connect_unix
from rsocket_trio.uri import parse_uri


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)
        yield listener


@pytest.fixture
def uri(listener):
    return parse_uri(f"unix://{listener.getsockname()}")


async def test_a_client_waits_for_a_place(listener, uri, autojump_clock):
    """Each stream that it gets is connected: what it sends arrives."""
    count = 5
    streams = []

    async def dial():
        streams.append(await connect_unix(uri))

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(dial)
        await wait_all_tasks_blocked(0.01)
        assert len(streams) < count
        accepted = []
        for _ in range(count):
            await trio.sleep(0.5)
            accepted.append(listener.accept()[0])
    for stream in streams:
        async with stream:
            await stream.send_all(b"x")
    for each in accepted:
        with each:
            assert each.recv(10) == b"x"


async def test_a_listener_that_accepts_nothing(listener, uri, autojump_clock):
    """After 10 s there is an error, which says why."""
    waiting = [await connect_unix(uri) for _ in range(2)]
    began = trio.current_time()
    with pytest.raises(OSError, match="queue of connections was full for 10 s"):
        await connect_unix(uri)
    assert trio.current_time() - began == pytest.approx(10)
    for each in waiting:
        await each.aclose()
