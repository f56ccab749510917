"""Records of a fixed size into columns, a whole block of them at once: `FixedRows`.

A record is the values of the columns one after the other, without gaps, each in two's complement or
as an IEEE 754 number. There is no text and no null. The option ``byteOrder`` says which byte of a
value comes first.
"""

from __future__ import annotations

from typing import Final

import attrs
import pyarrow as pa

from .decoded import Decoded, nullable
from .packed import PackedElements

__all__ = ["FixedRows"]

_WIDTHS: Final = {
    pa.int8(): 1,
    pa.int16(): 2,
    pa.int32(): 4,
    pa.int64(): 8,
    pa.float32(): 4,
    pa.float64(): 8,
    pa.date32(): 4,
    pa.timestamp("us"): 8,
    pa.timestamp("us", "UTC"): 8,
}
"""The types that a record may have, and their bytes. They are as wide in Arrow."""


@attrs.frozen
class _Place:
    """Where a column is in a record: its first byte, and the number of its bytes."""

    begin: int
    width: int


class FixedRows:
    """Decodes records.

    Args:
        schema: The columns, in the order of the record.
        byte_order: One of `rows.settings.BYTE_ORDERS`.

    Raises:
        ValueError: A column has a type without a fixed width.

    Attributes:
        size: The bytes of a record.
    """

    def __init__(self, schema: pa.Schema, byte_order: str) -> None:
        self._schema = nullable(schema)
        self._is_big = byte_order == "big"
        self._places: list[_Place] = []
        self.size = 0
        for field in schema:
            width = _WIDTHS.get(field.type)
            if width is None:
                raise ValueError(
                    "payloadFormat=fixed reads integers, floating-point numbers, dates and "
                    f"timestamps: the column {field.name} ({field.type}) has no fixed width"
                )
            self._places.append(_Place(self.size, width))
            self.size += width

    def decode(self, payloads: list[bytes] | PackedElements) -> list[Decoded]:
        """See `RowDecoder.decode`. Costs nothing per element if they are packed."""
        if isinstance(payloads, PackedElements) and payloads.size == self.size:
            return [Decoded(self._columns(payloads.block, len(payloads)), {})]
        malformed = {
            row: f"a record has {self.size} bytes, and this element has {len(data)}"
            for row, data in enumerate(payloads)
            if len(data) != self.size
        }
        if not malformed:
            return [Decoded(self._columns(b"".join(payloads), len(payloads)), {})]
        nothing = bytes(self.size)
        block = b"".join(nothing if row in malformed else data for row, data in enumerate(payloads))
        rows = self._columns(block, len(payloads))
        is_good = pa.array([row not in malformed for row in range(len(payloads))])
        columns = [_only(column, is_good) for column in rows.columns]
        return [Decoded(pa.RecordBatch.from_arrays(columns, schema=self._schema), malformed)]

    def _columns(self, block: bytes | bytearray | memoryview, count: int) -> pa.RecordBatch:
        columns = []
        for field, place in zip(self._schema, self._places, strict=True):
            values = self._values(block, count, place)
            columns.append(pa.Array.from_buffers(field.type, count, [None, pa.py_buffer(values)]))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _values(
        self, block: bytes | bytearray | memoryview, count: int, place: _Place
    ) -> bytes | bytearray | memoryview:
        """Return the values of a column one after the other, their lowest byte first.

        A byte of all values is copied by one slice, so this takes as many steps as a value has
        bytes. Arrow reads memory in the order of the processor, which is the lowest byte first
        wherever PySpark runs.
        """
        begin, width = place.begin, place.width
        if width == self.size and (width == 1 or not self._is_big):
            return block
        values = bytearray(count * width)
        for index in range(width):
            source = begin + (width - 1 - index if self._is_big else index)
            values[index::width] = block[source :: self.size]
        return values


def _only(column: pa.Array, is_good: pa.Array) -> pa.Array:
    """Return a column with nulls where the element is malformed."""
    chosen = [row if good else None for row, good in enumerate(is_good.to_pylist())]
    return column.take(pa.array(chosen, pa.int64()))
