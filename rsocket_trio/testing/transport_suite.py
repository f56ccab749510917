"""A conformance suite for transports: `check_transport`.

It checks that a `FrameTransport` keeps the contract of its base class. All transports of this
package pass it. Run it for yours::

    async def test_my_transport() -> None:
        await check_transport(my_pair)

``my_pair()`` is an async context manager that yields two connected transports.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeAlias

import trio
import trio.testing

from ..transports.base import FrameTransport

__all__ = ["MakePair", "check_transport"]

MakePair: TypeAlias = Callable[
    [], AbstractAsyncContextManager[tuple[FrameTransport, FrameTransport]]
]
"""Makes two connected transports, and closes them at the end of the block."""

_TIMEOUT: Final = 60.0
"""Time limit for each check, in seconds."""

_SIZES: Final = (6, 7, 125, 126, 127, 128, 1023, 1024, 1025, 65535, 65536, 65537, 2**20, 0xFFFFFF)
"""From a frame without a body to the largest, and sizes where the encoding of lengths changes."""


async def check_transport(
    make_pair: MakePair,
    *,
    make_cut: Callable[[], AbstractAsyncContextManager[FrameTransport]] | None = None,
) -> None:
    """Check a pair of transports, in both directions.

    Args:
        make_pair: Makes a new pair for each check.
        make_cut: Makes a transport whose peer vanished after a part of a frame. Omit it if the
            transport cannot deliver parts of frames.

    Raises:
        AssertionError: A check failed; a note names it. It may be in an exception group.

    Checkpoint: always.
    If cancelled: the transports are closed.
    """

    @asynccontextmanager
    async def reversed_pair() -> AsyncIterator[tuple[FrameTransport, FrameTransport]]:
        async with make_pair() as (a, b):
            yield b, a

    for direction, make in (("a to b", make_pair), ("b to a", reversed_pair)):
        for check in _CHECKS:
            try:
                with trio.fail_after(_TIMEOUT):
                    async with make() as (a, b):
                        await check(a, b)
            except BaseException as error:  # exception groups and Cancelled get the note too
                error.add_note(f"check_transport: {check.__name__}, {direction}")
                raise
    if make_cut is not None:
        with trio.fail_after(_TIMEOUT):
            async with make_cut() as transport:
                await _raises(trio.BrokenResourceError, transport.receive_frames)
                await _raises(trio.BrokenResourceError, transport.receive_frames)


async def _raises(expected: type[Exception], call: Callable[[], Awaitable[object]]) -> None:
    try:
        result = await call()
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised, but {result!r} returned")


async def _receive(transport: FrameTransport, count: int) -> list[bytes]:
    frames: list[bytes] = []
    while len(frames) < count:
        batch = await transport.receive_frames()
        assert batch, f"the peer closed after {len(frames)} of {count} frames"
        frames += batch
    return frames


async def frames_of_every_size(a: FrameTransport, b: FrameTransport) -> None:
    """Frames of every size arrive whole and in order."""
    frames = [bytes([size % 251]) * (size - 1) + b"!" for size in _SIZES]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(a.send_frames, frames)
        received = await _receive(b, len(frames))
    assert [len(frame) for frame in received] == list(_SIZES)
    assert received == frames


async def thousands_of_small_frames(a: FrameTransport, b: FrameTransport) -> None:
    """Thousands of frames keep their order in both directions, sent singly and in batches."""
    frames = [b"frame %06d" % number for number in range(5000)]

    async def send(transport: FrameTransport) -> None:
        position, size = 0, 1
        while position < len(frames):
            await transport.send_frames(frames[position : position + size])
            position += size
            size = size * 2 % 1023

    async def receive(transport: FrameTransport) -> None:
        assert await _receive(transport, len(frames)) == frames

    async with trio.open_nursery() as nursery:
        for transport in (a, b):
            nursery.start_soon(send, transport)
            nursery.start_soon(receive, transport)


async def calls_can_be_cancelled(a: FrameTransport, b: FrameTransport) -> None:
    """Receiving is always a checkpoint. Receiving and sending can be cancelled."""
    await a.send_frames([b"frame"])
    with trio.testing.assert_checkpoints():
        assert await b.receive_frames() == [b"frame"]
    for call in partial(b.receive_frames), partial(a.send_frames, []):
        with trio.CancelScope() as scope:
            scope.cancel()
            await call()
        assert scope.cancelled_caught


async def a_cancelled_receive_loses_nothing(a: FrameTransport, b: FrameTransport) -> None:
    """Frames that arrive after a cancelled receive are returned by the next receive."""
    scope = trio.CancelScope()

    async def receive() -> None:
        with scope:
            await b.receive_frames()
            raise AssertionError("receive_frames returned, but nothing was sent")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
    await a.send_frames([b"one", b"two"])
    assert await _receive(b, 2) == [b"one", b"two"]


async def a_clean_close(a: FrameTransport, b: FrameTransport) -> None:
    """The peer receives all frames sent before the close, then always the empty list."""
    async with trio.open_nursery() as nursery:

        async def close_after_sending() -> None:
            await a.send_frames([b"last", b"words"])
            await a.aclose()

        nursery.start_soon(close_after_sending)
        assert await _receive(b, 2) == [b"last", b"words"]
        assert await b.receive_frames() == []
    assert await b.receive_frames() == []
    await b.aclose()


async def sending_to_a_closed_peer(a: FrameTransport, b: FrameTransport) -> None:
    """Repeated sends to a closed peer raise `trio.BrokenResourceError`."""

    async def send_on() -> None:
        while True:
            await a.send_frames([bytes(100_000)])

    await b.aclose()
    await _raises(trio.BrokenResourceError, send_on)


async def use_after_close(a: FrameTransport, b: FrameTransport) -> None:
    """A closed transport raises `trio.ClosedResourceError`, even with unread frames.

    Closing it again does nothing.
    """
    await b.send_frames([b"unread"])
    await a.aclose()
    await _raises(trio.ClosedResourceError, lambda: a.send_frames([b"frame"]))
    await _raises(trio.ClosedResourceError, lambda: a.send_frames([]))
    await _raises(trio.ClosedResourceError, a.receive_frames)
    for call in (lambda: a.send_frames([b"frame"]), a.receive_frames):
        with trio.CancelScope() as scope:
            scope.cancel(reason="the caller of a closed transport is cancelled")
            await call()
        assert scope.cancelled_caught, "a cancelled caller got the error of a closed transport"
    await a.aclose()


async def closing_wakes_the_receiver(a: FrameTransport, b: FrameTransport) -> None:
    """A task that waits for frames gets an error when another task closes the transport."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_raises, trio.ClosedResourceError, a.receive_frames)
        await trio.testing.wait_all_tasks_blocked()
        await a.aclose()


