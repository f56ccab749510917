"""What a task and the driver of a write do on a connection to the responder."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any, Final, TypeVar

import attrs
import trio

from .... import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionConfig,
    Payload,
    PayloadStream,
    Rejected,
    Requester,
    RSocketError,
    SetupError,
    StreamError,
    connect,
)
from ....log_policy import logger
from ....uri import shown
from ..errors import SinkError
from ..messages import (
    ABORT,
    COMMIT,
    AbortRequest,
    CommitReply,
    CommitRequest,
    Opening,
    Staged,
    Welcome,
    decode,
    encode,
)
from ..patience import Patience
from ..row_feed import RowFeed
from .settings import RSocketSinkSettings

__all__ = ["Sent", "abort_batch", "commit_batch", "fire_rows", "write_attempt"]

T = TypeVar("T")
Payloads = list[bytes]
Convert = Callable[[Any], tuple[Payloads, int]]
Routed = list[tuple[str, bytes]]

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
"""Seconds between attempts to reach a responder that refuses or cannot be reached."""

WARN_AFTER: Final = 2.0
"""Seconds without success until the log says so. A responder that restarts takes less."""


@attrs.frozen
class Sent:
    """What a task has written.

    Attributes:
        attempt: The identity of its attempt.
        rows: The number of rows that are staged.
        committed: The batch was committed already, so no rows were sent.
        unsent: The number of the rows that were not sent.
    """

    attempt: str
    rows: int
    committed: bool = False
    unsent: int = 0


async def write_attempt(
    settings: RSocketSinkSettings, opening: Opening, batches: Iterator[Any], convert: Convert
) -> Sent:
    """Send the rows of a task, and return when the responder has staged all of them.

    Args:
        settings: Where to.
        opening: The attempt; each try gets an identity of its own.
        batches: Spark's iterator.
        convert: Returns the payloads of a batch, and the number of their rows. It runs in a thread.

    Raises:
        SinkError: The rows are not staged.
    """
    feed = RowFeed(batches, convert)

    async def once(scope: trio.CancelScope) -> Sent:
        attempt = attrs.evolve(opening, attempt=str(uuid.uuid4()))
        async with _connected(settings) as requester:
            return await _channel(settings, requester, attempt, feed, scope)

    # After its Welcome, an attempt takes rows from Spark, so it cannot be repeated here.
    sent = await _patiently(settings, settings.timeout, "did not take an attempt", once)
    if not sent.committed:
        return sent
    # Spark may take long for the rows, and the responder needs none of them.
    unsent = await trio.to_thread.run_sync(feed.drain, abandon_on_cancel=True)
    return attrs.evolve(sent, unsent=unsent)


async def _channel(
    settings: RSocketSinkSettings,
    requester: Requester,
    opening: Opening,
    feed: RowFeed[Any, tuple[Payloads, int]],
    scope: trio.CancelScope,
) -> Sent:
    patience = Patience(settings.timeout, lambda: feed.waiting)
    welcomed = trio.Event()
    rows = 0
    all_sent = False

    async def source() -> AsyncIterator[Payload]:
        nonlocal rows, all_sent
        await welcomed.wait()
        async for payloads, count in feed:
            rows += count
            for data in payloads:
                patience.steps += 1
                yield Payload(data)
        all_sent = True

    first = Payload(encode(opening))
    where = _where(settings)
    async with patience.guard(where) as nursery:
        async with requester.request_channel(
            source(), payload=first, route=settings.route
        ) as replies:
            welcome = await _reply(replies, Welcome, opening, where)
            scope.deadline = inf
            if welcome.committed:
                return Sent(opening.attempt, 0, committed=True)
            nursery.start_soon(feed.pump)
            welcomed.set()
            staged = await _reply(replies, Staged, opening, where)
    if not all_sent:
        raise SinkError(
            f"{where} has staged partition {opening.partition} before Spark has sent all of its "
            "rows: the responder loses rows"
        )
    if staged.rows != rows:
        raise SinkError(
            f"{where} has staged {staged.rows} rows of partition {opening.partition}, and Spark "
            f"has sent {rows}: the responder loses or invents rows"
        )
    return Sent(opening.attempt, rows)


async def _reply(replies: PayloadStream, cls: type[T], opening: Opening, where: str) -> T:
    try:
        payload = await replies.receive()
    except trio.EndOfChannel:
        raise SinkError(f"{where} ended the channel without a {cls.__name__}") from None
    try:
        message = decode(payload.data, cls)
    except StreamError as error:
        raise SinkError(f"{where} is no sink: it answered with something else") from error
    if getattr(message, "attempt", None) != opening.attempt:
        raise SinkError(f"{where} answered for another attempt")
    return message


async def fire_rows(
    settings: RSocketSinkSettings,
    batches: Iterator[Any],
    convert: Callable[[Any], tuple[Routed, int]],
) -> int:
    """Send the rows of a task by fire_and_forget, and return their number.

    Args:
        settings: Where to.
        batches: Spark's iterator.
        convert: As for `write_attempt`, with the route of each payload.

    Raises:
        SinkError: The connection could not be made, or was lost.
    """
    feed = RowFeed(batches, convert)

    async def once(scope: trio.CancelScope) -> int:
        rows = 0
        async with _connected(settings) as requester:
            scope.deadline = inf
            patience = Patience(settings.timeout, lambda: feed.waiting)
            async with patience.guard(_where(settings)) as nursery:
                nursery.start_soon(feed.pump)
                async for payloads, count in feed:
                    for route, data in payloads:
                        await requester.fire_and_forget(Payload(data), route=route)
                        patience.steps += 1
                    rows += count
                await _round_trip(settings, requester)
            await trio.sleep(settings.linger)
        return rows

    return await _patiently(settings, settings.timeout, "could not be reached", once)


async def _round_trip(settings: RSocketSinkSettings, requester: Requester) -> None:
    """Wait until the responder has read all that was sent.

    Fire_and_forget has no answer, and a responder drops what it has not begun when the connection
    ends. It answers any request behind it, also one for a route that has no such handler.
    """
    with suppress(StreamError):
        await requester.request_response(Payload(b""), route=settings.route)


async def commit_batch(settings: RSocketSinkSettings, request: CommitRequest) -> CommitReply:
    """Commit a batch. It is tried again while the responder cannot be reached: it is idempotent.

    Raises:
        SinkError: It is not committed, as far as is known.
    """

    async def once(_: trio.CancelScope) -> CommitReply:
        async with _connected(settings) as requester:
            payload = Payload(encode(request))
            reply = await requester.request_response(payload, route=settings.route + COMMIT)
        if reply is None:
            raise SinkError(f"{_where(settings)} is no sink: it answered the commit with nothing")
        try:
            found = decode(reply.data, CommitReply)
        except StreamError as error:
            raise SinkError(
                f"{_where(settings)} is no sink: it answered the commit with something else"
            ) from error
        if (found.query, found.batch) != (request.query, request.batch):
            raise SinkError(f"{_where(settings)} answered for another batch")
        if found.rows != request.rows and not found.repeated:
            raise SinkError(
                f"{_where(settings)} has committed {found.rows} rows of batch {request.batch}, and "
                f"Spark has written {request.rows}: the responder loses or invents rows"
            )
        return found

    doing = f"did not commit batch {request.batch}"
    return await _patiently(settings, settings.commit_timeout, doing, once, reconnect=True)


async def abort_batch(settings: RSocketSinkSettings, request: AbortRequest) -> None:
    """Tell the responder to drop what it has staged.

    Raises:
        SinkError: It was not told. It drops the attempts with the next commit, or when they are
            too old.
    """

    async def once(_: trio.CancelScope) -> None:
        async with _connected(settings) as requester:
            payload = Payload(encode(request))
            await requester.request_response(payload, route=settings.route + ABORT)

    doing = "was not told of the abort"
    # Once: the job has failed, perhaps because the responder cannot be reached.
    await _patiently(settings, settings.connect_timeout, doing, once, again=False)


async def _patiently(
    settings: RSocketSinkSettings,
    timeout: float,  # noqa: ASYNC109 - the options of Spark have it, and Spark has no cancel scopes
    doing: str,
    once: Callable[[trio.CancelScope], Awaitable[T]],
    *,
    reconnect: bool = False,
    again: bool = True,
) -> T:
    """Call a function again while the responder refuses for now, or cannot be reached.

    The function may move the deadline of its scope, when it has made such progress that it must not
    be repeated.

    Raises:
        SinkError: It failed, or took too long.
    """
    pause = _FIRST_PAUSE
    last: Exception | None = None
    where = _where(settings)
    began = trio.current_time()
    warned = False
    with trio.CancelScope(deadline=began + timeout) as scope:
        while True:
            try:
                return await once(scope)
            except SetupError as error:
                raise SinkError(f"{where} refused the connection: {error}") from error
            except (Rejected, ConnectFailed) as error:
                last = error
            except ConnectionClosed as error:
                if not reconnect and scope.deadline > began + timeout:
                    raise SinkError(f"{where}: the connection was lost: {error}") from error
                last = error
            except StreamError as error:
                raise SinkError(f"{where} answered: {error}") from error
            except RSocketError as error:
                raise SinkError(f"{where}: {error}") from error
            if not again or scope.deadline > began + timeout:
                raise SinkError(f"{where} {doing}: {last}") from last
            left = began + timeout - trio.current_time()
            if not warned and left <= timeout - WARN_AFTER:
                warned = True
                logger.warning("%s %s: %s; trying again for up to %.0f s", where, doing, last, left)
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    why = "" if last is None else f": {last}"
    raise SinkError(f"{where} {doing} within {timeout:g} s{why}") from last


@asynccontextmanager
async def _connected(settings: RSocketSinkSettings) -> AsyncIterator[Requester]:
    timeout = settings.connect_timeout
    entered = False
    with trio.move_on_after(timeout) as scope:
        async with connect(
            settings.uri,
            setup_metadata=settings.setup_metadata,
            ssl_context=settings.tls.context(),
            config=ConnectionConfig(setup_timeout=timeout),
        ) as requester:
            entered = True
            scope.deadline = inf
            yield requester
    if not entered:
        raise ConnectFailed(
            f"cannot connect to {shown(settings.uri)}: not connected within {timeout:g} s "
            "(option connectTimeoutMs)"
        )


def _where(settings: RSocketSinkSettings) -> str:
    return f"the RSocket sink {shown(settings.uri)} route {settings.route!r}"
