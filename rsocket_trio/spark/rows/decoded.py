"""Decoded elements, and the malformed ones among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import attrs
import pyarrow as pa

__all__ = ["Decoded", "MalformedElement", "RowDecoder", "check_types", "nullable"]


class MalformedElement(ValueError):
    """An element cannot be decoded, and ``mode`` is FAILFAST."""


@attrs.frozen
class Decoded:
    """Elements as columns.

    Attributes:
        rows: The rows. The row of a malformed element has nulls only.
        malformed: The reason for each malformed element, by the index of its row.
        elements: The index of the element of each row. None: each element has one row.
    """

    rows: pa.RecordBatch = attrs.field(repr=False)
    malformed: Mapping[int, str]
    elements: pa.Array | None = None


class RowDecoder(Protocol):
    """Decodes elements of one format."""

    def decode(self, payloads: list[bytes]) -> Iterable[Decoded]:
        """Decode the data of elements, in one part or more."""


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the same columns, each of which may be null: malformed elements need that."""
    return pa.schema([field.with_nullable(True) for field in schema])


def check_types(schema: pa.Schema) -> None:
    """Check that elements can be decoded into columns of these types.

    Raises:
        ValueError: A column has a type that no element can be decoded into.
    """
    for field in schema:
        _check_type(field.type, field.name)


def _check_type(type_: pa.DataType, place: str) -> None:
    if pa.types.is_struct(type_):
        for inner in type_:
            if (inner.metadata or {}).get(b"variant") == b"true":
                raise _unfit(place, "variant")
            _check_type(inner.type, f"{place}.{inner.name}")
    elif pa.types.is_list(type_):
        _check_type(type_.value_type, f"{place}[]")
    elif pa.types.is_map(type_):
        _check_type(type_.key_type, f"the keys of {place}")
        _check_type(type_.item_type, f"{place}[]")
    elif type_ not in _PLAIN and not pa.types.is_decimal128(type_):
        raise _unfit(place, str(type_))


def _unfit(place: str, type_: str) -> ValueError:
    return ValueError(
        f"elements cannot be decoded into the type of the column {place} ({type_}): read a string, "
        "and convert it in Spark"
    )


_PLAIN: Final = {
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
}
