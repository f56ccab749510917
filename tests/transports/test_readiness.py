"""One epoll for the many sockets of a run: what edge-triggered events must not lose."""

from __future__ import annotations

import select
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import Payload, Requester, connect, os_support, serve
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import readiness
from rsocket_trio.transports.direct import DirectStream
from rsocket_trio.transports.readiness import MANY, Readiness

pytestmark = pytest.mark.skipif(
    not hasattr(select, "epoll"), reason="this system has no epoll: waits are trio's own"
)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection counts as many."""
    monkeypatch.setattr(readiness, "MANY", 1)


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[DirectStream, trio.SocketStream]]:
    """Our end of a TCP connection, and the peer's."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        host, port = listener.socket.getsockname()[:2]
        async with DirectStream(await trio.open_tcp_stream(host, port)) as ours:
            async with await listener.accept() as theirs:
                yield ours, theirs


async def test_a_run_with_many_connections_shares_one_epoll() -> None:
    """Requests are answered, and nothing of the epoll is left when the connections are closed."""
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, KnownAnswers(), "tcp://127.0.0.1:0")
        shared = Readiness.of_this_run()
        async with connect(server.uris[0]) as first:
            async with AsyncExitStack() as stack:
                others = [
                    await stack.enter_async_context(connect(server.uris[0])) for _ in range(MANY)
                ]
                assert shared.shared
                async with trio.open_nursery() as callers:
                    for number, requester in enumerate([first, *others]):
                        callers.start_soon(ask, requester, b"%d" % number)
            while shared.streams >= MANY // 2:
                await trio.lowlevel.checkpoint()
            assert not shared.shared
            await ask(first, b"a few connections wait as trio does")
        await server.aclose(grace=1)


async def ask(requester: Requester, data: bytes) -> None:
    for _ in range(3):
        assert await requester.request_response(Payload(data)) == Payload(data)


async def test_bytes_that_did_not_fit_one_read(many: None) -> None:
    """The kernel tells once that they have arrived, so the wait after a full read ends at once."""
    async with pair() as (ours, theirs):
        await theirs.send_all(b"0123456789")
        received = [await ours.receive_some(4) for _ in range(3)]
        assert received == [b"0123", b"4567", b"89"]


async def test_bytes_that_arrive_while_no_task_waits(many: None) -> None:
    """Their event is kept for the next wait."""
    async with pair() as (ours, theirs):
        await theirs.send_all(b"first")
        assert await ours.receive_some() == b"first"
        await theirs.send_all(b"second")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert await ours.receive_some() == b"second"


async def test_the_end_comes_with_the_last_bytes(many: None) -> None:
    """The kernel tells of both at once; each read after that finds what it should."""
    async with pair() as (ours, theirs):
        await theirs.send_all(b"x")
        assert await ours.receive_some() == b"x"
        await theirs.send_all(b"last")
        await theirs.send_eof()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert [await ours.receive_some() for _ in range(3)] == [b"last", b"", b""]


async def test_a_reset_ends_the_wait(many: None) -> None:
    """It is a BrokenResourceError for the task that waits."""
    async with pair() as (ours, theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_broken, ours)
            await trio.testing.wait_all_tasks_blocked()
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await theirs.aclose()


async def expect_broken(stream: DirectStream) -> None:
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()


async def test_a_cancelled_wait_loses_nothing(many: None) -> None:
    """What arrives after it is for the next wait."""
    async with pair() as (ours, theirs):
        with trio.move_on_after(0.01) as scope:
            await ours.receive_some()
        assert scope.cancelled_caught
        await theirs.send_all(b"later")
        assert await ours.receive_some() == b"later"


async def test_a_stream_closed_under_a_reader(many: None) -> None:
    """The reader gets a ClosedResourceError at once, and the descriptor is forgotten."""
    async with pair() as (ours, _theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_closed, ours)
            await trio.testing.wait_all_tasks_blocked()
            await ours.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await ours.receive_some()


async def expect_closed(stream: DirectStream) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()


async def test_a_reused_descriptor_is_not_mixed_up(many: None) -> None:
    """A socket that gets the number of a closed one is told of its own bytes only."""
    for number in range(5):
        async with pair() as (ours, theirs):
            data = b"connection %d" % number
            await theirs.send_all(data)
            assert await ours.receive_some() == data


async def test_a_socket_closed_below_the_stream(many: None) -> None:
    """A wait that begins after that says so, as trio does."""
    async with pair() as (ours, _theirs):
        await trio.aclose_forcefully(ours.inner)
        with pytest.raises(trio.ClosedResourceError):
            await ours.receive_some()


async def test_few_connections_while_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that began with many connections ends as it should when there are few."""
    monkeypatch.setattr(readiness, "MANY", 4)
    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(pair()) for _ in range(4)]
        for ours, theirs in pairs:
            await theirs.send_all(b"x")
            await receive_x(ours)
        shared = Readiness.of_this_run()
        assert shared.shared
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_x, pairs[3][0])
            await trio.testing.wait_all_tasks_blocked()
            for ours, _ in pairs[:3]:
                await ours.aclose()
            assert not shared.shared
            await pairs[3][1].send_all(b"x")


async def receive_x(stream: DirectStream) -> None:
    assert await stream.receive_some() == b"x"


@pytest.mark.parametrize("lack", ["no epoll", "no more registrations"])
async def test_waits_are_trios_where_the_kernel_has_no_more(
    many: None, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    """Nothing is lost but time."""
    if lack == "no epoll":
        monkeypatch.setattr(os_support, "EPOLL", False)
    else:
        monkeypatch.setattr(Readiness, "register", refuse)
    async with pair() as (ours, theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_x, ours)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await theirs.send_all(b"x")


def refuse(self: Readiness, watch: object, fd: int) -> None:
    raise OSError(28, "No space left on device")


async def test_thousands_of_events_in_one_look(monkeypatch: pytest.MonkeyPatch, many: None) -> None:
    """More events than one look takes come with the next one."""
    monkeypatch.setattr(readiness, "_EVENTS_AT_ONCE", 2)
    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(pair()) for _ in range(9)]
        async with trio.open_nursery() as nursery:
            for ours, _ in pairs:
                nursery.start_soon(receive_x, ours)
            await trio.testing.wait_all_tasks_blocked()
            for _, theirs in pairs:
                nursery.start_soon(partial(theirs.send_all, b"x"))
