"""The types that pyarrow reads from JSON, and the types of columns: `reading_type`, `convert`.

Dates are read as text, because pyarrow would read them as numbers of days.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["convert", "has_decimal", "reading_field"]


def reading_field(field: pa.Field) -> pa.Field:
    """Return the field that pyarrow reads for a column without maps."""
    return field.with_type(_reading_type(field.type))


def _reading_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([reading_field(inner) for inner in kind])
    if pa.types.is_list(kind):
        return pa.list_(reading_field(kind.value_field))
    return kind


def has_decimal(kind: pa.DataType) -> bool:
    """Return whether a type without maps contains a decimal."""
    if pa.types.is_struct(kind):
        return any(has_decimal(inner.type) for inner in kind)
    if pa.types.is_list(kind):
        return has_decimal(kind.value_type)
    return bool(pa.types.is_decimal(kind))


def convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return what was read as an array of the type of its column.

    Args:
        values: An array of the type that `reading_field` returns.
        kind: The type of the column.

    Raises:
        pyarrow.ArrowInvalid: A text is no date.
    """
    if values.type.equals(kind):
        return values
    if pa.types.is_struct(kind):
        # `flatten` makes the members of a null null. They may contain anything before.
        members = [
            convert(member, inner.type)
            for member, inner in zip(values.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=pc.is_null(values))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            _offsets(values), convert(values.flatten(), kind.value_type), type=kind
        )
    return pc.cast(values, kind)


def _offsets(values: pa.Array) -> pa.Array:
    """Return the offsets of lists into their `flatten`; a null marks a list that is null."""
    if not len(values):
        return pa.array([0], pa.int32())
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    starts = pc.subtract(ends, lengths)
    marked = pc.if_else(pc.is_null(values), pa.scalar(None, pa.int32()), starts)
    return pa.concat_arrays([marked, ends.slice(len(ends) - 1)])
