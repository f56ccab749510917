"""Whether a peer sends no more, or is gone altogether: what the kernel knows."""

from __future__ import annotations

import socket
import struct

import pytest
import trio

from rsocket_trio import os_support
from rsocket_trio.sockets.departure import has_left, is_gone, wait_gone
from rsocket_trio.sockets.direct import direct
from tests.waiting import until

pytestmark = pytest.mark.skipif(not os_support.POLL_HANGUP, reason="the system does not tell")


def stream_of(plain: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(plain))


async def unix():
    here, there = socket.socketpair()
    return stream_of(here), stream_of(there)


async def tcp():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        there = await trio.open_tcp_stream(*listener.socket.getsockname())
        return await listener.accept(), there


@pytest.mark.parametrize("wrap", [direct, lambda stream: stream], ids=["direct", "of trio"])
@pytest.mark.parametrize("make", [unix, tcp])
async def test_a_peer_that_closes_its_sending_half(make, wrap):
    """It has left, and is not gone: it may read answers. Unread bytes make no difference."""
    here, there = await make()
    async with here, there:
        await there.send_all(b"unread")
        assert not has_left(wrap(here))
        await there.send_eof()
        await until(lambda: has_left(wrap(here)))
        assert not is_gone(wrap(here))


async def test_a_peer_on_a_unix_socket_that_closes():
    here, there = await unix()
    async with here:
        assert not is_gone(here)
        await there.aclose()
        assert is_gone(here)


async def test_a_peer_on_tcp_that_resets():
    here, there = await tcp()
    async with here:
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await there.aclose()
        await until(lambda: is_gone(here))


@pytest.mark.parametrize("wakes", [True, False], ids=["epoll", "poll"])
@pytest.mark.parametrize("make", [unix, tcp])
async def test_waiting_until_a_peer_is_gone(make, wakes, monkeypatch, mock_clock):
    """The kernel wakes us: the clock stands still. On TCP it learns it from what we send."""
    monkeypatch.setattr(os_support, "EPOLL", wakes)
    mock_clock.rate = 0.0 if wakes else 100.0
    here, there = await make()
    gone = []

    async def watch():
        await wait_gone(here)
        gone.append(True)

    async with here, trio.open_nursery() as nursery:
        await there.send_eof()
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        assert not gone
        await there.aclose()
        if make is tcp:
            await trio.testing.wait_all_tasks_blocked()
            assert not gone
            await here.send_all(b"answer")


async def test_other_streams_and_closed_sockets():
    here, there = await unix()
    await here.aclose()
    await there.aclose()
    memory, _ = trio.testing.memory_stream_pair()
    for stream in (here, memory):
        assert not has_left(stream)
        assert not is_gone(stream)
