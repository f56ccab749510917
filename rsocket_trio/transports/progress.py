"""Send large batches in parts, to see progress: `send_in_parts`.

Sending a batch may take longer than the peer is allowed to be silent. Progress is a sign of life
(`FrameTransport.sent_at`), but most streams report it only when the whole batch is sent.
"""

from __future__ import annotations

from typing import Final

import trio

from ..sockets.direct import DirectStream
from .base import FrameTransport

__all__ = ["PART", "note_progress", "send_in_parts"]

PART: Final = 64 * 2**10
"""The bytes of one part, for streams that do not report progress themselves."""


async def send_in_parts(
    transport: FrameTransport, stream: trio.abc.SendStream, data: bytes | bytearray
) -> None:
    """Send all of ``data`` over ``stream``, and note each part in ``transport.sent_at``.

    Checkpoint: as the stream's ``send_all``.
    If cancelled: a part may have been sent; you can only close the transport then.
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
    """Make a `DirectStream` set ``transport.sent_at`` whenever a part is sent."""
    if isinstance(stream, DirectStream):

        def note() -> None:
            transport.sent_at = trio.current_time()

        stream.note_progress = note
