"""JSON texts to columns: `decode_events`. pyarrow decodes them, and decides what is valid.

Only what it reads beyond JSON, NaN and Infinity, is looked for before (RFC 8259, section 6).

pyarrow reads a stream of JSON objects. It does not tell which line a row came from, and one line
can contain two objects, or none. So lines are joined only if each begins with ``{`` and ends with
``}``. Then no object goes on in the next line: behind a ``}``, JSON needs a comma or a bracket
inside of an object, and the next line begins with ``{``. So each line has one object or more, or is
an error; and if there are as many rows as lines, row n is line n.

If something is wrong, those that are surely malformed are left out first. The others are halved
until the rest of the malformed ones is found. So the result for an event never depends on its
neighbours.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from .conversions import contains, convert, infinities, read_lines, reading_field
from .decimals import has_unreadable_decimal
from .maps import MapColumns, has_map
from .sieve import surely_malformed

__all__ = ["Decoded", "decode_events", "decode_lines", "why_malformed"]

_BLANKS: Final = b" \t\r\n"
_PROBE: Final = pa.field(f"\x00{os.urandom(16).hex()}", pa.bool_())
"""Read if there is no other column: pyarrow does not count the rows of a table without columns. No
event has a member of this name."""

_CONSTANTS: Final = {
    word: re.compile(rb"%b(?<=[][,: \t\r-]%b)(?:inity)?[],} \t\r\n]" % (word, word))
    for word in (b"NaN", b"Inf")
}
"""Words that pyarrow takes as numbers, and where it may do so. In a string, they mean nothing."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_ODD_TIME: Final = re.compile(rb'"\d{4}-\d\d-\d\d(?:t|[T ][\d:.]*(?:[z,]|\.\d{7}))|\\u00[2-7]')
"""A time that pyarrow may not read, but `convert` does; or an escape that can hide one."""
_PEEK: Final = 4096
"""Bytes of the first events, whose times say how those of the others are written."""


@attrs.frozen
class Decoded:
    """Columns of events.

    Attributes:
        columns: One array for each field of the schema, with a row for each event that fits.
        malformed: The indexes of the other events, in order.
    """

    columns: list[pa.Array] = attrs.field(repr=False)
    malformed: Sequence[int] = ()


class _Malformed(Exception):
    """One of these events, at least, is not a JSON object that fits to the schema."""


def decode_lines(lines: bytes, count: int, schema: pa.Schema) -> list[pa.Array] | None:
    """Return columns of lines that are all well-formed, or None.

    Args:
        lines: JSON texts, each followed by a line end.
        count: The number of lines.
        schema: The columns.
    """
    try:
        return _decode_all(lines, count, schema)
    except _Malformed:
        return None


def decode_events(texts: pa.Array, schema: pa.Schema) -> Decoded:
    """Return columns of events, and which of them are malformed.

    Args:
        texts: The events: an array of bytes.
        schema: The columns.
    """
    lines = [_as_line(text) for text in texts.to_pylist()]
    malformed = [index for index, line in enumerate(lines) if line is None]
    objects = [(index, line) for index, line in enumerate(lines) if line is not None]
    parts: list[list[pa.Array]] = []
    waiting = [(0, len(objects))] if objects else []  # The range that comes first is the last.
    is_sifted = False
    while waiting:
        start, stop = waiting.pop()
        joined = b"\n".join([line for _, line in objects[start:stop]] + [b""])
        try:
            parts.append(_decode_all(joined, stop - start, schema))
        except _Malformed:
            if stop - start == 1:
                malformed.append(objects[start][0])
            elif not is_sifted:
                # The first attempt, with all of them.
                is_sifted = True
                is_bad = surely_malformed(schema)
                bad = {index for index, line in objects if is_bad(line)}
                malformed += bad
                objects = [each for each in objects if each[0] not in bad]
                waiting = [(0, len(objects))] if objects else []
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
    columns = [
        pa.concat_arrays([part[n] for part in parts]) if parts else pa.array([], field.type)
        for n, field in enumerate(schema)
    ]
    return Decoded(columns, sorted(malformed))


def why_malformed(text: pa.Array, schema: pa.Schema) -> str:
    """Return why an event does not fit, without its contents.

    Args:
        text: An array with this event alone.
        schema: The columns.
    """
    if decode_events(text, pa.schema([])).malformed:
        return "it is not one JSON object in UTF-8"
    wrong = [field.name for field in schema if decode_events(text, pa.schema([field])).malformed]
    return f"it has no value of the type of the column {', '.join(wrong)}"


