"""Cut a payload into fragments while its data are still being produced: `BodyFragments`.

The rules are those of `rsocket_trio.protocol.fragmentation`, with one difference. The last chunk is
not known in advance. So a fragment leaves once it is full, or once it has at least `EAGER` bytes
and no more are available. The last fragment may be empty. rsocket-java refuses smaller fragments
than `EAGER`.
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
"""A fragment may leave with this many bytes of data, although more would fit."""


class BodyFragments:
    """The frames of one payload whose data come in chunks.

    `add` a chunk and take frames with `next` while `ready`; after the last chunk call `end`, and
    take the rest.

    Args:
        fragment_size: The maximum length of a frame, in bytes without the length prefix of TCP.
        flags: The flags of the payload: ``NEXT`` (not for requests), ``COMPLETE``.
        metadata: ``None`` when absent.
        frame_type: The type of the request that begins with this; ``None`` for a PAYLOAD.
        initial_n: The initial n of that request, if it has one.
        whole: Make only one frame, at the end, for wires without fragments. All chunks together
            must fit into ``fragment_size``.

    Attributes:
        stream_id: Must be set before the first frame is taken.

    Raises:
        LocalProtocolError: ``fragment_size`` is below `MIN_SIZE`.
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
        self.stream_id: int
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
        """Add the next chunk of the data, of any size."""
        self._data += chunk

    def end(self) -> None:
        """End the data: there are no more chunks."""
        self._ended = True

    @property
    def size(self) -> int:
        """The bytes of data and metadata that are in no frame yet."""
        metadata = 0 if self._metadata is None else len(self._metadata) - self._metadata_at
        return len(self._data) + metadata

    @property
    def ready(self) -> bool:
        """Whether a frame is ready to be taken."""
        if self._done or self._ended:
            return not self._done
        return len(self._data) >= EAGER and not self._whole

    def next(self) -> bytes:
        """Return the next frame. Only while `ready`."""
        first = self._frame_type
        room = self._size - (PAYLOAD_HEAD if self._initial_n is None else REQUEST_N_HEAD)
        metadata = self._metadata
        if metadata is not None:
            room -= METADATA_LENGTH_SIZE
            # Only this part is cut: cutting off the rest would copy the rest for each frame.
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
            self._flags |= NEXT  # for the PAYLOAD frames that follow
            return encode_request(first, self.stream_id, flags, n, metadata, data)
        flags = self._flags if last else self._flags & ~COMPLETE | FOLLOWS
        return encode_payload(self.stream_id, flags, metadata, data)
