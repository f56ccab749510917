"""Which columns a read has, and where their contents come from: `Layout`."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, Literal, TypeAlias

import attrs
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from .maps import has_map

__all__ = [
    "DEFAULT_COLUMNS",
    "Layout",
    "Mode",
    "check_decodable",
    "check_names",
    "default_layout",
    "default_schema",
    "exact_schema",
    "layout_for",
]

Mode: TypeAlias = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]

DEFAULT_COLUMNS: Final = {
    "collector": StringType(),
    "offset": LongType(),
    "received_at": TimestampType(),
    "remote": StringType(),
    "value": StringType(),
}

_METADATA: Final = MapType(StringType(), BinaryType())

_RESERVED: Final[dict[str, DataType]] = {
    "_collector": StringType(),
    "_offset": LongType(),
    "_received_at": TimestampType(),
    "_remote": StringType(),
    "_raw": BinaryType(),
    "_metadata": _METADATA,
}


@attrs.frozen(kw_only=True)
class Layout:
    """The columns of a read.

    Attributes:
        schema: All columns, as Spark expects them.
        sources: For each column that the source fills itself, what it contains: ``collector``,
            ``offset``, ``received_at``, ``remote``, ``value``, ``raw``, ``metadata`` or
            ``corrupt``.
        decoded: The other columns. They come from the JSON text of an event.
        mode: What becomes of an event that does not fit to them.
    """

    schema: pa.Schema
    sources: dict[str, str]
    decoded: pa.Schema
    mode: Mode = "PERMISSIVE"

    @property
    def decodes(self) -> bool:
        """Whether events are decoded at all."""
        return bool(len(self.decoded)) or "corrupt" in self.sources.values()


def default_schema(*, include_raw: bool, include_metadata: bool = False) -> StructType:
    """Return the columns of a read without a schema of the user."""
    schema = StructType()
    for name, kind in DEFAULT_COLUMNS.items():
        schema.add(name, kind)
    if include_raw:
        schema.add("raw", BinaryType())
    return schema.add("metadata", _METADATA) if include_metadata else schema


def default_layout(schema: StructType) -> Layout:
    """Return the layout of `default_schema`."""
    return Layout(
        schema=to_arrow_schema(schema, timezone="UTC"),
        sources={name: name for name in schema.names},
        decoded=pa.schema([]),
    )


def layout_for(schema: StructType, *, mode: Mode, corrupt_column: str) -> Layout:
    """Return the layout of a schema of the user.

    Args:
        schema: The schema. Reserved names begin with an underscore: ``_offset``.
        mode: What becomes of malformed events.
        corrupt_column: The name of the column for the text of malformed events.

    Raises:
        ValueError: A column has a type that cannot be decoded from JSON, or a reserved one a wrong
            type, or there is none, or one is there twice.
    """
    sources: dict[str, str] = {}
    check_names(schema)
    for field in schema.fields:
        name, kind = field.name, field.dataType
        if name in _RESERVED:
            _check_type(name, kind, _RESERVED[name])
            sources[name] = name[1:]
        elif name == corrupt_column:
            _check_type(name, kind, StringType())
            sources[name] = "corrupt"
    arrow = to_arrow_schema(schema, timezone="UTC")
    nullable = {"corrupt", "remote"}
    for field in arrow:
        if sources.get(field.name) in nullable and not field.nullable:
            raise ValueError(f"the column {field.name} must be nullable: it has nulls")
    decoded = [field for field in arrow if field.name not in sources]
    for field in decoded:
        check_decodable(field, field.name)
    return Layout(schema=arrow, sources=sources, decoded=pa.schema(decoded), mode=mode)


def _check_type(name: str, kind: DataType, wanted: DataType) -> None:
    if kind != wanted:
        raise ValueError(
            f"the column {name} is reserved and has the type {wanted.simpleString()},"
            f" not {kind.simpleString()}"
        )


def exact_schema(schema: StructType) -> pa.Schema:
    """Return the types of Arrow that Spark wants, exactly.

    Raises:
        ValueError: There is no column, or one is there twice.
    """
    check_names(schema)
    found: Any = to_arrow_schema(schema, timezone="UTC")
    return found


def check_names(schema: DataType, path: str = "") -> None:
    """Check that a schema has columns, and none of them twice.

    Raises:
        ValueError: It has not.
    """
    if isinstance(schema, StructType):
        names = schema.names
        if not path and not names:
            raise ValueError("the schema has no columns: name one, e.g. _offset BIGINT")
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"the column {path}{name} is there twice")
        for field in schema.fields:
            check_names(field.dataType, f"{path}{field.name}.")
    elif isinstance(schema, ArrayType):
        check_names(schema.elementType, path)
    elif isinstance(schema, MapType):
        check_names(schema.valueType, path)


def check_decodable(field: pa.Field, path: str, *, in_map: bool = False) -> None:
    """Check that a field can be decoded from JSON.

    A column with a map can contain no decimals: Python decodes it, and it rounds numbers.

    Raises:
        ValueError: It cannot.
    """
    kind = field.type
    in_map = in_map or has_map(kind)
    if not field.nullable:
        raise ValueError(
            f"the column {path} must be nullable: an event may lack it; declare it without NOT NULL"
        )
    if pa.types.is_struct(kind):
        for inner in kind:
            check_decodable(inner, f"{path}.{inner.name}", in_map=in_map)
    elif pa.types.is_list(kind):
        check_decodable(kind.value_field, f"{path}[]", in_map=in_map)
    elif pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise ValueError(f"the keys of the map {path} must be strings, as they are in JSON")
        check_decodable(kind.item_field, f"{path}{{}}", in_map=in_map)
    elif not _is_simple(kind) or (in_map and pa.types.is_decimal(kind)):
        raise ValueError(
            f"the column {path} has the type {kind}, which is not decoded from JSON"
            f"{' in a column with a map' if in_map else ''}: read it as a string"
        )


def _is_simple(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_string(kind)
        or types.is_timestamp(kind)
        or types.is_date32(kind)
        or types.is_decimal(kind)
    )
