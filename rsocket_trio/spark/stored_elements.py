"""Elements that a collector keeps in a spool, for ``format("rsocket")`` and ``format("rsio")``.

A collector subscribes to the publisher and stores what comes. It runs in the process of the stream
reader, or by itself (option ``collectors``). Offsets, partitions and reading are those of
``format("lumberjack")``. Only the rows are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ..collector import Subscription, stored_payloads
from ..lumberjack import UnknownEncoding
from .columns import default_layout
from .failures import ReadFailed
from .options import Options
from .rows.maker import SPOOL_FACTS, RowMaker
from .rows.settings import RowSettings
from .spool_source.batch_reader import LumberjackBatchReader
from .spool_source.planning import RangePartition
from .spool_source.reading import read_stored
from .spool_source.settings import SourceSettings as SpoolSettings
from .spool_source.stream_reader import LumberjackStreamReader

__all__ = ["SpoolBatchReader", "SpoolStreamReader", "read_spool_settings"]

_OF_SPOOL: Final = (
    "collectors",
    "spool",
    "maxSpoolSize",
    "consumer",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "minRowsPerTrigger",
    "maxTriggerDelayMs",
    "minPartitions",
    "maxPartitions",
    "cores",
    "failOnDataLoss",
    "trimOn",
    "pollTimeoutMs",
    "collectorTimeoutMs",
    "goneAfterMs",
    "auth.token",
    "auth.username",
    "auth.password",
    "tls.ca",
    "tls.cert",
    "tls.key",
    "tls.insecure",
)
"""The options that are those of ``format("lumberjack")``."""
_NO_LAYOUT: Final = default_layout(StructType())
"""The rows are made here, so the readers of ``format("lumberjack")`` need no columns."""


def read_spool_settings(
    options: Options,
    subscription: Callable[[], Subscription | None],
    missing: str,
    *,
    is_stream: bool,
) -> SpoolSettings:
    """Read the options of ``delivery=spool``, and check that there are no others.

    Args:
        options: The options. The other ones have been read.
        subscription: Returns the publisher that the options name; ``None`` if they name none.
        missing: Names the options of a publisher, for the text of an error.
        is_stream: Whether a stream is read. A batch reads what is kept, and subscribes to nothing.

    Raises:
        ValueError: One is wrong, unknown, or does not go with another.
    """
    given = {name: options.text(name, "") for name in _OF_SPOOL if options.has(name)}
    options.finish()
    if not given.keys() & {"spool", "collectors"}:
        raise ValueError(
            "delivery=spool needs the option spool, a directory of this host in which elements "
            "are kept, or the option collectors, the addresses of collectors that keep them"
        )
    settings = SpoolSettings.read(given)
    if not is_stream:
        return settings
    if settings.collectors:
        if options.has("uri"):
            raise ValueError(
                "the options uri and collectors exclude each other: collectors subscribe to "
                "publishers by themselves (rsocket-trio collect --subscribe)"
            )
        return settings
    named = subscription()
    if named is None:
        raise ValueError(
            f"delivery=spool with the option spool needs the options {missing} of a publisher"
        )
    return attrs.evolve(settings, subscribe=(named,))


class _Elements:
    """What both readers have in common: it comes before the reader of Lumberjack in their bases.

    Args:
        settings: The collectors.
        rows: How elements become rows.
        schema: The columns that Spark wants, exactly.
    """

    def __init__(self, settings: SpoolSettings, rows: RowSettings, schema: pa.Schema) -> None:
        super().__init__(settings, _NO_LAYOUT)  # type: ignore[call-arg]  # the reader's
        self._rows = rows
        self._schema = schema
        RowMaker(rows, schema, SPOOL_FACTS)  # An error here is better than one on each executor.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range, in a task."""
        return _read(partition, self._rows, self._schema)


class SpoolStreamReader(_Elements, LumberjackStreamReader):
    """Reads the elements that a collector stores, in micro-batches."""


class SpoolBatchReader(_Elements, LumberjackBatchReader):
    """Reads the elements that collectors keep, once."""


def _read(
    partition: InputPartition, rows: RowSettings, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RangePartition):  # Spark makes one if there are none.
        return
    maker = RowMaker(rows, schema, SPOOL_FACTS)
    for stored in read_stored(partition.place):
        try:
            payloads = stored_payloads(stored)
        except UnknownEncoding as error:
            raise ReadFailed(
                f'{error}. Events of Lumberjack senders are read by format("lumberjack")'
            ) from error
        yield from maker.rows(
            payloads,
            stored.start,
            collector=partition.place.spool_id,
            received_at=datetime.fromtimestamp(stored.stored_at, UTC),
        )
