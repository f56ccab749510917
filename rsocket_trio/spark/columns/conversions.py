"""What pyarrow reads from JSON, and the types of columns: `read_lines`, `convert`.

Dates are read as text, because pyarrow would read them as numbers of days; and so are times that
are not written as pyarrow wants them, for example with nine digits of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

__all__ = ["contains", "convert", "infinities", "read_lines", "reading_field"]

_FRACTION: Final = r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)[.,](\d{1,6})\d*(Z|[+-]\d\d(?::?\d\d)?)?$"
"""A time with a fraction of a second, of which six digits are kept."""


def read_lines(lines: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the columns of JSON objects, as pyarrow reads them.

    Args:
        lines: The objects, each followed by a line end.
        fields: The columns, without maps.

    Raises:
        pyarrow.ArrowInvalid: A line does not fit.
    """
    return pj.read_json(
        pa.py_buffer(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
        ),
    )


def reading_field(field: pa.Field, *, times_as_text: bool) -> pa.Field:
    """Return the field that pyarrow reads for a column without maps."""
    return field.with_type(_reading_type(field.type, times_as_text))


def _reading_type(kind: pa.DataType, times_as_text: bool) -> pa.DataType:
    inner = partial(reading_field, times_as_text=times_as_text)
    if pa.types.is_date32(kind) or (times_as_text and pa.types.is_timestamp(kind)):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([inner(field) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(inner(kind.value_field))
    return kind


def contains(kind: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type is, or has within it, a wanted one. Maps are not looked into."""
    if pa.types.is_struct(kind):
        return any(contains(inner.type, is_wanted) for inner in kind)
    if _is_any_list(kind):
        return contains(kind.value_type, is_wanted)
    return is_wanted(kind)


def infinities(values: pa.Array) -> int:
    """Return how many infinite numbers there are.

    A number that is too large for its type becomes one. Maps are not looked into.
    """
    kind = values.type
    if not contains(kind, pa.types.is_floating):
        return 0
    if pa.types.is_struct(kind):
        return sum(map(infinities, values.flatten()))
    if _is_any_list(kind):
        return infinities(values.flatten())
    found: int | None = pc.sum(pc.is_inf(values)).as_py()
    return found or 0


def _is_any_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return what was read as an array of the type of its column.

    Args:
        values: An array of the type that `reading_field` returns.
        kind: The type of the column.

    Raises:
        pyarrow.ArrowInvalid: A text is no date, or no time.
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
    return _times(values, kind) if pa.types.is_timestamp(kind) else pc.cast(values, kind)


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts as times: those that pyarrow reads from JSON, and those of RFC 3339.

    So ``t`` and ``z`` may be small letters, and a second may have any number of digits. The comma
    before them is that of ISO 8601, and of `logging`.
    """
    if not len(texts):
        return pa.array([], kind)
    plain = pc.replace_substring_regex(pc.ascii_upper(texts), _FRACTION, r"\1.\2\3")
    if pc.any(pc.match_substring_regex(plain, "[^-+:. 0-9TZ]")).as_py():
        raise pa.ArrowInvalid("a text is no time")
    lines = pc.binary_join_element_wise('{"v":"', plain, '"}\n', "")
    lines = pc.fill_null(lines, '{"v":null}\n')
    listed = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    joined = pc.binary_join(listed, "")[0].as_buffer().to_pybytes()
    return read_lines(joined, [pa.field("v", kind)]).column(0).combine_chunks()


def _offsets(values: pa.Array) -> pa.Array:
    """Return the offsets of lists into their `flatten`; a null marks a list that is null."""
    if not len(values):
        return pa.array([0], pa.int32())
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    starts = pc.subtract(ends, lengths)
    marked = pc.if_else(pc.is_null(values), pa.scalar(None, pa.int32()), starts)
    return pa.concat_arrays([marked, ends.slice(len(ends) - 1)])
