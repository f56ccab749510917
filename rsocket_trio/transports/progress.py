"""Sending large batches so that progress can be seen: `send_in_parts`.

A batch may take longer than a peer is allowed to be silent. Whether it moves is a sign of life
(`FrameTransport.sent_at`), and most streams do not tell until all of it has left.
"""

from __future__ import annotations

from typing import Final

import trio

from .base import FrameTransport
from .direct import DirectStream

__all__ = ["PART", "note_progress", "send_in_parts"]

PART: Final = 64 * 2**10
"""Bytes given to a stream at a time, where it does not note its progress itself."""


async def send_in_parts(
    transport: FrameTransport, stream: trio.abc.SendStream, data: bytes | bytearray
) -> None:
    """Send all of ``data`` over ``stream``, and note each part in ``transport.sent_at``.

    Checkpoint: as the stream's ``send_all``.
    If cancelled: a part may have been sent; the transport is good only for closing.
    """
    if len(data) <= PART or isinstance(stream, DirectStream):
        await stream.send_all(data)
        return
    with memoryview(data) as view:
        for start in range(0, len(view), PART):
            with view[start : start + PART] as part:
                await stream.send_all(part)
            transport.sent_at = trio.current_time()


def note_progress(transport: FrameTransport, stream: trio.abc.SendStream) -> None:
    """Have a stream that can tell say in ``transport.sent_at`` when a part has left."""
    if isinstance(stream, DirectStream):

        def note() -> None:
            transport.sent_at = trio.current_time()

        stream.note_progress = note
