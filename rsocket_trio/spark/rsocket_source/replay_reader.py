"""``spark.readStream.format("rsocket")`` with ``delivery=replay``: elements by offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ..options import Options
from ..replay import RangeRequest, ReplayOffsets
from .asking import find_offsets
from .batch_reader import THREAD, row_maker
from .positions import (
    LATEST,
    Position,
    advance,
    check_order,
    parse_starting,
    ranges,
    starting,
)
from .replayed_rows import replayed_rows
from .settings import SourceSettings

__all__ = [
    "RangePartition",
    "ReplayBatchReader",
    "ReplaySettings",
    "ReplayStreamReader",
    "read_replay_settings",
]


@attrs.frozen(kw_only=True)
class ReplaySettings:
    """The options of ``delivery=replay``.

    Attributes:
        starting: Where a new query, or a batch read, begins: see `parse_starting`.
        ending: Where a batch read ends.
        max_rows: The largest number of elements of a batch, or None.
        min_partitions: Split a batch into about so many partitions.
        fail_on_loss: Whether elements that are gone are an error.
        poll: How long to wait for new elements, in seconds.
    """

    starting: int | Mapping[int, int]
    ending: int | Mapping[int, int]
    max_rows: int | None
    min_partitions: int
    fail_on_loss: bool
    poll: float


def read_replay_settings(options: Options) -> ReplaySettings:
    """Read these options.

    Raises:
        ValueError: One is wrong.
    """
    return ReplaySettings(
        starting=parse_starting(options.text("startingOffsets", "earliest")),
        ending=parse_starting(options.text("endingOffsets", "latest"), "endingOffsets"),
        max_rows=options.integer("maxRowsPerTrigger", None, 1),
        min_partitions=options.integer("minPartitions", 1, 1, 100_000),
        fail_on_loss=options.flag("failOnDataLoss", default=True),
        poll=options.milliseconds("pollTimeoutMs", 500),
    )


class RangePartition(InputPartition):
    """A range of elements, for one task."""

    def __init__(self, wanted: RangeRequest) -> None:
        super().__init__(attrs.astuple(wanted))
        self.wanted = wanted


class ReplayStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads elements by offset, each exactly once for a checkpoint.

    Args:
        settings: What to ask for.
        replay: Where to begin, and how much to read at once.
        schema: The columns that Spark wants, exactly.
    """

    def __init__(self, settings: SourceSettings, replay: ReplaySettings, schema: pa.Schema) -> None:
        self._settings = settings
        self._replay = replay
        self._schema = schema
        self._target: ReplayOffsets | None = None
        self._seen: ReplayOffsets | None = None
        row_maker(settings, schema)  # An error here is better than one on each executor.

    def initialOffset(self) -> dict[str, Any]:
        """See `DataSourceStreamReader.initialOffset`."""
        return starting(self._replay.starting, _offsets(self._settings)).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """See `DataSourceStreamReader.getDefaultReadLimit`."""
        most = self._replay.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """See `SupportsTriggerAvailableNow`."""
        self._target = _offsets(self._settings)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """See `DataSourceStreamReader.latestOffset`. It waits for new elements for a while."""
        begin = Position.from_json(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None

        def news(here: ReplayOffsets) -> Position | None:
            self._seen = here
            end = advance(
                begin,
                here if self._target is None else _up_to(here, self._target),
                limit=most,
                fail_on_loss=self._replay.fail_on_loss,
                may_be_behind=len(self._settings.uris) > 1,
            )
            return None if end is begin else end

        wait = self._replay.poll if self._target is None else 0
        end = THREAD.run(find_offsets, self._settings, news, wait)
        return start if end is None else end.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """See `DataSourceStreamReader.reportLatestOffset`."""
        if self._seen is None:
            return None
        latest = {number: each.latest for number, each in self._seen.partitions.items()}
        return Position(latest).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """See `DataSourceStreamReader.partitions`. It asks no responder."""
        wanted = ranges(
            Position.from_json(start), Position.from_json(end), self._replay.min_partitions
        )
        return [RangePartition(each) for each in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceStreamReader.read`."""
        assert isinstance(partition, RangePartition)
        return replayed_rows(
            self._settings,
            self._schema,
            partition.wanted,
            fail_on_loss=self._replay.fail_on_loss,
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the responder decides how long it keeps elements."""

    def stop(self) -> None:
        """Do nothing: no connection is open between calls."""


def _offsets(settings: SourceSettings) -> ReplayOffsets:
    found: list[ReplayOffsets] = []
    THREAD.run(find_offsets, settings, found.append)
    return found[-1]


def _up_to(here: ReplayOffsets, target: ReplayOffsets) -> ReplayOffsets:
    """Return the elements that were there when an AvailableNow query began."""
    found = {}
    for number, each in here.partitions.items():
        if number in target.partitions:
            latest = min(each.latest, target.partitions[number].latest)
            found[number] = attrs.evolve(each, latest=max(latest, each.earliest))
    return ReplayOffsets(found)


class ReplayBatchReader(DataSourceReader):
    """Reads a range of elements once.

    Args:
        settings: What to ask for.
        replay: The range.
        schema: The columns that Spark wants, exactly.
    """

    def __init__(self, settings: SourceSettings, replay: ReplaySettings, schema: pa.Schema) -> None:
        self._settings = settings
        self._replay = replay
        self._schema = schema
        row_maker(settings, schema)  # An error here is better than one on each executor.

    def partitions(self) -> list[InputPartition]:
        """See `DataSourceReader.partitions`."""
        here = _offsets(self._settings)
        begin = starting(self._replay.starting, here)
        end = starting(self._replay.ending, here, "endingOffsets", LATEST)
        check_order(begin, end)
        wanted = ranges(begin, end, self._replay.min_partitions)
        return [RangePartition(each) for each in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader.read`."""
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark makes this one if there are no others.
        return replayed_rows(
            self._settings,
            self._schema,
            partition.wanted,
            fail_on_loss=self._replay.fail_on_loss,
        )
