"""The columns of a row: decoded ones, facts about the element, and the malformed data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from .decoded import Decoded, MalformedElement

__all__ = ["Layout"]

_RAW: Final = (pa.string(), pa.binary())


class Layout:
    """Splits a schema into decoded columns and others, and puts rows together.

    Args:
        schema: The columns that Spark wants, exactly.
        facts: The types of the columns with facts about elements, by name. The schema may have
            them, of these types.
        mode: One of `MODES`: malformed elements are rows of nulls, are dropped, or are errors.
        corrupt: The name of the column for the data of malformed elements. The schema may have it.

    Raises:
        ValueError: A column of facts has another type, or a column that must not be null would be
            null for malformed elements.

    Attributes:
        decoded: The columns that are decoded from elements.
    """

    def __init__(
        self, schema: pa.Schema, facts: Mapping[str, pa.DataType], *, mode: str, corrupt: str
    ) -> None:
        self._schema = schema
        self._mode = mode
        self._facts = {name for name in schema.names if name in facts}
        self._corrupt = corrupt if corrupt in schema.names else None
        for name in self._facts:
            if schema.field(name).type != facts[name]:
                raise ValueError(
                    f"the column {name} is reserved and is of the type {facts[name]}, not "
                    f"{schema.field(name).type}"
                )
        others = {*self._facts, self._corrupt}
        self.decoded = pa.schema([field for field in schema if field.name not in others])
        if self._corrupt is not None:
            field = schema.field(corrupt)
            if field.type not in _RAW or not field.nullable:
                raise ValueError(f"the column {corrupt} must be a string that may be null")
        for field in self.decoded:
            if mode == "PERMISSIVE" and not field.nullable:
                raise ValueError(
                    f"the column {field.name} must not be null, but mode=PERMISSIVE makes a row of "
                    "nulls for each malformed element: let it be null, or choose another mode"
                )

    def rows(
        self,
        decoded: Decoded,
        facts: Callable[[str], pa.Array],
        raw: Callable[[int], bytes],
        where: Callable[[int], str],
    ) -> pa.RecordBatch:
        """Return the rows for Spark.

        Args:
            decoded: The decoded columns.
            facts: Returns a column of facts, with a value for each element.
            raw: Returns the data of an element.
            where: Returns text that says which element this is.

        Raises:
            MalformedElement: There is a malformed element, and the mode is FAILFAST.
        """
        malformed = decoded.malformed
        count = decoded.rows.num_rows
        element = _element_of_row(decoded)
        if malformed and self._mode == "FAILFAST":
            row = min(malformed)
            raise MalformedElement(
                f"{where(element(row))} is malformed: {malformed[row]} (mode=FAILFAST; PERMISSIVE "
                "makes a row of nulls, DROPMALFORMED leaves it out)"
            )
        columns = []
        for field in self._schema:
            if field.name in self._facts:
                column = facts(field.name)
                columns.append(
                    column if decoded.elements is None else column.take(decoded.elements)
                )
            elif field.name == self._corrupt:
                data = {row: raw(element(row)) for row in malformed}
                columns.append(_raw_column(count, data, field.type))
            else:
                columns.append(decoded.rows.column(field.name))
        if malformed and self._mode == "DROPMALFORMED":
            good = pa.array([row for row in range(count) if row not in malformed], pa.int64())
            columns = [column.take(good) for column in columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _element_of_row(decoded: Decoded) -> Callable[[int], int]:
    elements = decoded.elements
    return (lambda row: row) if elements is None else (lambda row: elements[row].as_py())


def _raw_column(count: int, data: Mapping[int, bytes], type_: pa.DataType) -> pa.Array:
    if not data:
        return pa.nulls(count, type_)
    values: list[str | bytes | None] = [None] * count
    for row, each in data.items():
        values[row] = _readable(each) if type_ == pa.string() else each
    return pa.array(values, type_)


def _readable(data: bytes) -> str:
    """Return data as text; data that are no UTF-8 as hexadecimal digits."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()
