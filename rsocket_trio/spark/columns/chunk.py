"""Stored batches that become one record batch: `Chunk`."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...collector import stored_payloads
from ...errors import MetadataError
from ...metadata import CompositeMetadata
from ...metadata.mime_types import mime_type_name
from ...spool import StoredBatch
from .json_events import decode_events, decode_lines, why_malformed
from .splitting import Events, is_whole_lines, split

__all__ = ["Chunk"]

_MICROSECONDS: Final = 1_000_000


class Chunk:
    """Stored batches of a collector, and the columns that their events make.

    Args:
        collector: The name of the collector.
        decodes: Whether `decode` is going to be called: it reads whole lines as they are.

    Attributes:
        rows: The number of events.
        size: The bytes of the events, after inflation.
    """

    def __init__(self, collector: str, *, decodes: bool) -> None:
        self.collector: Final = collector
        self._decodes: Final = decodes
        self.rows = 0
        self.size = 0
        self._batches: Final[list[StoredBatch]] = []
        # None: the batch is whole lines, which are split only if they must be.
        self._parts: Final[list[Events | None]] = []

    def add(self, stored: StoredBatch) -> None:
        """Add a batch, before the first column is asked for.

        Raises:
            rsocket_trio.lumberjack.UnknownEncoding: The batch is damaged.
        """
        # A few kilobytes can be many megabytes of events, so the batch is inflated at once: the
        # caller must know its size before it adds another one.
        part = None if self._decodes and is_whole_lines(stored) else split(stored)
        self._batches.append(stored)
        self._parts.append(part)
        self.rows += stored.wanted
        # Metadata count too: the whole batch is in memory.
        self.size += max(len(stored.data), 0 if part is None else part.texts.nbytes)

    def offset(self, row: int) -> int:
        """Return the offset of a row."""
        for stored in self._batches:
            if row < stored.wanted:
                break
            row -= stored.wanted
        return stored.start + row

    def decode(self, schema: pa.Schema) -> tuple[list[pa.Array], list[int]]:
        """Return columns of the JSON texts that fit to a schema, and the rows of the others."""
        columns = decode_lines(self._lines(), self.rows, schema)
        if columns is not None:
            return columns, []
        parts: list[list[pa.Array]] = []
        malformed: list[int] = []
        before = 0
        for stored, events in zip(self._batches, self._events, strict=True):
            decoded = decode_events(events.texts, schema)
            parts.append(decoded.columns)
            malformed += [before + index for index in decoded.malformed]
            before += stored.wanted
        return [pa.concat_arrays(column) for column in zip(*parts, strict=True)], malformed

    def why_malformed(self, row: int, schema: pa.Schema) -> str:
        """Return why the event of a row does not fit to a schema."""
        texts = pa.concat_arrays([each.texts for each in self._events])
        return why_malformed(texts.slice(row, 1), schema)

    def rows_without(self, rows: list[int]) -> pa.Array:
        """Return a mask that is false for these rows."""
        return pc.invert(pc.is_in(_range(0, self.rows), value_set=pa.array(rows, pa.int64())))

    def column(self, source: str) -> pa.Array:
        """Return a column that is not decoded.

        Args:
            source: One of those in `rsocket_trio.spark.columns.schemas.Layout`.
        """
        match source:
            case "collector":
                return pa.repeat(pa.scalar(self.collector, pa.string()), self.rows)
            case "offset":
                return self._offsets()
            case "received_at":
                times = [round(each.stored_at * _MICROSECONDS) for each in self._batches]
                return self._for_each_batch(times, pa.timestamp("us", tz="UTC"))
            case "remote":
                peers = [each.facts.get("peer") for each in self._batches]
                return self._for_each_batch(peers, pa.string())
            case "value":
                return _as_text(pa.concat_arrays([each.texts for each in self._events]))
            case "raw":
                return pa.concat_arrays([each.raws for each in self._events])
            case "metadata":
                return self._metadata()
        raise ValueError(f"there is no source {source!r}")

    def corrupt(self, fits: pa.Array | None) -> pa.Array:
        """Return the texts of the rows that do not fit, and null for the others.

        Args:
            fits: Which rows fit. ``None``: all.
        """
        nothing = pa.scalar(None, pa.string())
        if fits is None:
            return pa.repeat(nothing, self.rows)
        return pc.if_else(fits, nothing, self.column("value"))

    @cached_property
    def _events(self) -> list[Events]:
        pairs = zip(self._batches, self._parts, strict=True)
        return [split(stored) if part is None else part for stored, part in pairs]

    def _lines(self) -> bytes:
        """Return all events as lines, without an object for each."""
        if all(part is None for part in self._parts):
            return b"".join([each.data for each in self._batches])
        # An empty text behind them makes the last line end.
        texts = pa.concat_arrays([*(each.texts for each in self._events), pa.array([b""])])
        listed = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
        lines: bytes = pc.binary_join(listed, b"\n")[0].as_py()
        return lines

    def _offsets(self) -> pa.Array:
        first = self._batches[0].start
        ends = [each.stop for each in self._batches]
        if ends[-1] - first == self.rows:
            return _range(first, self.rows)
        # Events between them were lost, and the user accepts that.
        return pa.concat_arrays([_range(each.start, each.wanted) for each in self._batches])

    def _metadata(self) -> pa.Array:
        """Return the facts of each batch, with the metadata of each payload."""
        maps: list[dict[str, bytes]] = []
        rows: list[int] = []
        for stored in self._batches:
            facts = {name: text.encode() for name, text in stored.facts.items()}
            payloads = stored_payloads(stored) if stored.encoding == "payloads" else ()
            if any(each.metadata is not None for each in payloads):
                rows += range(len(maps), len(maps) + stored.wanted)
                # The sender names its entries: facts come first, and their values stay.
                maps += [facts | _entries(each.metadata) | facts for each in payloads]
            else:
                rows += [len(maps)] * stored.wanted
                maps.append(facts)
        kind = pa.map_(pa.string(), pa.binary())
        found: pa.Array = pa.array([[*each.items()] for each in maps], kind).take(pa.array(rows))
        return found

    def _for_each_batch(self, values: list[Any], kind: pa.DataType) -> pa.Array:
        """Return a column in which all rows of a batch have the same value."""
        ends: list[int] = []
        end = 0
        for stored in self._batches:
            end += stored.wanted
            ends.append(end)
        runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, kind))
        return pc.run_end_decode(runs)


def _entries(metadata: bytes | None) -> dict[str, bytes]:
    """Return metadata by their MIME types, or as a whole if they are no composite ones."""
    if metadata is None:
        return {}
    try:
        entries = CompositeMetadata.decode(metadata).entries
    except MetadataError:
        return {"metadata": metadata}
    return {mime_type_name(each.mime_type): each.content for each in entries}


def _range(start: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=start - 1)


def _as_text(values: pa.Array) -> pa.Array:
    """Return bytes as text. Bytes that are not UTF-8 become U+FFFD, as in Python."""
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        texts = [value.decode(errors="replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())
