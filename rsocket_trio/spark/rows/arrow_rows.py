"""Elements that are streams of Arrow: each has a schema and any number of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ..columns.conversions import infinities
from .decoded import Decoded, nullable

__all__ = ["ArrowRows"]

ENOUGH_BYTES: Final = 32 * 2**20
"""Batches are joined up to this size. Arrow cannot join 2 GiB of texts."""

MAX_VALUES: Final = 2**24
"""Values of a column of a batch, at most, with those in lists. A null takes no byte in a stream,
and as a number 16 bytes here."""

MAX_EXPANDED: Final = 2**28
"""Bytes of a column whose rows share their values in the stream: each row gets its own here."""

_SIZED: Final = {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}
_VIEWS: Final = {pa.string_view(), pa.binary_view()}


class ArrowRows:
    """Decodes Arrow's IPC streams.

    Args:
        schema: The columns. A stream may have others, and its columns may be of types that can be
            cast without a loss.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._nullable = nullable(schema)

    def decode(self, payloads: list[bytes]) -> Iterator[Decoded]:
        """See `RowDecoder.decode`."""
        part = _Part(self._nullable)
        for index, data in enumerate(payloads):
            reason = None
            try:
                batches = self._read(data)
            except (pa.ArrowException, ValueError, OSError, KeyError) as error:
                reason = f"it is no stream of Arrow for these columns: {error}"
                nulls = [pa.nulls(1, field.type) for field in self._nullable]
                batches = [pa.RecordBatch.from_arrays(nulls, schema=self._nullable)]
            for batch in batches:
                if part.size and part.size + batch.nbytes > ENOUGH_BYTES:
                    yield part.decoded()
                    part = _Part(self._nullable)
                part.add(batch, index, reason)
        yield part.decoded()

    def _read(self, data: bytes) -> list[pa.RecordBatch]:
        """Return the batches of a stream.

        Raises:
            pa.ArrowException: The stream is malformed, or cannot be cast.
            KeyError: It has no such column.
            ValueError: A column that must not be null has nulls, or takes too much memory.
        """
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            return [self._fitted(batch) for batch in stream]

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > MAX_VALUES:
            raise ValueError(f"a batch has {batch.num_rows} rows, more than {MAX_VALUES}")
        # The offsets inside come from a stranger, and Arrow follows them without a check.
        batch.validate(full=True)
        arrays = []
        for field in self._schema:
            if batch.schema.get_field_index(field.name) < 0:
                raise ValueError(f"there is no column {field.name}, or there are several")
            array = batch.column(field.name)
            if array.type != field.type:
                _check_castable(array, field.name)
                _check_decimals(array.type, field.type, field.name)
                if isinstance(array, pa.DictionaryArray):
                    array = array.dictionary_decode()
                before, array = infinities(array), array.cast(field.type)
                if infinities(array) > before:
                    raise ValueError(f"{field.name} has a number that is too large for its type")
            if array.null_count and not field.nullable:
                raise ValueError(f"{field.name} has nulls")
            arrays.append(array)
        if not arrays:
            raise ValueError("name a column of the stream in the schema")
        return pa.RecordBatch.from_arrays(arrays, schema=self._nullable)


class _Part:
    """Batches that are joined."""

    def __init__(self, schema: pa.Schema) -> None:
        self.size = 0
        self._schema: Final = schema
        self._batches: Final[list[pa.RecordBatch]] = []
        self._elements: Final[list[pa.Array]] = []
        self._malformed: Final[dict[int, str]] = {}
        self._rows = 0

    def add(self, batch: pa.RecordBatch, index: int, reason: str | None) -> None:
        """Add a batch of an element; with a reason, it is the row of a malformed one."""
        if reason is not None:
            self._malformed[self._rows] = reason
        self._batches.append(batch)
        self._elements.append(pa.repeat(pa.scalar(index, pa.int64()), batch.num_rows))
        self._rows += batch.num_rows
        self.size += batch.nbytes

    def decoded(self) -> Decoded:
        table = pa.Table.from_batches(self._batches, schema=self._schema).combine_chunks()
        # One batch: all but the first fit into `ENOUGH_BYTES`, and one alone is not cut.
        [rows] = table.to_batches() or [_empty(self._schema)]
        places = pa.concat_arrays(self._elements or [pa.array([], pa.int64())])
        return Decoded(rows, self._malformed, places)


def _check_castable(array: pa.Array, name: str) -> None:
    """Check that Arrow can cast a column, and how large it becomes.

    Raises:
        ValueError: It is too large, or of a type that hides its size, or not valid.
    """
    kind, types = array.type, pa.types
    if types.is_decimal(kind) and not 0 <= kind.scale <= kind.precision:
        # Arrow reads from its table of powers with it, without a check, and crashes.
        raise ValueError(f"{name} is a {kind}, which has no such scale")
    if len(array) > MAX_VALUES:
        raise ValueError(f"{name} has {len(array)} values, more than {MAX_VALUES}")
    if isinstance(kind, pa.BaseExtensionType):
        _check_castable(array.storage, name)
    elif types.is_dictionary(kind) and kind.value_type in _SIZED:
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        _check_size(pc.sum(lengths.cast(pa.int64())).as_py() or 0, name)
    elif kind in _VIEWS:
        # Each view begins with its length. That of a null may be anything.
        words = memoryview(array.buffers()[1]).cast("i")
        views = words[4 * array.offset : 4 * (array.offset + len(array)) : 4]
        _check_size(sum(length for length in views if length > 0), name)
    elif types.is_struct(kind):
        for number in range(kind.num_fields):
            _check_castable(array.field(number), name)
    elif types.is_map(kind):
        _check_castable(array.keys, name)
        _check_castable(array.items, name)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        _check_castable(array.values, name)
    elif types.is_nested(kind) or (
        types.is_dictionary(kind) and not types.is_primitive(kind.value_type)
    ):
        raise ValueError(f"{name} is a {kind}, which is not read: send plain values")


def _check_decimals(source: pa.DataType, wanted: pa.DataType, name: str) -> None:
    """Check that no decimal is read from a text: Arrow crashes if its exponent is small.

    Raises:
        ValueError: One is.
    """
    types = pa.types
    if types.is_dictionary(source):
        source = source.value_type
    if types.is_decimal(wanted) and source in _SIZED | _VIEWS:
        raise ValueError(f"{name} is a {source} and not a number, which a decimal is read from")
    if not (types.is_nested(wanted) and types.is_nested(source)):
        return
    for number in range(wanted.num_fields):
        inner = wanted.field(number)
        others = [source.field(other) for other in range(source.num_fields)]
        for other in others:
            if other.name == inner.name or not types.is_struct(wanted):
                _check_decimals(other.type, inner.type, name)


def _check_size(size: int, name: str) -> None:
    if size > MAX_EXPANDED:
        raise ValueError(f"{name} has {size} bytes, more than {MAX_EXPANDED}")


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
