"""Requests that are sent by a policy: `Repeating`, for `Repeats`.

A request and its repeats are in the task, and so in the cancel scopes, of their caller. It does not
know a wire: what it is given sends the request once, or opens the stream, on whatever connection
there is. What happened is in the error:

    answered, with an error that is not transient     the caller's
    not processed, or ``idempotent``, and transient   repeated after a wait, from the budget
    may have been processed                           the caller's
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from .errors import CircuitOpen, RSocketError, fresh_copy
from .interactions.block import Reopened
from .interactions.demand import PayloadStream
from .interactions.isolation import cancellation_of, split
from .protocol.budget import Purse
from .protocol.circuit import Outlier
from .protocol.interaction import Interaction
from .protocol.percentile import Percentile

if TYPE_CHECKING:
    from .connection.patient_requests import PatientRequests, Request
    from .metadata.builder import Metadata
    from .protocol.repeats import Repeats

__all__ = ["RepeatedRequests", "Repeating"]

T = TypeVar("T")

_MAX_ROUTES: Final = 256
"""Routes of one client that have a budget of their own; all others share one. A route may have a
variable in it, so that there are any number of them."""


class _Route:
    """What is known of the requests of one route."""

    def __init__(self, policy: Repeats) -> None:
        self.purse = Purse(policy.budget, trio.current_time())
        self.times = Percentile(1.0 if policy.hedge is None else policy.hedge.part)


class Repeating:
    """The policy of one client, and what it knows of its server.

    Args:
        policy: The policy.
        over: Returns whether no other try can succeed: there is no connection, and none follows.
    """

    def __init__(self, policy: Repeats, over: Callable[[], bool]) -> None:
        self.policy = policy
        self.over = over
        self.outlier = None if policy.circuit is None else Outlier(policy.circuit)
        self.failure: RSocketError | None = None  # the last one
        self._routes: dict[str | None, _Route] = {}

    def route(self, name: str | None) -> _Route:
        """Return what is known of a route."""
        route = self._routes.get(name)
        if route is None:
            if len(self._routes) >= _MAX_ROUTES:
                name = None  # shared; it has a place beyond the limit
            route = self._routes.get(name) or _Route(self.policy)
            self._routes[name] = route
        return route

    async def answer(
        self,
        route: str | None,
        send: Callable[[], Awaitable[T]],
        *,
        idempotent: bool | None = False,
    ) -> T:
        """Send a request, perhaps several times, and wait for its answer.

        Args:
            route: What has a budget of its own.
            send: Sends it once, and waits for its answer.
            idempotent: Whether the peer may process it twice; ``None``: it can be sent only once.

        Raises:
            CircuitOpen: Nothing was sent.
            Exception: The error of the request. Its `RSocketError.sent` and
                `RSocketError.unprocessed` are true of all its tries.

        Checkpoint: as ``send``; also if the circuit is open.
        If cancelled: as ``send``; nothing is sent while it waits.
        """
        tries = _Tries(self, route, idempotent=idempotent)
        while True:
            await tries.begin()
            began = trio.current_time()
            try:
                after = tries.hedge_after
                if after is None:
                    answer = await send()
                else:
                    answer = await _hedged(send, after, tries.may_hedge)
            except BaseException as error:  # raised again, unless another try follows
                tries.end(error)
                wait = tries.wait_after(error, trio.current_effective_deadline())
                if wait is None:
                    raise
            else:
                tries.end(None, trio.current_time() - began)
                return answer
            await trio.sleep(wait)

    @asynccontextmanager
    async def opened(
        self,
        route: str | None,
        open_: Callable[[], AbstractAsyncContextManager[T]],
        *,
        idempotent: bool | None = False,
    ) -> AsyncIterator[T]:
        """Open a stream, and again before its first item, if it is one of payloads.

        Args:
            route: As for `answer`.
            open_: Opens it once.
            idempotent: As for `answer`.
        """
        tries = _Tries(self, route, idempotent=idempotent)
        async with Reopened() as streams:

            async def open_one() -> Any:
                while True:
                    await tries.begin()
                    try:
                        return await streams.enter(open_())
                    except BaseException as error:  # as in `answer`
                        tries.end(error)
                        wait = tries.wait_after(error, trio.current_effective_deadline())
                        if wait is None:
                            raise
                    await trio.sleep(wait)

            stream = await open_one()
            payloads = stream if isinstance(stream, PayloadStream) else None
            if payloads is not None:
                tries.hear(payloads)
                payloads._opens_again(  # noqa: SLF001 - only for this module
                    _Reopening(tries, open_one, payloads)
                )
            try:
                yield stream
            except RSocketError as error:  # raised again
                # Of the stream, or of something else that the block does.
                if payloads is None or payloads._inbox.failure is not None:  # noqa: SLF001
                    tries.end(error)
                raise
            else:
                tries.end(None)
            finally:
                tries.leave()

    async def check(self) -> None:
        """Raise if no request may be sent now.

        Raises:
            CircuitOpen: As said.

        Checkpoint: only if it raises.
        If cancelled: nothing has happened.
        """
        now = trio.current_time()
        if self.outlier is not None and not self.outlier.may_admit(now):
            await trio.lowlevel.checkpoint()
            raise self.circuit_open(now)

    def circuit_open(self, now: float) -> CircuitOpen:
        """Return the error of a request that may not be sent."""
        assert self.outlier is not None
        wait = max(self.outlier.until - now, 0.0)
        why = self.failure or "no answer came in time"
        error = CircuitOpen(
            f"requests fail, so none is sent for {wait:.1f} s (Repeats.circuit): {why}",
            retry_after=wait,
        )
        error.__cause__ = self.failure
        return error


class _Tries:
    """The tries of one request.

    Args:
        repeating: The policy, and what is known.
        route: As for `Repeating.answer`.
        idempotent: As there.

    Attributes:
        left: With what the last try has ended that another one follows; it says what is true of
            all of them.
    """

    def __init__(self, repeating: Repeating, route: str | None, *, idempotent: bool | None) -> None:
        self._repeating = repeating
        self._policy = repeating.policy
        self._route = repeating.route(route)
        self._idempotent = idempotent
        self._waits: Iterator[float] = repeating.policy.retry.delays(random.random)
        self._ticket: int | None = None
        self._began = 0.0
        self._runs = False
        self.left: RSocketError | None = None

    async def begin(self) -> None:
        """Begin a try.

        Raises:
            CircuitOpen: No request may be sent now; if one was sent, its error.
        """
        now = self._began = trio.current_time()
        self._runs = True
        outlier = self._repeating.outlier
        if outlier is None:
            return
        self._ticket = outlier.admit(now)
        if self._ticket is None:
            error = self._repeating.circuit_open(now)
            await trio.lowlevel.checkpoint()
            if self.left is not None:
                raise self.left from error
            raise error

    def end(self, error: BaseException | None, took: float | None = None) -> None:
        """Note how the present try has ended; the first word counts.

        Args:
            error: Its error.
            took: How long its answer has taken, in seconds.
        """
        if not self._runs:
            return
        self._runs = False
        now = trio.current_time()
        ticket, self._ticket = self._ticket, None
        if error is None:
            self._route.purse.earn(now)
            if took is not None and self._policy.hedge is not None:
                self._route.times.add(took)
        outlier = self._repeating.outlier
        if outlier is None or ticket is None:
            return
        cancelled = cancellation_of(error)
        if cancelled is not None and cancelled.source == "deadline":
            if outlier.late(ticket, self._began, now):
                self._repeating.failure = None
        elif isinstance(error, RSocketError) and self._is_failure(error):
            self._repeating.failure = fresh_copy(error)
            outlier.failed(ticket, now)
        elif error is None or (isinstance(error, RSocketError) and not error.unprocessed):
            outlier.succeeded(ticket, now)
        else:
            outlier.left(ticket, now)

    def leave(self) -> None:
        """Note that the present try is left, unless it has ended: that says nothing."""
        ticket, self._ticket = self._ticket, None
        outlier = self._repeating.outlier
        if outlier is not None and ticket is not None:
            outlier.left(ticket, trio.current_time())

    def hear(self, stream: PayloadStream) -> None:
        """Note the success of the present try with the first item of its stream."""
        within = stream._begun  # noqa: SLF001 - only for this module

        def begun(waited: bool) -> None:
            if within is not None:
                within(waited)
            self.end(None)

        stream._tells(begun)  # noqa: SLF001 - as above

    def _is_failure(self, error: RSocketError) -> bool:
        """Return whether a try has failed because of the server."""
        transient = error.transient and not error.unprocessed
        return transient or isinstance(error, self._policy.also)

    def wait_after(self, error: BaseException, deadline: float) -> float | None:
        """Return the wait before another try, in seconds; ``None`` if ``error`` is the outcome.

        The error says what is true of all tries then.

        Args:
            error: With what the last try has ended.
            deadline: No try begins as late as this.
        """
        if not isinstance(error, RSocketError):
            return None
        left = self.left
        if left is not None:
            error.sent = error.sent or left.sent
            error.unprocessed = error.unprocessed and left.unprocessed
        wait = self._wait_after(error, deadline)
        if wait is not None:
            self.left = fresh_copy(error)
        return wait

    def _wait_after(self, error: RSocketError, deadline: float) -> float | None:
        policy = self._policy
        if self._idempotent is None or not (error.transient or isinstance(error, policy.also)):
            return None
        if not (error.unprocessed or self._idempotent) or self._repeating.over():
            return None
        wait = next(self._waits, None)
        asked: float = getattr(error, "retry_after", None) or 0.0
        if wait is None or asked > policy.retry.max_delay:
            return None
        now = trio.current_time()
        wait = max(wait, asked)
        until = now + wait
        if deadline <= until:
            return None
        outlier = self._repeating.outlier
        if outlier is not None and not outlier.may_admit(until):
            return None
        return wait if self._route.purse.take(now) else None

    @property
    def hedge_after(self) -> float | None:
        """After which time the request is sent a second time; ``None``: it is not."""
        hedge = self._policy.hedge
        if hedge is None or not self._idempotent:
            return None
        return self._route.times.value if hedge.after is None else hedge.after

    def may_hedge(self) -> bool:
        """Return whether the request may be sent a second time now; it is paid for then."""
        outlier = self._repeating.outlier
        well = outlier is None or outlier.well
        return well and self._route.purse.take(trio.current_time())


class _Reopening:
    """Opens a stream again that has failed before its first item.

    A reader that is cancelled meanwhile may ask again, and nothing is decided twice.

    Args:
        tries: The tries of the request.
        open_one: Opens it.
        stream: The stream that was opened first.
    """

    def __init__(
        self, tries: _Tries, open_one: Callable[[], Awaitable[Any]], stream: PayloadStream
    ) -> None:
        self._tries = tries
        self._open_one = open_one
        self._within = stream._again  # noqa: SLF001 - what is within opens it for nothing
        self._replaceable = stream._replaceable  # noqa: SLF001 - as above
        self._until: float | None = None

    async def __call__(self, error: RSocketError) -> Any:
        if self._until is None:
            other = None if self._within is None else await self._within(error)
            if other is not None:
                return other
            self._tries.end(error)
            wait = None
            if self._replaceable:  # a timeout of a read is not that of a stream
                wait = self._tries.wait_after(error, inf)
            if wait is None:
                return None
            self._until = trio.current_time() + wait
        await trio.sleep_until(self._until)
        stream: PayloadStream = await self._open_one()
        self._tries.hear(stream)
        self._until = None
        self._within = stream._again  # noqa: SLF001 - as above
        return stream


async def _hedged(
    send: Callable[[], Awaitable[T]], after: float, may_send: Callable[[], bool]
) -> T:
    """Send a request, and once more while there is no answer; return the first one.

    The other is cancelled. If both fail, the first error is raised.
    """
    answers: list[T] = []
    errors: list[BaseException] = []
    running = 0

    async def one() -> None:
        nonlocal running
        running += 1
        try:
            answers.append(await send())
        except Exception as error:  # raised below: a nursery would group it
            errors.append(error)
        running -= 1
        if answers or not running:
            nursery.cancel_scope.cancel(reason="a request that was sent twice is answered")

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(after)
            if may_send():
                nursery.start_soon(one)
    except BaseExceptionGroup as group:  # what is no error of a request: one of it is enough
        cancelled, urgent = split(group, trio.Cancelled)
        last = urgent or cancelled
        while isinstance(last, BaseExceptionGroup):
            last = last.exceptions[0]
        assert last is not None
        errors.insert(0, last)
        answers.clear()
    if answers:
        return answers[0]
    error, *others = errors
    for other in others:
        if isinstance(error, RSocketError) and isinstance(other, RSocketError):
            error.sent = error.sent or other.sent
            error.unprocessed = error.unprocessed and other.unprocessed
    try:
        raise error
    finally:
        del error, others  # with their frames, which have this function's
        errors.clear()


class RepeatedRequests:
    """A policy around each request of a requester, within the application's middleware.

    Args:
        repeating: The policy.
        inner: What is around each request within it.
    """

    def __init__(self, repeating: Repeating, inner: PatientRequests | None) -> None:
        self._repeating = repeating
        self._inner = inner

    async def answer(self, request: Request, send: Callable[[Metadata | None], Awaitable[T]]) -> T:
        """See `Repeating.answer`. A request without an answer is sent once, if it may be.

        Checkpoint: as that does.
        If cancelled: as that is.
        """
        inner = self._inner

        def once() -> Awaitable[T]:
            return send(request.metadata) if inner is None else inner.answer(request, send)

        if request.interaction is Interaction.FIRE_AND_FORGET:
            await self._repeating.check()
            return await once()
        return await self._repeating.answer(request.route, once, idempotent=_taken(request))

    def opened(
        self,
        request: Request,
        open_: Callable[[Metadata | None], AbstractAsyncContextManager[T]],
    ) -> AbstractAsyncContextManager[T]:
        """See `Repeating.opened`."""
        inner = self._inner

        def once() -> AbstractAsyncContextManager[T]:
            return open_(request.metadata) if inner is None else inner.opened(request, open_)

        return self._repeating.opened(request.route, once, idempotent=_taken(request))


def _taken(request: Request) -> bool | None:
    """Return whether a request is idempotent: what may have been processed is repeated here only.

    What was not is repeated once within, and costs nothing.
    """
    idempotent = request.idempotent
    if idempotent:
        request.idempotent = False
    return idempotent