async def a_cancelled_close_closes(a: FrameTransport, b: FrameTransport) -> None:
    """A cancelled `aclose` still closes the transport, and the peer sees the end."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await a.aclose()
    await _raises(trio.ClosedResourceError, a.receive_frames)
    # A forceful close may break the connection for the peer.
    with suppress(trio.BrokenResourceError):
        assert await b.receive_frames() == []


async def a_peer_that_does_not_read(a: FrameTransport, b: FrameTransport) -> None:
    """The sender waits while the other direction works. After cancellation it can be closed."""
    scope = trio.CancelScope()
    sent = 0

    async def send_on() -> None:
        nonlocal sent
        with scope:
            while True:
                await a.send_frames([bytes(10_000)] * 10)
                sent += 1
                assert sent < 10_000, "the transport accepted a gigabyte without a reader"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_on)
        # A socket takes a moment until its buffers are full.
        await trio.testing.wait_all_tasks_blocked(0.05)
        await b.send_frames([b"frame"])
        assert await a.receive_frames() == [b"frame"]
        scope.cancel()
    assert scope.cancelled_caught
    await a.aclose()


async def sending_without_waiting(a: FrameTransport, b: FrameTransport) -> None:
    """`send_frames_nowait` keeps frames that do not fit, and sends them first.

    Later calls raise the errors of the connection.
    """
    if not a.sends_nowait:
        return
    for _ in range(2):
        sent: list[bytes] = []
        while True:
            batch = [b"%06d" % (len(sent) + i) + bytes(1000) for i in range(20)]
            sent += batch
            if not a.send_frames_nowait(batch):
                break
            assert len(sent) < 1_000_000, "the transport accepted a gigabyte without a reader"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.send_frames, [b"behind"])
            assert await _receive(b, len(sent) + 1) == [*sent, b"behind"]
    await b.aclose()
    while a.send_frames_nowait([bytes(100_000)]):
        await trio.lowlevel.checkpoint()
    await _raises(trio.BrokenResourceError, lambda: a.send_frames([]))
    await a.aclose()
    try:
        a.send_frames_nowait([])
    except trio.ClosedResourceError:
        return
    raise AssertionError("a closed transport accepted frames")


_CHECKS: Final = (
    frames_of_every_size,
    thousands_of_small_frames,
    calls_can_be_cancelled,
    a_cancelled_receive_loses_nothing,
    a_clean_close,
    sending_to_a_closed_peer,
    use_after_close,
    closing_wakes_the_receiver,
    a_cancelled_close_closes,
    a_peer_that_does_not_read,
    sending_without_waiting,
)
