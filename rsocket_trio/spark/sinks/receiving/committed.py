"""The rows of a batch that Spark has committed: `CommittedBatch`."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Self

import attrs
import trio

from .... import Invalid
from ....codecs import CborCodec
from ....json_texts import read

__all__ = ["CommittedBatch", "PayloadReader", "RowReader"]

ReadChunk = Callable[[], Awaitable[list[bytes]]]
Rows = list[dict[str, Any]]

_CBOR: Final = CborCodec()
_IN_A_ROW: Final = 64
"""Payloads that are returned before other tasks run."""
_ROWS_AT_ONCE: Final = 1024
"""Rows of Arrow that become dicts together: a few bytes may be millions of rows with nulls."""


@attrs.frozen(kw_only=True)
class CommittedBatch:
    """The rows of a batch that Spark has committed. Iterate over it for the payloads as they came.

    The payloads are in the order of the partitions, and in a partition in the order of the task.
    They can be read until the handler returns, as often as needed.

    Attributes:
        query: The identity of the query. It is the same after a restart from its checkpoint.
        batch: The number of the batch, which grows within the query. A batch whose handler has
            failed, or was interrupted, comes again with the same query and number.
        owner: The name of the principal that has sent it, see ``owner`` of `sink_receiver`; an
            empty text if there is no principal.
        row_count: The number of rows.
        partitions: The numbers of the partitions.
        format: ``cbor`` or ``json``: each payload is a row, a map. ``arrow``: each payload is a
            stream of Arrow IPC.
        schema: The schema, in Spark's JSON form.
    """

    query: str
    batch: int
    owner: str
    row_count: int
    partitions: tuple[int, ...]
    format: str
    schema: str
    chunks: Sequence[tuple[int, ReadChunk]] = attrs.field(repr=False, alias="chunks")

    def __aiter__(self) -> PayloadReader:
        return PayloadReader(self)

    def rows(self) -> RowReader:
        """Return an iterator over the rows as dicts: ``async for row in batch.rows()``.

        For the format ``arrow`` this needs pyarrow.
        """
        return RowReader(self)


class PayloadReader:
    """An iterator over the payloads of a batch: ``async for data in batch``."""

    def __init__(self, batch: CommittedBatch) -> None:
        self._chunks = iter(batch.chunks)
        self._payloads: deque[bytes] = deque()
        self._burst = 0
        self.partition = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next payload.

        Raises:
            StopAsyncIteration: There are no more.

        Checkpoint: every payload is a cancellation point; other tasks run after 64 at least.
        If cancelled: no payload is lost.
        """
        if self._payloads and self._burst < _IN_A_ROW:
            self._burst += 1
            await trio.lowlevel.checkpoint_if_cancelled()
            return self._payloads.popleft()
        self._burst = 0
        await trio.lowlevel.checkpoint()
        while not self._payloads:
            following = next(self._chunks, None)
            if following is None:
                raise StopAsyncIteration
            self.partition, read = following
            with trio.CancelScope(shield=True):  # else the chunk would be skipped
                self._payloads.extend(await read())
        return self._payloads.popleft()


class RowReader:
    """An iterator over the rows of a batch, as dicts: ``async for row in batch.rows()``."""

    def __init__(self, batch: CommittedBatch) -> None:
        self._payloads = PayloadReader(batch)
        self._decode = _DECODERS[batch.format]
        self._format = batch.format
        self._parts: Iterator[Rows] = iter(())
        self._rows: deque[dict[str, Any]] = deque()
        self._burst = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next row.

        Raises:
            StopAsyncIteration: There are no more.
            Invalid: A payload is not of the format that its task has named.
            ImportError: The format is ``arrow``, and pyarrow is not installed.

        Checkpoint: every row is a cancellation point; other tasks run after 64 at least.
        If cancelled: no row is lost.
        """
        if self._rows and self._burst < _IN_A_ROW:
            self._burst += 1
            await trio.lowlevel.checkpoint_if_cancelled()
            return self._rows.popleft()
        self._burst = 0
        if self._rows:
            await trio.lowlevel.checkpoint()
        while not self._rows:
            part = self._next_part()
            if part is None:
                self._parts = self._decode(await anext(self._payloads))
            else:
                self._rows.extend(part)
        return self._rows.popleft()

    def _next_part(self) -> Rows | None:
        """Return the next rows of the payload; ``None`` if there are no more."""
        try:
            return next(self._parts, None)
        except (Invalid, ImportError):
            raise
        except Exception as error:  # the decoders raise many types, which mean the same here
            where = f"partition {self._payloads.partition}"
            raise Invalid(f"a payload of {where} has no rows of {self._format}") from error


def _one_row(value: object) -> Rows:
    if not isinstance(value, dict):
        raise Invalid("a row is a map")
    return [value]


def _cbor(data: bytes) -> Iterator[Rows]:
    yield _one_row(_CBOR.decode(data, Any))


def _json(data: bytes) -> Iterator[Rows]:
    yield _one_row(read(data))


def _arrow(data: bytes) -> Iterator[Rows]:
    try:
        import pyarrow as pa  # only where it is needed: the rest of a responder works without it
    except ImportError as error:
        raise ImportError(
            "rows in the format arrow need pyarrow: pip install 'rsocket-trio[spark]', or let "
            "Spark write with payloadFormat cbor or json"
        ) from error
    with pa.ipc.open_stream(data) as stream:
        names = stream.schema.names
        if len({*names}) != len(names):
            raise Invalid(
                "two columns have the same name, and a row is a dict: iterate over the batch, and "
                "read its payloads with pyarrow.ipc.open_stream"
            )
        for field in stream.schema:
            _check_plain(field.type)
        for batch in stream:
            batch.validate(full=True)  # the bytes came from a peer
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield batch.slice(start, _ROWS_AT_ONCE).to_pylist()


def _check_plain(type_: Any) -> None:
    """Check that values of a type of Arrow do not share bytes, also inside of others.

    A text that 1024 rows share would become 1024 texts.

    Raises:
        Invalid: They may.
    """
    import pyarrow.types as kinds  # `_arrow` has imported it

    sharing = (
        kinds.is_run_end_encoded,
        kinds.is_string_view,
        kinds.is_binary_view,
        kinds.is_list_view,
        kinds.is_large_list_view,
    )
    if any(is_kind(type_) for is_kind in sharing):
        raise Invalid(f"a column has the type {type_}, which Spark does not write")
    for number in range(type_.num_fields):
        _check_plain(type_.field(number).type)


_DECODERS: Final[dict[str, Callable[[bytes], Iterator[Rows]]]] = {
    "cbor": _cbor,
    "json": _json,
    "arrow": _arrow,
}
