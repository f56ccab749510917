"""Payloads in a spool: `payloads_to_store` writes them, `stored_payloads` reads them.

There are two encodings:

- ``json-lines``: JSON texts, each followed by a line end. It is chosen if the MIME type says that
  the data are JSON, no payload has metadata or is empty, and none contains a line end. A
  Lumberjack receiver stores the same.
- ``payloads``: all others. For each payload, two numbers of 4 bytes, high byte first, then the
  metadata, then the data. The first number is the length of the metadata and 1, or 0 if there are
  none; the second is the length of the data.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from ..codecs import DEFAULT_CODECS
from ..lumberjack import UnknownEncoding
from ..metadata.mime_types import MIME
from ..payload import Payload
from ..spool import Batch, StoredBatch

__all__ = ["HEAD", "payloads_to_store", "stored_payloads"]

HEAD: Final = struct.Struct(">II")

_LINES: Final = "json-lines"
_PAYLOADS: Final = "payloads"
_MAX_U32: Final = 2**32 - 1


def payloads_to_store(
    payloads: Sequence[Payload], *, mime_type: str, facts: Mapping[str, str] | None = None
) -> Batch:
    """Return payloads as a batch for `Spool.append`.

    Args:
        payloads: One payload or more.
        mime_type: The MIME type of their data. It becomes the fact ``mime``.
        facts: More facts about the batch.

    Raises:
        ValueError: There is no payload, or one has 4 GiB.
    """
    if not payloads:
        raise ValueError("a batch has at least one payload")
    known = {**(facts or {}), "mime": mime_type}
    is_json = DEFAULT_CODECS.registered(mime_type) == MIME.JSON
    if is_json and all(each.data and each.metadata is None for each in payloads):
        lines = b"\n".join((*[each.data for each in payloads], b""))
        if lines.count(b"\n") == len(payloads):
            return Batch(len(payloads), lines, encoding=_LINES, facts=known)
    parts: list[bytes] = []
    for each in payloads:
        metadata = each.metadata
        size = 0 if metadata is None else len(metadata) + 1
        if max(size, len(each.data)) > _MAX_U32:
            raise ValueError("a payload in a batch has less than 4 GiB")
        parts += (HEAD.pack(size, len(each.data)), metadata or b"", each.data)
    return Batch(len(payloads), b"".join(parts), encoding=_PAYLOADS, facts=known)


def stored_payloads(stored: StoredBatch) -> list[Payload]:
    """Return the payloads of a stored batch that were asked for.

    Its fact ``mime`` names the MIME type of their data.

    Args:
        stored: A batch that `payloads_to_store` wrote, or other JSON lines.

    Raises:
        UnknownEncoding: The batch has another encoding, or it is damaged.
    """
    if stored.encoding == _LINES:
        texts = stored.data.split(b"\n")
        rest = texts.pop()
        _check(stored, len(texts), damaged=bool(rest))
        return [Payload(text) for text in texts[stored.skip : stored.skip + stored.wanted]]
    if stored.encoding != _PAYLOADS:
        raise UnknownEncoding(
            f"the batch at offset {stored.first} has the encoding {stored.encoding!r}, which has no"
            " payloads"
        )
    found: list[Payload] = []
    data, at, end = stored.data, 0, len(stored.data)
    while len(found) != stored.count and end - at >= HEAD.size:
        metadata_size, size = HEAD.unpack_from(data, at)
        begin = at + HEAD.size
        middle = begin + max(metadata_size - 1, 0)
        at = middle + size
        found.append(Payload(data[middle:at], data[begin:middle] if metadata_size else None))
    # A batch that is not damaged ends with its last payload.
    _check(stored, len(found), damaged=at != end)
    return found[stored.skip : stored.skip + stored.wanted]


def _check(stored: StoredBatch, count: int, *, damaged: bool) -> None:
    if damaged or count != stored.count:
        raise UnknownEncoding(
            f"the batch at offset {stored.first} is damaged: it does not have {stored.count} "
            "payloads"
        )
