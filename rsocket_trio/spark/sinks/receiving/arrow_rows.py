"""Count the rows of a stream of Arrow IPC, without pyarrow and without reading the columns.

The responder of a sink only stores the rows, so it need not have pyarrow. The format is that of
https://arrow.apache.org/docs/format/Columnar.html, "Encapsulated message format": each message is a
marker, the length of its metadata, the metadata (a FlatBuffer), and a body. The header of a record
batch has its number of rows.
"""

from __future__ import annotations

import struct
from typing import Final

from .... import Invalid

__all__ = ["count_rows"]

_MARKER: Final = 0xFFFFFFFF
_SCHEMA: Final = 1
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_MAX_MESSAGES: Final = 4096
"""Messages of one payload. Our writer sends two; each costs a stranger 40 bytes."""
_MAX_ROWS: Final = 2**31 - 1
"""Rows of one record batch, as in Arrow for Java."""

_PLAIN: Final = (
    "a responder takes plain columns of Arrow only, as Spark writes them, because a few bytes of "
    "others may be gigabytes of rows"
)

_UINT32: Final = struct.Struct("<I")
_INT32: Final = struct.Struct("<i")
_UINT16: Final = struct.Struct("<H")
_INT64: Final = struct.Struct("<q")


def count_rows(data: bytes) -> int:
    """Return the number of rows of a complete stream of Arrow IPC.

    Raises:
        Invalid: It is none.
    """
    try:
        return _count(data)
    except struct.error:
        raise Invalid("rows are not a stream of Arrow IPC: it ends too early") from None


def _count(data: bytes) -> int:
    position = rows = 0
    for number in range(_MAX_MESSAGES):
        if position == len(data) and number:
            return rows  # a stream may end without a mark
        marker = _UINT32.unpack_from(data, position)[0]
        if marker != _MARKER:
            raise Invalid("rows are not a stream of Arrow IPC: a message has no marker")
        size = _INT32.unpack_from(data, position + 4)[0]
        start = position + 8
        if size == 0 and number:
            if start != len(data):
                raise Invalid("rows are not a stream of Arrow IPC: bytes follow its end")
            return rows
        if size <= 0 or start + size > len(data):
            raise Invalid("rows are not a stream of Arrow IPC: a message is cut")
        kind, body, count = _message(data[start : start + size])
        position = start + size + body
        if position > len(data):
            raise Invalid("rows are not a stream of Arrow IPC: the body of a message is cut")
        if (kind == _SCHEMA) != (number == 0):
            raise Invalid("rows are not a stream of Arrow IPC: it has one schema, at its beginning")
        rows += count
    raise Invalid(f"a stream of Arrow IPC has more than {_MAX_MESSAGES} messages")


def _message(metadata: bytes) -> tuple[int, int, int]:
    """Return the kind of a message, the length of its body, and its number of rows."""
    table = _UINT32.unpack_from(metadata, 0)[0]
    kind_at, header_at, body_at = (_field(metadata, table, each) for each in (1, 2, 3))
    kind = metadata[kind_at] if 0 < kind_at < len(metadata) else 0
    body = _INT64.unpack_from(metadata, body_at)[0] if body_at else 0
    if body < 0:
        raise Invalid("rows are not a stream of Arrow IPC: the body of a message is negative")
    if kind == _DICTIONARY_BATCH:
        raise Invalid(f"rows have dictionaries: {_PLAIN}")
    if kind != _RECORD_BATCH:
        return kind, body, 0
    if not header_at:
        raise Invalid("rows are not a stream of Arrow IPC: a record batch has no header")
    header = header_at + _UINT32.unpack_from(metadata, header_at)[0]
    if _field(metadata, header, 3):
        raise Invalid(f"rows are compressed: {_PLAIN}")
    length_at = _field(metadata, header, 0)
    rows = _INT64.unpack_from(metadata, length_at)[0] if length_at else 0
    if not 0 <= rows <= _MAX_ROWS:
        raise Invalid("rows are not a stream of Arrow IPC: a record batch has a wrong length")
    return kind, body, rows


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return the place of a field of a FlatBuffer's table; 0 if the field has its default."""
    vtable = table - _INT32.unpack_from(metadata, table)[0]
    if vtable < 0:
        raise Invalid("rows are not a stream of Arrow IPC: a table is outside of its message")
    size = _UINT16.unpack_from(metadata, vtable)[0]
    entry = 4 + 2 * number
    if entry + 2 > size:
        return 0
    offset = _UINT16.unpack_from(metadata, vtable + entry)[0]
    return table + offset if offset else 0
