"""Rows of Spark to payloads: `PayloadMaker`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cbor2
import pyarrow as pa

from ...json_texts import write_plain
from .row_values import RowMaker

__all__ = ["PayloadMaker"]


class PayloadMaker:
    """Makes the payloads of record batches.

    Args:
        schema: The columns.
        format: ``cbor``, ``json`` or ``arrow``.
        batch_size: arrow: bytes of one payload; more, if one row is larger.

    Raises:
        ValueError: The format cannot carry the columns.
    """

    def __init__(self, schema: pa.Schema, format: str, batch_size: int) -> None:  # noqa: A002 - as in Spark's API
        self._batch_size = batch_size
        self._maker = None if format == "arrow" else RowMaker(schema, format)
        # `RowMaker` leaves plain values only.
        self._write: Callable[[Any], bytes] = write_plain if format == "json" else cbor2.dumps

    def payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the payloads of a record batch."""
        if self._maker is not None:
            write = self._write
            return [write(row) for row in self._maker.rows(batch)]
        return list(self._streams(batch))

    def _streams(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield streams of Arrow IPC of about the size that is allowed."""
        if not batch.num_rows:
            return
        pieces = -(-batch.nbytes // self._batch_size) or 1
        rows = -(-batch.num_rows // pieces)
        for start in range(0, batch.num_rows, rows):
            yield from self._stream(batch.slice(start, rows))

    def _stream(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        file = pa.BufferOutputStream()
        with pa.ipc.new_stream(file, batch.schema) as stream:
            stream.write_batch(batch)
        data: bytes = file.getvalue().to_pybytes()
        # The rows may differ in size: twice the size is too much.
        if len(data) <= 2 * self._batch_size or batch.num_rows == 1:
            yield data
            return
        half = batch.num_rows // 2
        yield from self._stream(batch.slice(0, half))
        yield from self._stream(batch.slice(half))
