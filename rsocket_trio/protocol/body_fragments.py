"""Cutting a payload into fragments while its data are still being made: `BodyFragments`.

The rules are those of `rsocket_trio.protocol.fragmentation`, with one difference. Nobody knows
which chunk is the last, so a fragment leaves once it is full, or has at least `EAGER` bytes and
no more are at hand; and the last may be empty. Fragments of fewer bytes are refused by
rsocket-java.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, METADATA_LENGTH_SIZE, NEXT
from rsocket_trio.frames.payload import encode_payload
from rsocket_trio.frames.request import encode_request

from .fragmentation import MIN_SIZE, PAYLOAD_HEAD, REQUEST_N_HEAD

__all__ = ["EAGER", "BodyFragments"]

EAGER: Final = 64
"""Bytes of data that are worth a fragment, though more would fit."""


class BodyFragments:
    """The frames of one payload whose data come in chunks.

    `add` a chunk and take frames with `next` while `ready`; behind the last chunk call `end`, and
    take the rest.

    Args:
        fragment_size: No frame is longer than this, in bytes without the length prefix of TCP.
        flags: Of the payload: ``NEXT`` (not for requests), ``COMPLETE``.
        metadata: ``None`` when absent.
        frame_type: Of the request that begins with this; ``None`` for a PAYLOAD.
        initial_n: Of that request, where it has one.
        whole: Make no fragments but one frame, at the end. For wires that have none; the chunks
            must fit ``fragment_size`` together.

    Attributes:
        stream_id: To be set before the first frame is taken.

    Raises:
        LocalProtocolError: ``fragment_size`` is below the least there can be.
    """

    __slots__ = (
        "_data",
        "_done",
        "_ended",
        "_flags",
        "_frame_type",
        "_initial_n",
        "_metadata",
        "_metadata_at",
        "_size",
        "_whole",
        "stream_id",
    )

    def __init__(
        self,
        fragment_size: int,
        flags: int,
        metadata: bytes | None,
        *,
        frame_type: int | None = None,
        initial_n: int | None = None,
        whole: bool = False,
    ) -> None:
        if fragment_size < MIN_SIZE:
            raise LocalProtocolError(
                f"fragments need at least {MIN_SIZE} bytes, not {fragment_size}"
            )
        self.stream_id = 0
        self._size = fragment_size
        self._whole = whole
        self._flags = flags
        self._frame_type = frame_type
        self._initial_n = initial_n
        self._metadata = metadata
        self._metadata_at = 0
        self._data = bytearray()
        self._ended = False
        self._done = False

    def add(self, chunk: bytes | bytearray | memoryview) -> None:
        """The next chunk of the data, of any size."""
        self._data += chunk

    def end(self) -> None:
        """There are no more chunks."""
        self._ended = True

    @property
    def ready(self) -> bool:
        """Whether a frame should be taken."""
        if self._done or self._ended:
            return not self._done
        return len(self._data) >= EAGER and not self._whole

    def next(self) -> bytes:
        """The next frame. Only while `ready`."""
        first = self._frame_type
        room = self._size - (PAYLOAD_HEAD if self._initial_n is None else REQUEST_N_HEAD)
        metadata = self._metadata
        if metadata is not None:
            room -= METADATA_LENGTH_SIZE
            # Only what leaves is cut: the rest, cut off each time, would be copied each time.
            part = metadata[self._metadata_at : self._metadata_at + room]
            self._metadata_at += len(part)
            if self._metadata_at == len(metadata):
                self._metadata = None
            metadata = part
            room -= len(part)
        # All metadata go before any data (Protocol.md, "Fragmentation And Reassembly").
        data = b"" if self._metadata is not None else bytes(self._data[:room])
        del self._data[: len(data)]
        last = self._ended and not self._data and self._metadata is None
        self._done = last
        if first is not None:
            self._frame_type = None
            n, self._initial_n = self._initial_n, None
            flags = self._flags if last else self._flags & ~COMPLETE | FOLLOWS
            self._flags |= NEXT  # of the PAYLOAD frames that follow
            return encode_request(first, self.stream_id, flags, n, metadata, data)
        flags = self._flags if last else self._flags & ~COMPLETE | FOLLOWS
        return encode_payload(self.stream_id, flags, metadata, data)
