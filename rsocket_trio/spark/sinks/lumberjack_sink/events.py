"""Rows of Arrow as events of Lumberjack: `EventMaker`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from ....json_texts import write_plain
from ..row_values import RowMaker

__all__ = ["EventMaker"]

_OBJECT = r"(?s)^\s*\{.*\}\s*$"
_TEXTS = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)


class EventMaker:
    """Makes the JSON text of each row of record batches.

    A single column ``value`` of text is the JSON text already, e.g. from Spark's ``to_json``. Other
    columns become the fields of an object.

    Args:
        schema: The columns.

    Raises:
        ValueError: JSON cannot carry a column.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._ready = schema.names == ["value"] and any(
            is_text(schema[0].type) for is_text in _TEXTS
        )
        self._maker = None if self._ready else RowMaker(schema, "json")

    def events(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the events of a batch.

        Raises:
            ValueError: A value is not the text of a JSON object.
        """
        if self._maker is not None:
            return [write_plain(row) for row in self._maker.rows(batch)]
        column = batch.column(0)
        matches = pc.match_substring_regex(column, _OBJECT)
        # Receivers close the connection because of a text that is no object, so it would be sent
        # again without an end. This finds the plain lines of a log, not each mistake in JSON.
        if column.null_count or not pc.all(matches, min_count=0).as_py():
            raise ValueError(
                "a column that is alone and has the name value must have JSON objects as text, and "
                "a row has none: give the column another name, e.g. message, and each row becomes "
                "an object"
            )
        events: list[bytes] = column.cast(pa.large_binary()).to_pylist()
        return events
