"""Batches in a spool: `to_store` writes them, `stored_events` reads them.

A batch is stored as it came. There are three encodings:

- ``json-lines``: JSON texts, each followed by a line end. Most uncompressed batches.
- ``lumberjack-2``, ``lumberjack-1``: event frames of this version. They hold uncompressed batches
  that lines cannot hold: JSON texts that contain line ends, and key-value pairs.
- ``lumberjack-2-zlib``, ``lumberjack-1-zlib``: a zlib stream of event frames, the payload of a
  compressed frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from .. import spool
from ..errors import RemoteProtocolError, RSocketError
from ..spool import StoredBatch
from .wire.encoder import encode_batch
from .wire.events import decode_slices
from .wire.frames import COMPRESSED, MAX_U32, SHORT, WINDOW
from .wire.limits import LumberjackLimits
from .wire.reader import BatchReader

if TYPE_CHECKING:
    from .server.batch import Batch

__all__ = ["StoredEvents", "UnknownEncoding", "stored_events", "to_store"]

_LINES: Final = "json-lines"
_FRAMES: Final = {"lumberjack-1": 1, "lumberjack-2": 2}
_COMPRESSED: Final = {"lumberjack-1-zlib": 1, "lumberjack-2-zlib": 2}

# The receiver has checked these batches against its own limits, which are not known here.
_ANY_SIZE: Final = LumberjackLimits(
    max_window=MAX_U32,
    max_event_size=MAX_U32,
    max_compressed_size=MAX_U32,
    max_inflated_size=MAX_U32,
    max_compressed_frames=MAX_U32,
    max_compressed_windows=MAX_U32,
    max_batch_size=MAX_U32,
    max_pairs=MAX_U32,
    max_batch_pairs=MAX_U32,
)


class UnknownEncoding(RSocketError):
    """A stored batch was not written by `to_store`, or its bytes are damaged."""


@attrs.frozen(kw_only=True)
class StoredEvents:
    """The events of a stored batch that a reader asked for.

    Attributes:
        raw: The events as they came: JSON texts in UTF-8, or key-value pairs.
        is_json: Whether they are JSON texts.
        first: The offset of the first of them in the spool.
    """

    raw: list[bytes] = attrs.field(repr=False)
    is_json: bool
    first: int

    def decoded(self) -> Iterator[object]:
        """Iterate over the events, decoded; an `InvalidEvent` is yielded, not raised."""
        for decoded, _ in decode_slices(self.raw, self.is_json):
            yield from decoded


def to_store(batch: Batch) -> spool.Batch:
    """Return a batch of a sender as a batch for `Spool.append`.

    Its facts are ``peer``, the address of the sender if it is known, and ``version``, the version
    of the protocol.

    Args:
        batch: A batch with one event or more, as each batch that a handler gets.
    """
    facts = {"version": str(batch.version)}
    if batch.transport.peer:
        facts["peer"] = batch.transport.peer
    if batch.compressed is not None:
        encoding = f"lumberjack-{batch.version}-zlib"
        return spool.Batch(len(batch), batch.compressed, encoding=encoding, facts=facts)
    if batch.is_json:
        lines = b"\n".join((*batch.raw, b""))
        if lines.count(b"\n") == len(batch):
            return spool.Batch(len(batch), lines, encoding=_LINES, facts=facts)
    version = 2 if batch.is_json else 1
    frames = encode_batch(batch.raw, version=version, compression_level=0, limits=_ANY_SIZE)
    data = memoryview(frames)[SHORT.size :]  # without the W frame
    return spool.Batch(len(batch), data, encoding=f"lumberjack-{version}", facts=facts)


def stored_events(stored: StoredBatch) -> StoredEvents:
    """Return the events of a stored batch that were asked for.

    Args:
        stored: A batch of a spool that contains batches of `to_store`.

    Raises:
        UnknownEncoding: `to_store` has not written this batch, or it is damaged.
    """
    encoding = stored.encoding
    is_json = True
    if encoding == _LINES:
        raw = stored.data.split(b"\n")
        raw.pop()  # What follows the last line end is empty.
    elif encoding in _FRAMES or encoding in _COMPRESSED:
        raw, is_json = _from_frames(stored)
    else:
        raise UnknownEncoding(
            f"the batch at offset {stored.first} has the encoding {encoding!r}, which is not one"
            " of a Lumberjack receiver"
        )
    if len(raw) != stored.count:
        raise UnknownEncoding(
            f"the batch at offset {stored.first} has {len(raw)} events, and not {stored.count}"
        )
    if stored.wanted != stored.count:
        raw = raw[stored.skip : stored.skip + stored.wanted]
    return StoredEvents(raw=raw, is_json=is_json, first=stored.start)


def _from_frames(stored: StoredBatch) -> tuple[list[bytes], bool]:
    compressed = _COMPRESSED.get(stored.encoding)
    version = compressed or _FRAMES[stored.encoding]
    if max(stored.count, len(stored.data)) > MAX_U32:
        raise UnknownEncoding(f"the batch at offset {stored.first} is larger than a batch can be")
    head = SHORT.pack(0x30 + version, WINDOW, stored.count)
    if compressed:
        head += SHORT.pack(0x30 + version, COMPRESSED, len(stored.data))
    reader = BatchReader(_ANY_SIZE)
    try:
        found = reader.feed(head + stored.data)
        while reader.more:
            found += reader.feed(b"")
        [batch] = found
    except (RemoteProtocolError, ValueError) as error:
        raise UnknownEncoding(
            f"the batch at offset {stored.first} cannot be read: {error}"
        ) from error
    return batch.events, batch.is_json