def _as_line(text: bytes) -> bytes | None:
    """Return an event as a line, or None if it cannot be an object."""
    # A line end between tokens is a blank; within a string it is an error, as a carriage return is.
    line = text.strip(_BLANKS).replace(b"\n", b"\r")
    return line if line.startswith(b"{") and line.endswith(b"}") else None


def _decode_all(lines: bytes, count: int, schema: pa.Schema) -> list[pa.Array]:
    """Return columns of events.

    Raises:
        _Malformed: One of them is malformed, or they are more or fewer than ``count``.
    """
    if not _are_lines(lines, count):
        raise _Malformed
    if _has_constant(lines):
        raise _Malformed
    has_times = any(contains(field.type, pa.types.is_timestamp) for field in schema)
    is_odd = has_times and _ODD_TIME.search(lines, 0, _PEEK) is not None
    try:
        return _columns(lines, count, schema, times_as_text=is_odd)
    except ValueError as error:  # The errors of pyarrow are ValueErrors too.
        if is_odd or not has_times or _ODD_TIME.search(lines) is None:
            raise _Malformed from error
    try:
        return _columns(lines, count, schema, times_as_text=True)
    except ValueError as error:
        raise _Malformed from error


def _whole(lines: bytes, stop: int) -> pa.Array:
    """Return an array whose one value is these bytes up to ``stop``."""
    bounds = pa.py_buffer(array("q", [0, stop]))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, bounds, pa.py_buffer(lines)])


def _are_lines(lines: bytes, count: int) -> bool:
    """Return whether there are so many lines, and each begins and ends like an object.

    In C++ this takes a quarter of the time of `bytes.count`.
    """
    if not lines.endswith(b"}\n"):
        return False
    found = pc.split_pattern(_whole(lines, len(lines) - 1), b"\n").values
    return len(found) == count and bool(
        pc.all(pc.starts_with(found, b"{")).as_py() and pc.all(pc.ends_with(found, b"}")).as_py()
    )


def _has_constant(lines: bytes) -> bool:
    """Return whether a line has NaN or Infinity outside of strings."""
    whole = _whole(lines, len(lines))
    for word, number in _CONSTANTS.items():
        # This takes a thirtieth of the time of `word in lines`.
        if not pc.match_substring_regex(whole, word)[0].as_py():
            continue
        end = 0
        while match := number.search(lines, end):
            start = lines.rfind(b"\n", 0, match.start()) + 1
            end = lines.find(b"\n", match.start())
            # If a line is JSON, there is no such word between its strings.
            if word in _STRING.sub(b"", lines[start:end]):
                return True
    return False


def _columns(lines: bytes, count: int, schema: pa.Schema, *, times_as_text: bool) -> list[pa.Array]:
    """Return columns of events.

    Raises:
        ValueError: As `_Malformed` of `_decode_all`.
    """
    plain = [
        reading_field(field, times_as_text=times_as_text)
        for field in schema
        if not has_map(field.type)
    ]
    decimals = [field for field in plain if contains(field.type, pa.types.is_decimal)]
    if not lines.isascii():
        lines.decode()  # pyarrow does not check it.
    if decimals and has_unreadable_decimal(lines, decimals):
        raise ValueError("a decimal has too many digits")
    table = read_lines(lines, plain or [_PROBE])
    if table.num_rows != count:
        raise ValueError("a line is not one object")
    if decimals:
        table.validate(full=True)  # pyarrow does not check all digits against the precision.
    maps = None if len(plain) == len(schema) else MapColumns(lines, _decode_values)
    columns = [
        maps.column(field)
        if maps is not None and has_map(field.type)
        else convert(table.column(field.name).combine_chunks(), field.type)
        for field in schema
    ]
    if any(map(infinities, columns)):
        raise ValueError("a number is too large for its column")
    return columns


def _decode_values(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Return the column of values that Python has decoded.

    Raises:
        ValueError: One of them does not fit to the type.
    """
    lines = b"".join(json.dumps({"v": value}).encode() + b"\n" for value in values)
    if not values:
        return pa.array([], field.type)
    try:
        return _decode_all(lines, len(values), pa.schema([field.with_name("v")]))[0]
    except _Malformed as malformed:
        raise ValueError("a value does not fit to the type of its column") from malformed
