"""Stored batches to record batches for Spark: `record_batches`.

Small stored batches are joined, because each record batch costs Spark about as much as a thousand
rows; large ones are cut, because Spark holds a record batch as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import RSocketError
from ...spool import StoredBatch
from .chunk import Chunk
from .schemas import Layout

__all__ = ["MalformedEvent", "record_batches"]

ENOUGH_ROWS: Final = 10_000
"""Stored batches are joined up to this number of rows. Spark itself takes as many."""

ENOUGH_BYTES: Final = 4 * 2**20
"""Stored batches are joined up to about this size."""

MOST_BYTES: Final = 32 * 2**20
"""A larger record batch is cut. A row is never cut, so one may be as large as its event."""


class MalformedEvent(RSocketError):
    """An event does not fit to the schema, and the mode is FAILFAST."""


def record_batches(
    stored: Iterable[StoredBatch], layout: Layout, *, collector: str
) -> Iterator[pa.RecordBatch]:
    """Iterate over record batches with the events of stored batches, in order.

    Args:
        stored: Stored batches that follow each other.
        layout: The columns.
        collector: The text for the column of this name.

    Raises:
        MalformedEvent: An event does not fit, and the mode is FAILFAST.
        rsocket_trio.lumberjack.UnknownEncoding: A stored batch is damaged.
    """
    chunk = Chunk(collector, decodes=layout.decodes)
    for each in stored:
        chunk.add(each)
        if chunk.rows >= ENOUGH_ROWS or chunk.size >= ENOUGH_BYTES:
            yield from _cut(_record_batch(chunk, layout))
            chunk = Chunk(collector, decodes=layout.decodes)
    if chunk.rows:
        yield from _cut(_record_batch(chunk, layout))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if not batch.num_rows:
        return
    pieces = min(batch.nbytes // MOST_BYTES + 1, batch.num_rows)
    step = -(-batch.num_rows // pieces)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _record_batch(chunk: Chunk, layout: Layout) -> pa.RecordBatch:
    decoded: dict[str, pa.Array] = {}
    fits: pa.Array | None = None  # Which rows have the columns of `decoded`. None: all.
    if layout.decodes:
        columns, malformed = chunk.decode(layout.decoded)
        if malformed and layout.mode == "FAILFAST":
            raise MalformedEvent(
                f"the event at offset {chunk.offset(malformed[0])} of the collector"
                f" {chunk.collector} does not fit to the schema:"
                f" {chunk.why_malformed(malformed[0], layout.decoded)}; the mode PERMISSIVE makes"
                " it a row of nulls, and DROPMALFORMED leaves it out"
            )
        if malformed:
            fits = chunk.rows_without(malformed)
            if layout.mode == "PERMISSIVE":
                columns = _spread(columns, fits)
        decoded = dict(zip(layout.decoded.names, columns, strict=True))
    drop = fits is not None and layout.mode == "DROPMALFORMED"
    arrays = []
    for field in layout.schema:
        if field.name in decoded:
            arrays.append(decoded[field.name])
            continue
        source = layout.sources[field.name]
        column = chunk.corrupt(fits) if source == "corrupt" else chunk.column(source)
        arrays.append(column.filter(fits) if drop else column)
    return pa.RecordBatch.from_arrays(arrays, schema=layout.schema)


def _spread(columns: list[pa.Array], fits: pa.Array) -> list[pa.Array]:
    """Return the columns with a null in each row that does not fit."""
    numbers = pc.subtract(pc.cumulative_sum(fits.cast(pa.int64())), 1)
    places = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
    return [column.take(places) for column in columns]
