"""The rows of a batch that Spark has committed: `CommittedBatch`."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Self

import attrs
import trio

from ... import Invalid
from ...codecs import CborCodec

__all__ = ["CommittedBatch", "PayloadReader", "RowReader"]

ReadChunk = Callable[[], Awaitable[list[bytes]]]

_CBOR: Final = CborCodec()
_IN_A_ROW: Final = 64
"""Payloads that are returned before other tasks run."""


@attrs.frozen(kw_only=True)
class CommittedBatch:
    """The rows of a batch that Spark has committed. Iterate over it for the payloads as they came.

    The payloads are in the order of the partitions, and in a partition in the order of the task.
    They can be read until the handler returns, as often as needed.

    Attributes:
        query: The identity of the query. It is the same after a restart from its checkpoint.
        batch: The number of the batch, which grows within the query. A batch whose handler has
            failed, or was interrupted, comes again with the same query and number.
        owner: Who has sent it, as ``owner`` of `sink_receiver` says; otherwise an empty text.
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
            data = await anext(self._payloads)
            try:
                self._rows.extend(self._decode(data))
            except (Invalid, ImportError):
                raise
            # The decoders raise many types, and all of them mean the same here.
            except Exception as error:
                where = f"partition {self._payloads.partition}"
                raise Invalid(f"a payload of {where} has no rows of {self._format}") from error
        return self._rows.popleft()


def _one_row(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, dict):
        raise Invalid("a row is a map")
    return [value]


def _cbor(data: bytes) -> list[dict[str, Any]]:
    return _one_row(_CBOR.decode(data, Any))


def _json(data: bytes) -> list[dict[str, Any]]:
    return _one_row(json.loads(data))


def _arrow(data: bytes) -> list[dict[str, Any]]:
    try:
        import pyarrow as pa  # only where it is needed: the rest of a responder works without it
    except ImportError as error:
        raise ImportError(
            "rows in the format arrow need pyarrow: pip install 'rsocket-trio[spark]', or let "
            "Spark write with payloadFormat cbor or json"
        ) from error
    rows: list[dict[str, Any]] = []
    with pa.ipc.open_stream(data) as stream:
        for batch in stream:
            batch.validate(full=True)  # the bytes came from a peer
            rows += batch.to_pylist()
    return rows


_DECODERS: Final[dict[str, Callable[[bytes], list[dict[str, Any]]]]] = {
    "cbor": _cbor,
    "json": _json,
    "arrow": _arrow,
}
