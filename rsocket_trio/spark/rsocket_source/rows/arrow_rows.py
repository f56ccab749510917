"""Elements that are streams of Arrow: each has a schema and any number of batches."""

from __future__ import annotations

import pyarrow as pa

from .decoded import Decoded, nullable

__all__ = ["ArrowRows"]


class ArrowRows:
    """Decodes Arrow's IPC streams.

    Args:
        schema: The columns. A stream may have others, and its columns may be of types that can be
            cast without a loss.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._nullable = nullable(schema)

    def decode(self, payloads: list[bytes]) -> Decoded:
        """See `RowDecoder.decode`."""
        malformed: dict[int, str] = {}
        elements: list[pa.Array] = []
        batches: list[pa.RecordBatch] = []
        rows = 0
        for index, data in enumerate(payloads):
            try:
                parts = self._read(data)
            except (pa.ArrowException, ValueError, OSError, KeyError) as error:
                malformed[rows] = f"it is no stream of Arrow for these columns: {error}"
                nulls = [pa.nulls(1, field.type) for field in self._nullable]
                parts = [pa.RecordBatch.from_arrays(nulls, schema=self._nullable)]
            for part in parts:
                batches.append(part)
                elements.append(pa.repeat(pa.scalar(index, pa.int64()), part.num_rows))
                rows += part.num_rows
        table = pa.Table.from_batches(batches, schema=self._nullable).combine_chunks()
        joined = table.to_batches() or [_empty(self._nullable)]
        places = pa.concat_arrays(elements) if elements else pa.array([], pa.int64())
        return Decoded(joined[0], malformed, places)

    def _read(self, data: bytes) -> list[pa.RecordBatch]:
        """Return the batches of a stream.

        Raises:
            pa.ArrowException: The stream is malformed, or cannot be cast.
            KeyError: It has no such column.
            ValueError: A column that must not be null has nulls.
        """
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            return [self._fitted(batch) for batch in stream]

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        # The offsets inside come from a stranger, and Arrow follows them without a check.
        batch.validate(full=True)
        arrays = []
        for field in self._schema:
            if batch.schema.get_field_index(field.name) < 0:
                raise ValueError(f"there is no column {field.name}, or there are several")
            array = batch.column(field.name)
            if isinstance(array, pa.DictionaryArray):
                array = array.dictionary_decode()
            if array.type != field.type:
                array = array.cast(field.type)
            if array.null_count and not field.nullable:
                raise ValueError(f"{field.name} has nulls")
            arrays.append(array)
        if not arrays:
            raise ValueError("name a column of the stream in the schema")
        return pa.RecordBatch.from_arrays(arrays, schema=self._nullable)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
