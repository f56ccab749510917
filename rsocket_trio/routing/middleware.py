"""Code of the application around every request: `Middleware`, and how it is run: `Blocks`.

A middleware is a block around the whole life of one call, of any interaction: an async generator
that yields once, or a function that returns an async context manager. All blocks of a call are
entered, in order, and left, in the reverse order, in the task of its handler. For a stream they are
entered before the first item is asked for, and left when the last one has been sent or the stream
was cut. So a nursery, a cancel scope or a context variable of a block is around the handler.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import AsyncGeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeVar

import trio

from ..codecs.mismatch import kind_of
from ..errors import Canceled
from ..log_policy import logger
from ..protocol.interaction import Interaction
from .call import AnyCall, Call, Outcome
from .guards import Visit
from .parameters import name_of

if TYPE_CHECKING:
    from ..metadata.authentication import Authentication

__all__ = ["Around", "Blocks", "Middleware", "Step", "check_middleware"]

C = TypeVar("C", bound=AnyCall)

Around: TypeAlias = Callable[[C], AsyncIterator[None] | AbstractAsyncContextManager[None]]
"""Middleware of one wire, which may look at what only the calls of that wire have."""

Middleware: TypeAlias = Around[Call]
"""An async generator function that yields once, or a function that returns a context manager."""

Step: TypeAlias = Visit | Middleware
"""What a request passes on its way to the handler."""

_CUT: Final = "this request was ended before its answer was complete"
_ENDED: Final = object()
_UNANSWERED: Final = (Interaction.FIRE_AND_FORGET, Interaction.METADATA_PUSH)


def check_middleware(middleware: Iterable[Around[C]]) -> tuple[Around[C], ...]:
    """Return middleware that can be run.

    Raises:
        TypeError: One of them can never run; or it is not a list. The text says what to change.
    """
    if callable(middleware) or not isinstance(middleware, Iterable):
        raise TypeError(f"middleware= takes a list of functions, not {kind_of(middleware)}")
    checked = tuple(middleware)
    for each in checked:
        if not callable(each):
            raise TypeError(f"middleware= takes functions, not {kind_of(each)}")
        inner = inspect.unwrap(each)
        if not inspect.isroutine(inner) and not isinstance(inner, type):
            inner = inner.__call__
        if inspect.iscoroutinefunction(inner):
            raise TypeError(
                f"the middleware {name_of(each)} has no `yield`: put it where the call goes on"
            )
        if inspect.isgeneratorfunction(inner):
            raise TypeError(f"the middleware {name_of(each)} is not async: write `async def`")
        try:
            inspect.signature(each).bind(object())
        except TypeError as error:
            raise TypeError(
                f"the middleware {name_of(each)} does not take one argument, the Call: {error}"
            ) from None
        except ValueError:  # of a class written in C
            pass
    return checked


class Blocks(AbstractAsyncContextManager[C]):
    """The middleware and the guards around one call, for ``async with``.

    An error of a guard or a middleware is an error of the call: those around it see it. A block
    that absorbs the error of a call which has not come to its end does not make it look complete:
    the call ends with `Canceled`, and the log names the middleware.

    Args:
        call: The call.
        steps: The middleware and the guards, the outermost first.
        auth: The authentication of the request, for the guards.
    """

    __slots__ = ("_auth", "_call", "_entered", "_steps")

    def __init__(self, call: C, steps: Iterable[Any], auth: Authentication | None = None) -> None:
        self._call = call
        self._steps = steps
        self._auth = auth
        self._entered: list[tuple[Middleware, Any]] = []

    @property
    def has_blocks(self) -> bool:
        """Whether there is middleware among the steps, and not only guards."""
        return any(not isinstance(step, Visit) for step in self._steps)

    async def __aenter__(self) -> C:
        call: Any = self._call
        entered = self._entered
        said: dict[Visit | None, Any] | None = None
        try:
            for step in self._steps:
                if isinstance(step, Visit):
                    if said is None:
                        said = {None: None}
                    if step not in said:
                        said[step] = await step.admit(
                            self._auth, said[step.before], call.interaction, call.route
                        )
                    call.principal = said[step]
                    continue
                manager: Any = step(call)
                if type(manager) is AsyncGeneratorType:  # as in `_enter`, without a coroutine
                    if await anext(manager, _ENDED) is _ENDED:
                        _no_yield(step)
                else:
                    await _enter(step, manager)
                entered.append((step, manager))
        except BaseException as error:
            if not await self._leave(error):
                raise
        return self._call

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        """Leave all blocks.

        Returns:
            Whether the error was absorbed, by middleware of a call that has no answer.

        Raises:
            BaseException: Another error than that of the call.
        """
        if error is not None:
            return await self._leave(error)
        call, entered = self._call, self._entered
        call.outcome = Outcome.COMPLETED
        while entered:
            middleware, manager = entered.pop()
            try:
                if type(manager) is not AsyncGeneratorType:
                    await manager.__aexit__(None, None, None)
                elif await anext(manager, _ENDED) is not _ENDED:
                    await manager.aclose()
                    _yields_twice(middleware)
            except BaseException as failure:
                if not await self._leave(failure, complete=True):
                    raise
        return False

    async def _leave(self, error: BaseException, *, complete: bool = False) -> bool:
        """Leave the blocks that are still open, with an error.

        Returns:
            Whether it was absorbed, and may be: the call has no answer, or it is complete.

        Raises:
            BaseException: Another error, which takes its place.
        """
        call, entered = self._call, self._entered
        left: BaseException | None = error
        try:
            while entered:
                middleware, manager = entered.pop()
                call.error = left
                call.outcome = _outcome_of(left)
                try:
                    absorbed = await _leave_one(middleware, manager, left)
                except BaseException as other:
                    left = other
                    continue
                if absorbed and left is not None and not isinstance(left, GeneratorExit):
                    left = self._instead(complete=complete, middleware=middleware)
            if left is not None and left is not error:
                raise left
            return left is None
        finally:
            # Their tracebacks hold this frame: cycles, with all that the handler has.
            del left, error
            call.error = None

    def _instead(self, *, complete: bool, middleware: Middleware) -> Canceled | None:
        """Return the error of a call whose error a middleware has absorbed."""
        if complete or self._call.interaction in _UNANSWERED:
            return None
        logger.warning(
            "the middleware %s absorbed an error, or its deadline has passed: %r ends as canceled",
            name_of(middleware),
            self._call,
        )
        return Canceled(_CUT)


def _outcome_of(error: BaseException | None) -> Outcome:
    if error is None:
        return Outcome.COMPLETED
    if isinstance(error, BaseExceptionGroup):
        _, error = error.split(trio.Cancelled)
        return Outcome.CANCELLED if error is None else Outcome.FAILED
    cancelled = isinstance(error, trio.Cancelled | GeneratorExit)
    return Outcome.CANCELLED if cancelled else Outcome.FAILED


def _no_yield(middleware: Middleware) -> NoReturn:
    raise RuntimeError(f"the middleware {name_of(middleware)} ended before its `yield`")


def _yields_twice(middleware: Middleware) -> NoReturn:
    raise RuntimeError(f"the middleware {name_of(middleware)} yields twice: it may only once")


async def _enter(middleware: Middleware, manager: Any) -> None:
    if not isinstance(manager, AbstractAsyncContextManager):
        raise TypeError(
            f"the middleware {name_of(middleware)} returned {kind_of(manager)}, which is no async "
            "context manager"
        )
    await manager.__aenter__()


async def _leave_one(middleware: Middleware, manager: Any, error: BaseException | None) -> bool:
    """Leave a block; return whether it absorbed the error."""
    if type(manager) is not AsyncGeneratorType:
        kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
        return bool(await manager.__aexit__(kind, error, traceback))
    if error is None:
        if await anext(manager, _ENDED) is _ENDED:
            return False
    else:
        traceback = error.__traceback__
        try:
            await manager.athrow(error)
        except StopAsyncIteration as end:
            return end is not error
        except BaseException as other:
            # A generator cannot let a StopIteration out: it becomes the cause of a RuntimeError.
            stop = isinstance(error, StopIteration | StopAsyncIteration)
            if other is not error and not (stop and other.__cause__ is error):
                raise
            error.__traceback__ = traceback
            return False
        finally:
            del error, traceback
    await manager.aclose()
    _yields_twice(middleware)
