"""Code of the application around every request: `Middleware`, and how it is run: `Blocks`.

A middleware is a block around the whole life of one call, of any interaction: an async generator
that yields once, or a function that returns an async context manager. All blocks of a call are
entered, in order, and left, in the reverse order, in the task of its handler. For a stream they are
entered before the first item is asked for, and left when the last one has been sent or the stream
was cut. So a nursery, a cancel scope or a context variable of a block is around the handler.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import AsyncGeneratorType, TracebackType
from typing import Any, Final, TypeAlias, TypeVar, cast

import trio

from ..codecs.mismatch import kind_of
from ..errors import Canceled
from ..interactions.leftovers import this_task
from ..log_policy import logger
from ..protocol.interaction import Interaction
from .admitted import Bounded
from .call import AnyCall, Call, Outcome, RouterCall
from .guards import Visit
from .one_block import ENDED, UNUSED, begin, enter, leave, no_object, no_yield
from .parameters import name_of
from .providers import Form
from .supplies import Supplying

__all__ = [
    "COMPLETED",
    "Around",
    "Blocks",
    "Entered",
    "Middleware",
    "Step",
    "check_middleware",
    "leave_all",
    "left_open",
    "supply",
    "what",
]

C = TypeVar("C", bound=AnyCall)

Around: TypeAlias = Callable[[C], AsyncIterator[None] | AbstractAsyncContextManager[None]]
"""Middleware for one kind of calls, e.g. those of one wire; it may look at what only these have."""

Middleware: TypeAlias = Around[Call]
"""An async generator function that yields once, or a function that returns a context manager."""

Step: TypeAlias = Visit | Middleware
"""What a request passes on its way to the handler."""

Entered: TypeAlias = "list[tuple[Middleware | Supplying, Any, object, object]]"
"""The blocks of a call that are open, the outermost first, each with what made it, and with the
innermost cancel scope of the task around it and within it: so `left_open` is called for the right
one if it is left with a nursery or a scope open."""

_CUT: Final = "this request was ended before its answer was complete"
_AWAITED: Final = Form.AWAITED
_BLOCK: Final = Form.BLOCK
COMPLETED: Final = Outcome.COMPLETED
"""Constants, as a member of an enum takes long to be found."""
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
    """The middleware, the guards and the providers around one call, for ``async with``.

    An error of a guard or a middleware is an error of the call: those around it see it. A block
    that absorbs the error of a call which has not come to its end does not make it look complete:
    the call ends with `Canceled`, and the log names the middleware.

    `rsocket_trio.routing.bound.BoundRouter.request_response` does the same without this object.

    Args:
        call: The call.
        steps: The middleware and the guards, the outermost first.
    """

    __slots__ = ("_bounds", "_call", "_entered", "_steps")

    def __init__(self, call: C, steps: Collection[Any]) -> None:
        self._call = call
        self._steps = steps
        self._bounds: list[Bounded] | None = None
        self._entered: Entered = []

    @property
    def sent(self) -> Callable[[Any], object] | None:
        """What gets each item of the answer, if somebody looks at its size."""
        traffic = self._call.traffic
        return None if traffic is None else traffic.sent

    @property
    def has_blocks(self) -> bool:
        """Whether there is middleware among the steps, and not only guards."""
        return any(not isinstance(step, Visit) for step in self._steps)

    async def __aenter__(self) -> C:
        call: Any = self._call
        entered = self._entered
        task = this_task()
        try:
            for step in self._steps:
                if type(step) is Visit:
                    bounded = await step.admit(call)
                    if bounded is None:
                        continue
                    if self._bounds is not None:
                        self._bounds.append(bounded)
                        continue
                    step = bounded
                around = task._cancel_status
                manager: Any = step(call)
                if type(manager) is AsyncGeneratorType:  # as in `enter`, without a coroutine
                    if await begin(manager) is ENDED:
                        no_yield(what(step))
                else:
                    await enter(manager, partial(what, step))
                entered.append((step, manager, around, task._cancel_status))
        except BaseException as error:  # also a cancellation: the blocks around see it
            if not await leave_all(call, entered, error):
                raise
        return self._call

    async def admit(self) -> tuple[C, list[Bounded]]:
        """Ask the guards, where there is nothing else.

        Returns:
            The call, and blocks that still have to be entered around it.

        Checkpoint: as the guards do.
        If cancelled: as the guards do.
        """
        self._bounds = []
        return await self.__aenter__(), self._bounds

    async def supply(self, steps: Iterable[Supplying]) -> None:
        """See `supply`."""
        await supply(cast("RouterCall", self._call), steps, self._entered)

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
        return await leave_all(self._call, self._entered, error, complete=error is None)


async def supply(call: RouterCall, steps: Iterable[Supplying], entered: Entered) -> None:
    """Let providers make objects for a call, inside of all that was entered before.

    An error of one of them is an error of the call. Their blocks are left with the others.

    Checkpoint: as the providers do.
    If cancelled: as the providers do.
    """
    all_made = call._made  # noqa: SLF001 - same package; not for applications
    task = this_task()
    for step in steps:
        around = task._cancel_status
        made: Any = step.make(call) if step.takes_any else step.make()
        if step.form is _AWAITED:
            made = await made
        elif step.form is _BLOCK:
            manager = made
            if type(manager) is AsyncGeneratorType:  # as in `enter`, without a coroutine
                made = await begin(manager)
                if made is ENDED:
                    no_yield(what(step))
            else:
                made = await enter(manager, partial(what, step))
            entered.append((step, manager, around, task._cancel_status))
        elif type(made) in UNUSED:
            no_object(made, what(step))
        all_made[step.node] = made


async def leave_all(
    call: AnyCall, entered: Entered, error: BaseException | None, *, complete: bool = False
) -> bool:
    """Leave the blocks that are still open.

    Args:
        call: The call.
        entered: The blocks.
        error: The error, of the call or of a block that was left, if there is one.
        complete: The call has come to its end.

    Returns:
        Whether there is no error to raise: it was absorbed, and may be, as the call has no answer,
        or is complete.

    Raises:
        BaseException: Another error, which takes its place.

    Checkpoint: as the blocks do.
    If cancelled: as the blocks do.
    """
    left = error
    task = this_task()
    try:
        if left is None:
            call.outcome = COMPLETED
        while entered:
            step, manager, around, within = entered.pop()
            inside = task._cancel_status
            call.error = left
            call.outcome = _outcome_of(left)
            try:
                absorbed = await leave(manager, left, partial(what, step))
            except BaseException as other:  # takes the place of the first one
                left = other
                absorbed = False
            if task._cancel_status is not around and inside is within:
                left_open(step, call)
            if absorbed and left is not None and not isinstance(left, GeneratorExit):
                left = _instead(call, complete=complete, step=step)
        if left is not None and left is not error:
            raise left
        return left is None
    finally:
        # Their tracebacks hold this frame: cycles, with all that the handler has.
        del left, error
        call.error = None


def left_open(step: Middleware | Supplying, call: AnyCall) -> None:
    """Log that a block has left something open in the task of the call, which ends for it."""
    logger.error("%s left a nursery or a cancel scope open: %r", what(step), call)


def _instead(call: AnyCall, *, complete: bool, step: Middleware | Supplying) -> Canceled | None:
    """Return the error of a call whose error a block has absorbed."""
    if complete or call.interaction in _UNANSWERED:
        return None
    logger.warning(
        "%s absorbed an error, or its deadline has passed: %r ends as canceled",
        what(step),
        call,
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


def what(step: Middleware | Supplying) -> str:
    """Return what texts call a step."""
    if isinstance(step, Supplying):
        return step.node.provider.name
    return f"the middleware {name_of(step)}"
