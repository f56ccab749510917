"""JSON objects into columns, by the decoder that the Lumberjack source uses too."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ..columns.json_events import decode_events, decode_lines
from ..columns.schemas import check_decodable
from .decoded import Decoded, nullable

__all__ = ["JsonRows"]

_MALFORMED: Final = "it is no JSON object that fits the columns"


class JsonRows:
    """Decodes JSON objects.

    Args:
        schema: The columns. Other keys of an object are ignored, and missing ones are null.

    Raises:
        ValueError: A column has a type that JSON cannot be decoded into.
    """

    def __init__(self, schema: pa.Schema) -> None:
        for field in schema:
            # Here a column must not be null if malformed elements make no rows.
            check_decodable(field.with_nullable(True), field.name)
        self._schema = schema

    def decode(self, payloads: list[bytes]) -> list[Decoded]:
        """See `RowDecoder.decode`."""
        columns = nullable(self._schema)
        malformed: dict[int, str] = {}
        arrays = decode_lines(b"\n".join([*payloads, b""]), len(payloads), columns)
        if arrays is None:
            events = decode_events(pa.array(payloads, pa.binary()), columns)
            arrays = events.columns
            malformed = dict.fromkeys(events.malformed, _MALFORMED)
        rows = pa.RecordBatch.from_arrays(arrays, schema=columns)
        if malformed:
            row = iter(range(len(payloads)))
            places = [None if index in malformed else next(row) for index in range(len(payloads))]
            rows = rows.take(pa.array(places, pa.int64()))
        for field, column in zip(self._schema, rows.columns, strict=True):
            if column.null_count and not field.nullable:
                for index, is_null in enumerate(column.is_null().to_pylist()):
                    if is_null:
                        malformed.setdefault(index, f"{field.name} is missing, but may not be null")
        return [Decoded(rows, malformed)]
