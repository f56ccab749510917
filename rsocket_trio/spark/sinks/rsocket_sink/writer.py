"""The writers of ``format("rsocket")``: `rsocket_writer`, `rsocket_stream_writer`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StringType, StructType

from ....log_policy import logger
from ..errors import SinkError
from ..messages import AbortRequest, CommitRequest, Opening
from ..row_payloads import PayloadMaker
from ..running import run
from .sending import Sent, abort_batch, commit_batch, fire_rows, write_attempt
from .settings import MAX_ROUTE, RSocketSinkSettings
from .task_facts import TaskFacts

__all__ = [
    "RSocketBatchWriter",
    "RSocketStreamWriter",
    "WrittenAttempt",
    "rsocket_stream_writer",
    "rsocket_writer",
]


@attrs.frozen(kw_only=True)
class WrittenAttempt(WriterCommitMessage):
    """What a task tells the driver; the driver of a stream knows nothing else about the query.

    Attributes:
        query: The identity of the query.
        source: Its id in Spark; empty in a batch write.
        batch: The number of the batch.
        partition: The number of the partition.
        attempt: The identity of the attempt; empty for fire_and_forget.
        writer: The identity of the job.
        rows: The rows that are staged.
        unsent: The rows that were not sent, because the batch was committed already.
    """

    query: str
    source: str
    batch: int
    partition: int
    attempt: str
    writer: str
    rows: int
    unsent: int = 0


Messages = Sequence[WriterCommitMessage | None]


class _Writer:
    """What the two writers have in common. Spark pickles it for the tasks.

    Args:
        settings: The options.
        schema: The columns.
    """

    def __init__(self, settings: RSocketSinkSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema: str = schema.json()
        self._writer = str(uuid.uuid4())

    def _send(
        self, batches: Iterator[pa.RecordBatch], query: str, batch: int, source: str
    ) -> WrittenAttempt:
        settings = self._settings
        partition = TaskFacts.now().partition
        convert = _converter(settings)
        if settings.interaction == "fire_and_forget":
            routed = partial(_routed, settings, convert)
            sent = Sent("", run(partial(fire_rows, settings, batches, routed)))
        else:
            opening = Opening(
                query=query,
                batch=batch,
                partition=partition,
                attempt="",
                writer=self._writer,
                format=settings.format,
                schema=self._schema,
                source=source,
            )
            sent = run(partial(write_attempt, settings, opening, batches, convert))
        return WrittenAttempt(
            query=query,
            source=source,
            batch=batch,
            partition=partition,
            attempt=sent.attempt,
            writer=self._writer,
            rows=sent.rows,
            unsent=sent.unsent,
        )

    def _commit(self, messages: Messages) -> None:
        written = _written(messages)
        if len(written) != len(messages):
            raise SinkError("a task of this batch has told nothing: it cannot be committed")
        if not written or self._settings.interaction == "fire_and_forget":
            return
        request = CommitRequest(
            query=written[0].query,
            batch=written[0].batch,
            writer=written[0].writer,
            winners=[each.attempt for each in written],
            rows=sum(each.rows for each in written),
            source=written[0].source,
        )
        reply = run(partial(commit_batch, self._settings, request))
        again = request.rows + sum(each.unsent for each in written)
        if reply.repeated and reply.rows != again:
            logger.warning(
                "batch %d of query %s was committed before with %d rows: the %d rows of this time "
                "are not written. Two writes may have the same txnId and txnVersion",
                request.batch, request.query, reply.rows, again,
            )  # fmt: skip

    def _abort(self, query: str, batch: int, writer: str) -> None:
        if self._settings.interaction == "fire_and_forget":
            return
        request = AbortRequest(query=query, batch=batch, writer=writer)
        try:
            run(partial(abort_batch, self._settings, request))
        except SinkError as error:
            # Spark reports why the job has failed; this must not hide it.
            logger.warning("the abort of batch %d of query %s: %s", batch, query, error)


class RSocketBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame as one batch. `rsocket_writer` makes it."""

    def __init__(self, settings: RSocketSinkSettings, schema: StructType) -> None:
        super().__init__(settings, schema)
        self._query, self._batch = settings.batch_identity()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenAttempt:
        """Send the rows of a partition. It runs in a task."""
        return self._send(iterator, self._query, self._batch, "")

    def commit(self, messages: Messages) -> None:
        """Commit the write. It runs in the driver."""
        self._commit(messages)

    def abort(self, messages: Messages) -> None:
        """Give up the write. It runs in the driver."""
        self._abort(self._query, self._batch, self._writer)


class RSocketStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the microbatches of a stream. `rsocket_stream_writer` makes it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenAttempt:
        """Send the rows of a partition. It runs in a task."""
        facts = TaskFacts.now()
        if facts.query is None or facts.batch is None:
            raise SinkError("Spark has not told the query and the batch of this task")
        query = self._settings.txn_id or facts.query
        return self._send(iterator, query, facts.batch, facts.query)

    def commit(self, messages: Messages, batchId: int) -> None:
        """Commit a microbatch. It runs in the driver."""
        for each in _written(messages):
            if each.batch != batchId:
                raise SinkError(f"a task has written batch {each.batch}, not batch {batchId}")
        self._commit(messages)

    def abort(self, messages: Messages, batchId: int) -> None:
        """Give up a microbatch. It runs in the driver, which may know no identity then."""
        written = _written(messages)
        if written:
            self._abort(written[0].query, batchId, written[0].writer)


def rsocket_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> RSocketBatchWriter:
    """Return the writer for ``df.write.format("rsocket")``.

    Raises:
        ValueError: An option is wrong, missing or unknown.
    """
    settings = _settings(options, schema, overwrite)
    return RSocketBatchWriter(settings, schema)


def rsocket_stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> RSocketStreamWriter:
    """Return the writer for ``df.writeStream.format("rsocket")``.

    Raises:
        ValueError: An option is wrong, missing or unknown.
    """
    settings = _settings(options, schema, overwrite)
    if settings.txn_version is not None:
        raise ValueError("the option txnVersion is for batch writes: a stream counts its batches")
    return RSocketStreamWriter(settings, schema)


def _settings(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> RSocketSinkSettings:
    settings = RSocketSinkSettings.read(options, overwrite=overwrite)
    column = settings.route_column
    if column is not None and not (
        column in schema.names
        and len(schema) > 1
        and isinstance(schema[column].dataType, StringType)
    ):
        raise ValueError(
            "the option routeColumn names a column of the type STRING beside others, and"
            f" {column!r} is none: there are {', '.join(schema.names)}"
        )
    return settings


def _written(messages: Messages) -> list[WrittenAttempt]:
    return [each for each in messages if isinstance(each, WrittenAttempt)]


def _routed(
    settings: RSocketSinkSettings,
    convert: Callable[[pa.RecordBatch], tuple[list[bytes], int]],
    batch: pa.RecordBatch,
) -> tuple[list[tuple[str, bytes]], int]:
    """Return the payloads of a batch with their routes.

    Raises:
        SinkError: A row has no route, or one that cannot be sent.
    """
    column = settings.route_column
    if column is None:
        payloads, rows = convert(batch)
        return [(settings.route, each) for each in payloads], rows
    where = f"in the column {column!r} (option routeColumn)"
    longest = pc.max(pc.binary_length(batch.column(column))).as_py() or 0
    if longest > MAX_ROUTE:
        raise SinkError(f"a row has {longest} bytes {where}, and a route has at most {MAX_ROUTE}")
    try:
        routes: list[str | None] = batch.column(column).to_pylist()
    except UnicodeDecodeError as error:
        raise SinkError(f"a row has bytes that are no text {where}: {error}") from error
    if not settings.route and not all(routes):
        raise SinkError(
            f"a row has null or nothing {where}, and there is no option route for such rows"
        )
    payloads, rows = convert(batch.drop_columns([column]))
    return [(to or settings.route, data) for to, data in zip(routes, payloads, strict=True)], rows


def _converter(
    settings: RSocketSinkSettings,
) -> Callable[[pa.RecordBatch], tuple[list[bytes], int]]:
    maker: PayloadMaker | None = None

    def convert(batch: pa.RecordBatch) -> tuple[list[bytes], int]:
        nonlocal maker
        if maker is None:
            maker = PayloadMaker(batch.schema, settings.format, settings.batch_size)
        return maker.payloads(batch), batch.num_rows

    return convert
