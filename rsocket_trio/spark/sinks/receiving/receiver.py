"""The responder's side of Spark's RSocket sink: `sink_receiver`."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, final

import attrs
import trio

from .... import Invalid, Payload, Principal, Rejected, Router
from ....sealed import Sealed, make
from ..messages import (
    ABORT,
    COMMIT,
    AbortRequest,
    CommitRequest,
    Opening,
    Staged,
    Welcome,
    decode,
    encode,
)
from .committed import CommittedBatch
from .limits import SinkLimits
from .sqlite_store import SqliteStore
from .staging import Staging
from .store import MemoryStore, Store

__all__ = ["SinkReceiver", "SinkStatistics", "sink_receiver"]

OnCommit = Callable[[CommittedBatch], Awaitable[None]]
Items = trio.abc.ReceiveChannel[Payload]

_DEFAULT_LIMITS: Final = SinkLimits()
F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen(kw_only=True)
class SinkStatistics:
    """Numbers about a sink.

    Attributes:
        open_attempts: Attempts that are receiving rows.
        attempts: Attempts that are not committed, the open ones included.
        staged_size: The bytes of their rows.
        committed_batches: Batches that were committed since the block began.
        committed_rows: Their rows.
    """

    open_attempts: int
    attempts: int
    staged_size: int
    committed_batches: int
    committed_rows: int


@final
class SinkReceiver(metaclass=Sealed, given="sink_receiver gives one"):
    """Takes what Spark writes; `sink_receiver` makes it."""

    def __init__(self, staging: Staging, on_commit: OnCommit) -> None:
        self._staging = staging
        self._on_commit = on_commit
        self._batches = 0
        self._rows = 0

    def statistics(self) -> SinkStatistics:
        """Return numbers about this sink."""
        staging = self._staging
        return SinkStatistics(
            open_attempts=staging.open,
            attempts=len(staging.index),
            staged_size=staging.index.size,
            committed_batches=self._batches,
            committed_rows=self._rows,
        )

    async def _stage(self, owner: str, items: Items) -> AsyncIterator[Payload]:
        """Take the rows of one attempt; the handler of the channel."""
        staging = self._staging
        opening = decode((await items.receive()).data, Opening)
        attempt = await staging.begin(owner, opening)
        if attempt is None:
            yield _answer(Welcome(attempt=opening.attempt, committed=True))
            return
        try:
            yield _answer(Welcome(attempt=opening.attempt))
            idle = staging.limits.max_idle
            with trio.move_on_after(idle) as patience:
                async for payload in items:
                    await attempt.add(payload.data)
                    patience.deadline = trio.current_time() + idle
            if patience.cancelled_caught:
                raise Rejected(
                    f"no rows came for {idle:g} s (SinkLimits.max_idle of the responder)"
                )
            await attempt.complete()
        finally:
            staging.end(attempt)
        yield _answer(Staged(attempt=opening.attempt, rows=attempt.rows))

    async def _commit(self, owner: str, payload: Payload) -> Payload:
        request = decode(payload.data, CommitRequest)
        reply = await self._staging.commit(owner, request, self._on_commit)
        if not reply.repeated:
            self._batches += 1
            self._rows += reply.rows
        return _answer(reply)

    async def _abort(self, owner: str, payload: Payload) -> Payload:
        await self._staging.abort(owner, decode(payload.data, AbortRequest))
        return Payload(b"")

    def _register(self, router: Router, route: str, owner: Callable[[Any], str] | None) -> None:
        if owner is None:

            @router.request_channel(route)
            async def stage(items: Items) -> AsyncIterator[Payload]:
                return self._stage("", items)

            @router.request_response(route + COMMIT)
            async def commit(payload: Payload) -> Payload:
                return await self._commit("", payload)

            @router.request_response(route + ABORT)
            async def abort(payload: Payload) -> Payload:
                return await self._abort("", payload)

            return
        name = _checked(owner)

        @router.request_channel(route)
        async def owned_stage(
            items: Items, principal: Annotated[Any, Principal]
        ) -> AsyncIterator[Payload]:
            return self._stage(name(principal), items)

        @router.request_response(route + COMMIT)
        async def owned_commit(payload: Payload, principal: Annotated[Any, Principal]) -> Payload:
            return await self._commit(name(principal), payload)

        @router.request_response(route + ABORT)
        async def owned_abort(payload: Payload, principal: Annotated[Any, Principal]) -> Payload:
            return await self._abort(name(principal), payload)


@asynccontextmanager
async def sink_receiver(
    router: Router,
    route: str,
    on_commit: OnCommit,
    *,
    directory: str | os.PathLike[str] | None = None,
    limits: SinkLimits = _DEFAULT_LIMITS,
    owner: Callable[[Any], str] | None = None,
) -> AsyncIterator[SinkReceiver]:
    """Take what Spark writes with ``format("rsocket")`` to a route, a batch at a time.

    ``async with sink_receiver(router, "alerts", store, directory="staged"): ...``, with a server
    of the router in the block.

    The rows of each task are staged until Spark commits their batch. Then ``on_commit`` gets the
    rows. When it has returned, the batch is remembered, and ``on_commit`` does not get it again,
    also if Spark writes it again after a crash.

    This holds for the crashes of Spark, and for those of this process with one exception: if this
    process is killed after ``on_commit`` has written the rows and before the batch is remembered,
    ``on_commit`` gets the batch a second time. A disk that fails makes this time longer: the batch
    is remembered when Spark has tried again. To write it exactly once, write ``batch.query`` and
    ``batch.batch`` in the same transaction as the rows, and return at once if they are there.

    Args:
        router: Gets the three routes of the sink. Its guards are asked about their requests.
        route: The route that Spark names.
        on_commit: ``await on_commit(batch)`` takes the rows of a `CommittedBatch`. If it raises,
            the commit fails in Spark, and the batch stays staged. A `StreamError` is told to Spark.
        directory: Where rows are staged and batches are remembered; for one sink and one process.
            ``None``: in memory, and after a restart the last batch of each query may come again.
        limits: What Spark may cost.
        owner: Returns the owner's name for the principal of a request. Then each owner has queries
            of its own, and cannot commit, abort or repeat those of others. The router needs an
            authenticator.

    Yields:
        The receiver, for its statistics. After the block, Spark's requests are refused.

    Raises:
        SinkDirectoryError: The directory is in use, or is not the directory of a sink.
        TypeError: An argument is of a wrong type.
        ValueError: The router has one of the routes already.
        OSError: The directory cannot be made or read.

    Checkpoint: entering and leaving, always.
    If cancelled: what is staged stays in the directory.
    """
    if not isinstance(limits, SinkLimits):
        raise TypeError(f"limits must be SinkLimits, not {type(limits).__name__}")
    if not callable(on_commit):
        raise TypeError("on_commit must be an async function that takes a CommittedBatch")
    store: Store
    if directory is None:
        store = MemoryStore()
        await trio.lowlevel.checkpoint()
    else:
        store = await trio.to_thread.run_sync(SqliteStore, Path(directory))
    staging = Staging(store, limits)
    try:
        await staging.load()
        receiver = make(SinkReceiver, staging, on_commit)
        receiver._register(router, route, owner)  # noqa: SLF001 - this function made it
        yield receiver
    finally:
        staging.closed = True
        with trio.CancelScope(shield=True):
            await staging.in_store(store.close)


def _answer(message: object) -> Payload:
    return Payload(encode(message))


def _checked(owner: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return ``owner`` with a check of what it returns."""
    if not callable(owner) or inspect.iscoroutinefunction(owner):
        raise TypeError("owner must be a function that returns the name of a principal's owner")

    def name(principal: Any) -> str:
        found = owner(principal)
        if not isinstance(found, str):
            raise TypeError(f"owner returned {type(found).__name__}, not a str")
        if not found:
            raise Invalid("this principal may not write to the sink")
        return found

    return name
