"""One epoll for the many sockets of a run: what edge-triggered events must not lose."""

from __future__ import annotations

import os
import socket
from contextlib import AsyncExitStack
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import Payload, Requester, connect, serve
from rsocket_trio.sockets import readiness
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.sockets.readiness import MANY, Readiness
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from tests.transports.readiness_pairs import needs_epoll, pair, receive_x

pytestmark = needs_epoll


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


async def test_peers_that_leave_at_once(monkeypatch: pytest.MonkeyPatch, many: None) -> None:
    """Their ends take turns, and a connection with something to read does not wait for them."""
    monkeypatch.setattr(readiness, "_ENDS_AT_ONCE", 2)
    order: list[bytes] = []

    async def receive(stream: DirectStream) -> None:
        order.append(await stream.receive_some())

    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(pair()) for _ in range(21)]
        async with trio.open_nursery() as nursery:
            for ours, _ in pairs:
                nursery.start_soon(receive, ours)
            await trio.testing.wait_all_tasks_blocked()
            for _, theirs in pairs[:20]:
                theirs.socket.close()
            await pairs[20][1].send_all(b"alive")
    assert sorted(order) == [b""] * 20 + [b"alive"]
    assert order.index(b"alive") <= 2


async def test_a_wait_cancelled_after_its_event_loses_nothing(many: None) -> None:
    """The event that it had found is for the next wait."""
    async with pair() as (ours, theirs):
        await theirs.send_all(b"first")
        assert await ours.receive_some() == b"first"
        await theirs.send_all(b"second")
        await trio.testing.wait_all_tasks_blocked(0.01)
        with trio.CancelScope() as scope:
            scope.cancel()
            await ours.receive_some()
        assert scope.cancelled_caught
        with trio.fail_after(30):
            assert await ours.receive_some() == b"second"


async def test_a_wait_without_a_read_loses_nothing(many: None) -> None:
    """As long as no task reads, each wait ends at once, like those of trio."""
    async with pair() as (ours, theirs):
        await theirs.send_all(b"x")
        with trio.fail_after(30):
            for _ in range(3):
                await ours.wait_received()
        assert ours.receive_nowait(10) == b"x"


async def test_an_event_that_is_not_true(many: None) -> None:
    """The next read finds nothing, and then a wait waits: no task takes the processor for itself.

    It may come from a socket with the same number that was closed below, but has a duplicate.
    """
    async with pair() as (ours, theirs), pair() as (other, _):
        with trio.move_on_after(0.01):
            await ours.receive_some()
        number = ours.socket.fileno()
        kept = os.dup(number)
        os.dup2(other.socket.fileno(), number)  # the kernel still tells of the first socket
        try:
            await theirs.send_eof()
            await trio.testing.wait_all_tasks_blocked(0.01)
            await ours.wait_received()
            waits = 1
            with trio.move_on_after(0.05) as scope:
                while True:
                    assert ours.receive_nowait(10) is None
                    await ours.wait_received()
                    waits += 1
            assert scope.cancelled_caught
            assert waits < 5
        finally:
            os.dup2(kept, number)
            os.close(kept)


async def test_urgent_data(many: None) -> None:
    """A read stops at an urgent byte, and the next one takes what follows."""
    async with pair() as (ours, theirs):
        with trio.move_on_after(0.01):
            await ours.receive_some()
        await theirs.send_all(b"before")
        await theirs.socket.send(b"!", socket.MSG_OOB)
        await theirs.send_all(b"after")
        await trio.testing.wait_all_tasks_blocked(0.01)
        with trio.fail_after(30):
            received = b""
            while received != b"beforeafter":
                received += await ours.receive_some()


async def test_two_readers(many: None) -> None:
    """The second is refused, as trio does; the first goes on."""
    async with pair() as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(receive_x, ours)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await ours.receive_some()
        await theirs.send_all(b"x")


async def test_the_run_changes_its_way_of_waiting_at_two_different_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections that come and go near one number do not make all streams register again."""
    monkeypatch.setattr(readiness, "MANY", 4)
    shared = Readiness.of_this_run()
    ways = []
    for change in [shared.join] * 4 + [shared.leave] * 3 + [shared.join] * 3:
        change()
        ways.append(shared.shared)
    assert ways == [False, False, False, True, True, True, False, False, False, True]
