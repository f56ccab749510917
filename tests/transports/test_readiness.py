"""One epoll for the many sockets of a run: what edge-triggered events must not lose."""

from __future__ import annotations

import gc
import os
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import NoReturn

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectFailed, Payload, Requester, connect, os_support, serve
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import readiness
from rsocket_trio.transports.dial import open_transport
from rsocket_trio.transports.direct import DirectStream
from rsocket_trio.transports.readiness import MANY, Readiness
from rsocket_trio.uri import as_uri

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
        with trio.fail_after(1):
            assert await ours.receive_some() == b"second"


async def test_a_wait_without_a_read_loses_nothing(many: None) -> None:
    """As long as no task reads, each wait ends at once, like those of trio."""
    async with pair() as (ours, theirs):
        await theirs.send_all(b"x")
        with trio.fail_after(1):
            for _ in range(3):
                await ours.wait_received()
        assert ours.receive_nowait(10) == b"x"


async def test_failed_handshakes_are_not_counted(many: None) -> None:
    """Their streams are closed below, and yet the run forgets them."""
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, KnownAnswers(), "ws://127.0.0.1:0")
        uri = as_uri(server.uris[0])
        for _ in range(3):
            async with await trio.open_tcp_stream("127.0.0.1", uri.port) as client:
                await client.send_all(b"nonsense\r\n\r\n")
                with suppress(trio.BrokenResourceError):
                    while await client.receive_some():
                        pass
        with pytest.raises(ConnectFailed):
            async with open_transport(f"ws://127.0.0.1:{uri.port}/nowhere"):
                raise AssertionError("the path exists")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert Readiness.of_this_run().streams == 0
        await server.aclose(grace=1)


def test_system_tasks_read_when_the_run_ends(many: None) -> None:
    """The epoll ends with the main task; a cleanup that still reads waits as trio does."""
    received: list[bytes] = []

    async def outlive(ours: DirectStream, theirs: trio.SocketStream, cushion: float) -> None:
        try:
            await ours.receive_some()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await trio.sleep(cushion)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(answer, ours)
                    await trio.sleep(0.02)
                    await theirs.send_all(b"x")

    async def wait_shielded(ours: DirectStream, theirs: trio.SocketStream) -> None:
        with trio.CancelScope(shield=True), trio.move_on_after(1):
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
            with trio.CancelScope(shield=True), trio.move_on_after(1):
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
            waits = 0
            with trio.move_on_after(0.05):
                while True:
                    await ours.wait_received()
                    waits += 1
                    assert ours.receive_nowait(10) is None
            assert 1 <= waits < 5
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
        with trio.fail_after(1):
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


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_a_dropped_stream_is_closed(many: None) -> None:
    """The garbage collector closes its socket, and its watch goes as well."""
    async with pair() as (_other, _):
        shared = Readiness.of_this_run()
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with listener:
            host, port = listener.socket.getsockname()[:2]
            stream = await trio.open_tcp_stream(host, port)
            async with await listener.accept() as theirs:
                dropped = DirectStream(stream)
                with trio.move_on_after(0.01):
                    await dropped.receive_some()
                assert shared.streams == 1
                del dropped, stream
                gc.collect()
                with trio.fail_after(1):
                    assert await theirs.receive_some() == b""
        async with pair() as (ours, theirs):
            await theirs.send_all(b"x")
            await receive_x(ours)
            assert shared.streams == 1


def refuse_call(*arguments: object) -> None:
    raise OSError(24, "Too many open files")


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
