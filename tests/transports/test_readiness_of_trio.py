"""Where waits are trio's own: few sockets, a kernel without room, the end of a run."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import NoReturn

import pytest
import trio
import trio.testing

from rsocket_trio import os_support
from rsocket_trio.sockets import readiness
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.sockets.readiness import Readiness
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.transports.readiness_pairs import needs_epoll, pair, receive_x


def refuse_call(*arguments: object) -> None:
    raise OSError(24, "Too many open files")


pytestmark = needs_epoll


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


def test_system_tasks_read_when_the_run_ends(many: None) -> None:
    """The epoll ends with the main task; a cleanup that still reads waits as trio does."""
    received: list[bytes] = []

    async def outlive(ours: DirectStream, theirs: trio.SocketStream, cushion: float) -> None:
        try:
            await ours.receive_some()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(30):
                await trio.sleep(cushion)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(answer, ours)
                    await trio.sleep(0.02)
                    await theirs.send_all(b"x")

    async def wait_shielded(ours: DirectStream, theirs: trio.SocketStream) -> None:
        with trio.CancelScope(shield=True), trio.move_on_after(30):
            received.append(await ours.receive_some())

    async def answer(ours: DirectStream) -> None:
        received.append(await ours.receive_some())

    async def late(theirs: trio.SocketStream) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.02)
                await theirs.send_all(b"y")

    async def main() -> None:
        stack = AsyncExitStack()
        first = await stack.enter_async_context(pair())
        second = await stack.enter_async_context(pair())
        trio.lowlevel.spawn_system_task(outlive, *first, 0.01)
        trio.lowlevel.spawn_system_task(wait_shielded, *second)
        trio.lowlevel.spawn_system_task(late, second[1])
        await trio.testing.wait_all_tasks_blocked()
        kept.append(stack)

    kept: list[object] = []
    trio.run(main)
    assert sorted(received) == [b"x", b"y"]


def test_async_generators_read_when_the_run_ends(many: None) -> None:
    """No system task can begin then."""
    received: list[bytes] = []

    async def generator() -> AsyncIterator[None]:
        try:
            yield
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(30):
                async with pair() as (ours, theirs):
                    await theirs.send_all(b"x")
                    received.append(await ours.receive_some())

    async def main() -> None:
        kept.append(generator())
        await kept[0].__anext__()

    kept: list[AsyncIterator[None]] = []
    trio.run(main)
    assert received == [b"x"]


def test_ctrl_c_as_a_wait_begins(many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that it hit is not woken from another wait, which would crash trio."""
    wait_received = DirectStream.wait_received

    def interrupted(self: DirectStream) -> NoReturn:
        waiting = wait_received(self)
        assert isinstance(waiting, Coroutine)
        waiting.close()
        raise KeyboardInterrupt

    async def main() -> None:
        async with pair() as (ours, theirs):
            with trio.move_on_after(0.01):
                await ours.receive_some()
            monkeypatch.setattr(DirectStream, "wait_received", interrupted)
            try:
                await ours.receive_some()
            finally:
                with trio.CancelScope(shield=True):
                    await theirs.send_all(b"x")
                    await trio.sleep(0.02)

    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(in_a_nursery, main)
    assert caught.group_contains(KeyboardInterrupt)


async def in_a_nursery(function: Callable[[], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(function)


@pytest.mark.parametrize("refused", ["the epoll", "the socket"])
async def test_the_kernel_refuses(
    many: None, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """The wait is trio's, and no task is left behind."""
    if refused == "the epoll":
        monkeypatch.setattr(select, "epoll", refuse_call)
    else:
        monkeypatch.setattr(os_support, "EPOLL_EVENTS", -1)
    async with assert_no_leaks(), pair() as (ours, theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_x, ours)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await theirs.send_all(b"x")


async def test_trios_epoll_has_no_room_for_ours(
    many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All waits are trio's from then on; a system task that raised would crash the run."""
    wait_readable = readiness.wait_readable

    async def refuse_epoll(waited: int | trio.socket.SocketType) -> None:
        if isinstance(waited, int):
            raise OSError(28, "No space left on device")
        await wait_readable(waited)

    monkeypatch.setattr(readiness, "wait_readable", refuse_epoll)
    async with assert_no_leaks(), pair() as (ours, theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_x, ours)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await theirs.send_all(b"x")
