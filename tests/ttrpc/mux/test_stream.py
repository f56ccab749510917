"""The streams of a trunk are streams as trio has them."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.ttrpc.mux import MultiplexedStream, Trunk, multiplexed
from tests.ttrpc.mux.trunks import trunk_pair

Pair = tuple[trio.abc.Stream, trio.abc.Stream]


def socket_pair() -> Pair:
    here, there = socket.socketpair()
    return (
        trio.SocketStream(trio.socket.from_stdlib_socket(here)),
        trio.SocketStream(trio.socket.from_stdlib_socket(there)),
    )


async def hold(
    stream: trio.abc.Stream, *, task_status: trio.TaskStatus[Trunk] = trio.TASK_STATUS_IGNORED
) -> None:
    async with multiplexed(stream, max_unread=1000, patience=math.inf) as trunk:
        task_status.started(trunk)
        await trio.sleep_forever()


CARRIERS: dict[str, Callable[[], Pair]] = {
    "memory": trio.testing.memory_stream_pair,
    "lockstep": trio.testing.lockstep_stream_pair,
    "socket": socket_pair,
}


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_trio_finds_no_fault(carrier: str) -> None:
    """Its own check of two-way streams; with a carrier that can be full, also while it is."""
    async with trio.open_nursery() as nursery:

        async def make() -> Pair:
            here, there = CARRIERS[carrier]()
            one = await nursery.start(hold, here)
            other = await nursery.start(hold, there)
            return one.open(1), other.open(1)

        async def make_clogged() -> Pair:
            one, other = await make()
            async with trio.open_nursery() as filling:
                filling.start_soon(fill, one)
                filling.start_soon(fill, other)
                await trio.testing.wait_all_tasks_blocked()
                filling.cancel_scope.cancel()
            return one, other

        clogged = make_clogged if carrier == "lockstep" else None
        await trio.testing.check_two_way_stream(make, clogged)
        nursery.cancel_scope.cancel()


async def fill(stream: trio.abc.Stream) -> None:
    while True:
        await stream.send_all(b"x" * 10_000)


async def test_only_one_task_sends() -> None:
    """Also if the other one waits until it could."""
    here, _ = trio.testing.lockstep_stream_pair()
    async with multiplexed(here) as trunk:
        stream = trunk.open(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"x")
            await trio.testing.wait_all_tasks_blocked()
            for call in (partial(stream.send_all, b"y"), stream.wait_send_all_might_not_block):
                with pytest.raises(trio.BusyResourceError, match="another task sends"):
                    await call()
            nursery.cancel_scope.cancel()


async def test_waiting_to_send_ends_with_the_stream() -> None:
    """A task that waits for its turn learns that another has closed the stream."""
    here, _ = trio.testing.lockstep_stream_pair()
    async with multiplexed(here) as trunk:
        one, other = trunk.open(1), trunk.open(2)

        async def expect_closed(call: Callable[[], object]) -> None:
            with pytest.raises(trio.ClosedResourceError):
                await call()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_closed, partial(one.send_all, b"being written"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(expect_closed, partial(other.send_all, b"waits"))
            await trio.testing.wait_all_tasks_blocked()
            await other.aclose()
            await one.aclose()
        for stream in (one, other):
            await expect_closed(stream.receive_some)


@pytest.mark.parametrize("wrong", [0, -1, 2**32])
async def test_numbers_that_cannot_be_opened(wrong: int) -> None:
    """0 is reserved; others have 32 bits; each can be opened once."""
    async with trunk_pair() as (trunk, _):
        with pytest.raises(ValueError, match=r"connection must be from 1 to 4294967295, not"):
            trunk.open(wrong)
        stream, other = trunk.open(2**32 - 1), trunk.open(2)
        for _ in range(2):
            with pytest.raises(ValueError, match="connection 4294967295 of this trunk was opened"):
                trunk.open(2**32 - 1)
            await stream.aclose()
        await other.aclose()
        with pytest.raises(trio.ClosedResourceError, match="this trunk is closed"):
            trunk.open(1)


async def test_only_trunks_make_streams() -> None:
    """The constructors are not for users."""
    with pytest.raises(TypeError, match=r"Trunk\.open gives one"):
        MultiplexedStream()
    with pytest.raises(TypeError, match="multiplexed gives one"):
        Trunk()
