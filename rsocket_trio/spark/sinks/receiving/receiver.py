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

from .... import (
    Authenticate,
    Authentication,
    Invalid,
    Payload,
    Principal,
    Rejected,
    RequestFacts,
    ResumeFacts,
    Router,
    Setup,
)
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

    def _router(self, owner: Callable[[Any], str] | None) -> Router:
        """Return the routes of the sink, for requests with an owner each."""
        router = Router(authenticate=_owner_of(owner))

        @router.request_channel("")
        async def stage(items: Items, owner: Annotated[str, Principal]) -> AsyncIterator[Payload]:
            return self._stage(owner, items)

        @router.request_response(COMMIT)
        async def commit(payload: Payload, owner: Annotated[str, Principal]) -> Payload:
            return await self._commit(owner, payload)

        @router.request_response(ABORT)
        async def abort(payload: Payload, owner: Annotated[str, Principal]) -> Payload:
            return await self._abort(owner, payload)

        return router


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
        owner: Returns the owner's name for the principal of a request, which the router's
            authenticator has returned. Each owner has queries of its own, and cannot commit, abort
            or repeat those of others. By default a principal that is a ``str`` is the name, and
            requests of other principals are refused; those without one have one owner together.
            With a function, requests need a principal.

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
        router.include(receiver._router(owner), route)  # noqa: SLF001 - this function made it
        yield receiver
    finally:
        staging.closed = True
        with trio.CancelScope(shield=True):
            await staging.in_store(store.close)


def _answer(message: object) -> Payload:
    return Payload(encode(message))


def _owner_of(named: Callable[[Any], str] | None) -> Authenticate:
    """Return what finds the owner of a request: by what the router around the sink says of it.

    Args:
        named: See ``owner`` of `sink_receiver`.
    """
    if named is not None and (not callable(named) or inspect.iscoroutinefunction(named)):
        raise TypeError("owner must be a function that returns the name of a principal's owner")

    async def owner_of(
        auth: Authentication | None, facts: Setup | RequestFacts | ResumeFacts
    ) -> str | None:
        if not isinstance(facts, RequestFacts):
            return None
        principal = facts.outer_principal
        if named is None:
            if principal is None:
                return ""
            found: object = principal
            what = "the principal is"
        elif principal is None:
            raise Rejected("authentication is needed")
        else:
            found = named(principal)
            what = "owner returned"
        if not isinstance(found, str):
            # All of them as one owner could commit the batches of each other.
            raise TypeError(
                f"{what} {type(found).__name__}, not a str: give sink_receiver an owner= that"
                " returns the name of a principal, e.g. owner=lambda user: user.name"
            )
        if not found:
            raise Invalid("this principal may not write to the sink")
        return found

    return owner_of
