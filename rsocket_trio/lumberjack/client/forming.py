"""Form one window and encode it, with turns for other tasks in between: `form`, `pack`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

import attrs
import trio

from ..wire.compression import compressor
from ..wire.encoder import compressed_head, event_frames, window_head
from .deliveries import Delivery, Piece
from .event_encoder import FRAME_HEAD, EventEncoder

__all__ = ["Formed", "form", "pack"]

_STEP: Final = 256 * 2**10
"""Bytes that are compressed before other tasks run: some milliseconds."""

_SLOW_STEPS: Final = {7: 64 * 2**10, 8: 16 * 2**10, 9: 4 * 2**10}
"""The same at levels that search long for repetitions. Texts of only two letters, which a stranger
may have written into a log, take 100 times as long as others there."""


@attrs.frozen
class Formed:
    """The events of one window.

    Attributes:
        pieces: Where they come from.
        events: Their bytes.
        rest: Events that did not fit.
    """

    pieces: list[Piece]
    events: list[bytes]
    rest: list[Piece]


async def form(
    pieces: Sequence[Piece],
    encoder: EventEncoder,
    max_size: int,
    failed: Callable[[Delivery, Exception], None],
) -> Formed:
    """Encode events until the window has its size. One event always fits.

    Args:
        pieces: The events. They are unchanged if this is cancelled.
        encoder: Encodes those that are not encoded yet.
        max_size: The most bytes of the window, with the heads of its frames.
        failed: Called with a delivery whose event cannot be encoded. It was encoded once before,
            so the caller has changed it meanwhile. Nothing of this piece is sent.

    Checkpoint: after each part of a large window.
    If cancelled: nothing has changed.
    """
    kept: list[Piece] = []
    events: list[bytes] = []
    room = max_size
    for index, piece in enumerate(pieces):
        before = len(events)
        position = piece.start
        while position < piece.stop:
            try:
                part = piece.delivery.encoded[position : piece.stop] or encoder.encode(
                    piece.delivery.events, position, piece.stop
                )
            except Exception as error:  # of the application's own mapping; its `send` raises it
                failed(piece.delivery, error)
                del events[before:]
                break
            size = sum(map(len, part)) + FRAME_HEAD * len(part)
            if size > room:
                part = part[: _fitting(part, room)] or part[: not events]
                events += part
                position += len(part)
                return _cut(kept, piece, position, pieces[index + 1 :], events)
            events += part
            position += len(part)
            room -= size
            if size > _STEP // 2:
                await trio.lowlevel.checkpoint()
        else:
            kept.append(piece)
    return Formed(kept, events, [])


def _cut(
    kept: list[Piece], piece: Piece, position: int, behind: Sequence[Piece], events: list[bytes]
) -> Formed:
    """Return a window that ends inside, before or behind a piece."""
    if position == piece.start:
        return Formed(kept, events, [piece, *behind])
    rest = [piece.delivery.split(piece, position)] if position < piece.stop else []
    return Formed([*kept, piece], events, [*rest, *behind])


def _fitting(events: Sequence[bytes], room: int) -> int:
    """Return how many of the events fit."""
    for count, size in enumerate(accumulate(len(event) + FRAME_HEAD for event in events)):
        if size > room:
            return count
    return len(events)


async def pack(events: Sequence[bytes], encoder: EventEncoder) -> bytes:
    """Return a window as bytes: a W frame, and one C frame or the plain frames.

    Args:
        events: What `form` returns. They keep all limits.
        encoder: Says which version and compression.

    Checkpoint: between the parts of a large window.
    If cancelled: nothing has happened.
    """
    version, level = encoder.version, encoder.compression_level
    window = window_head(version, len(events))
    frames = event_frames(events, version, encoder.limits)
    if not level:
        return b"".join((window, *frames))
    plain = b"".join(frames)
    del frames
    stream = compressor(level)
    parts: list[bytes] = []
    size = _SLOW_STEPS.get(level, _STEP)
    with memoryview(plain) as view:
        for start in range(0, len(view), size):
            if start:
                await trio.lowlevel.checkpoint()
            with view[start : start + size] as step:
                parts.append(stream.compress(step))
    parts.append(stream.flush())
    return b"".join((window, compressed_head(version, sum(map(len, parts))), *parts))
