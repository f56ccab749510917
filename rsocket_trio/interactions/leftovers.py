"""What a handler leaves behind in the task that ran it: `Watch`, `watched`, `isolated`.

A task may run one handler after another, so it must be after each as it was before. `Watch.changed`
asks for that, and `Watch.leave` closes what is still open when the task ends:

- A *context variable* that was set, a *cancel scope* that is still open: the task ends.
- A *weak reference* to the task: something remembers it, for example a store of values by task. The
  task ends, so no other request is found there.
- A *nursery*: its tasks are cancelled and waited for, in the task that opened it, which then ends.
- A *generator* that holds such a nursery and that nobody iterates over any further. trio would
  close it in another task; but what waits there is the nursery, which wakes the task that opened it
  and no other. That task would be woken in the middle of something else, or after its end: either
  breaks the whole run. So `_Keeper` keeps such a generator until the task itself can close it.

trio has no public names for three things: the innermost cancel scope of a task, its list of open
nurseries (`Task.child_nurseries` is a copy, which costs too much after each request), and how a
nursery is closed without its ``async with``. `_INNERMOST`, `_NURSERIES` and `_CLOSE` are the only
private names of trio that the package uses. `_Keeper` looks whether they are there and mean what is
assumed here. If not, a scope is found when the scope around it is closed, and a task with a nursery
that is never closed waits until its connection is over.
"""

from __future__ import annotations

import contextvars
import gc
import sys
import types
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import getweakrefcount

import trio
from trio.lowlevel import Task, current_task, enable_ki_protection

from ..errors import single_error
from ..log_policy import logger
from .isolation import outcome_of, split

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = ["Watch", "differ", "isolated", "this_task", "watched"]

_INNERMOST: Final = "_cancel_status"
_NURSERIES: Final = "_child_nurseries"
_CLOSE: Final = "_nested_child_finished"

_LONGEST_WAIT: Final = 60.0
"""Seconds between two looks at a nursery that cannot be closed."""

_REASON: Final = "the handler that opened this nursery left it open"

_MOST_REFERENCES: Final = 1000
"""The number of references that are looked at to find the nurseries of a generator."""

_LARGEST: Final = 100
"""Objects with more references are not looked into."""

_PARTS: Final = frozenset(
    (dict, tuple, list, deque, types.MethodType, types.AsyncGeneratorType, types.CoroutineType)
)
"""What managers of ``async with`` blocks are made of."""


def differ(now: contextvars.Context, clean: contextvars.Context) -> bool:
    """Whether a handler has changed the context.

    A different object counts as a change even if it is equal: for example, an empty dict may be
    filled later. Also, comparing values may take time, or raise any error.
    """
    if len(now) != len(clean):
        return True
    return any(clean.get(variable, differ) is not value for variable, value in now.items())


class Watch:
    """Watches the current task, from before a handler runs in it.

    Attributes:
        task: The task.
    """

    __slots__ = (
        "_generators",
        "_innermost",
        "_keeper",
        "_known",
        "_nurseries",
        "_outer",
        "_scopes",
        "_variables",
        "task",
    )

    def __init__(self, clean: contextvars.Context | None = None) -> None:
        """Begin.

        Args:
            clean: The context of the task, as it must be before each handler; by default as it
                is now.
        """
        self.task = task = current_task()
        context = task.context
        if clean is None:
            clean = contextvars.copy_context()
        self._variables = _Compared(context, clean) if clean else context
        self._keeper = keeper = _keeper()
        self._generators = keeper.watched[task] = []
        self._known = getweakrefcount(task)
        self._outer = len(task.child_nurseries)
        known = keeper.knows_trio
        self._nurseries = getattr(task, _NURSERIES) if known else _Nurseries(task)
        self._scopes: Any = task if known else _Scopes
        self.mark()

    def mark(self) -> None:
        """Take the innermost cancel scope of the task as the one that must be so again."""
        self._innermost = self._scopes._cancel_status

    def changed(self) -> object:
        """Whether a handler has changed this task, so that it must run no other one.

        It is called for each request, so it makes no object and calls next to nothing.

        Returns:
            A true value if so.
        """
        return (
            self._variables
            or self._nurseries
            or self._scopes._cancel_status is not self._innermost
            or getweakrefcount(self.task) != self._known
        )

    async def leave(self) -> None:
        """Close what a handler has left open, and log that. The task ends after this.

        Checkpoint: if a nursery is open.
        If cancelled: its tasks are waited for all the same; they are cancelled already.
        """
        fault = await self.close_all()
        if fault is not None:
            logger.error("%s; its tasks are cancelled", fault, exc_info=fault.__cause__)

    async def close_all(self) -> Exception | None:
        """Close the nurseries that a handler has left open. The task ends after this.

        Returns:
            An error that says that there were some, for the caller to report. Its cause is what was
            raised while they were closed.

        Checkpoint: if a nursery is open.
        If cancelled: its tasks are waited for all the same; they are cancelled already.
        """
        task = self.task
        fault: Exception | None = None
        try:
            while len(task.child_nurseries) > self._outer:
                # The last one first: they are closed in the opposite order of being opened.
                failure = await self._close(task.child_nurseries[-1])
                fault = fault or RuntimeError("a handler left a nursery open")
                fault.__cause__ = fault.__cause__ or failure
            while self._generators:
                # Of tasks that the handler had started, and that have ended. Or it was found only
                # when its nursery had been closed, as garbage: then it fails for that alone.
                failure = await _close_generator(self._generators.pop())
                if failure is not None:
                    logger.debug("a generator that a handler has left failed", exc_info=failure)
        finally:
            del self._keeper.watched[task]
        return fault

    async def _close(self, nursery: trio.Nursery) -> Exception | None:
        nursery.cancel_scope.cancel(reason=_REASON)
        for generator in self._generators:
            if nursery in _nurseries_of(generator):
                self._generators.remove(generator)
                return await _close_generator(generator)
        if not self._keeper.knows_trio:
            delay = 0.01
            while nursery in self.task.child_nurseries:
                await trio.sleep(delay)
                delay = min(2 * delay, _LONGEST_WAIT)
            return None
        try:
            error: BaseException | None = await getattr(nursery, _CLOSE)(None)
            # Of what its tasks raise, the cancellations end here.
            nursery.cancel_scope.__exit__(None if error is None else type(error), error, None)
        except BaseException as raised:  # also of its tasks; or the scope was closed before
            error = raised
        return _failure_in(error)


async def _close_generator(generator: types.AsyncGeneratorType[Any, Any]) -> Exception | None:
    """Close a generator in the task that has iterated over it; it must not wait any more.

    Returns:
        What it raised, except for the cancellation and the `GeneratorExit` that end it.
    """
    try:
        with trio.CancelScope() as scope:
            scope.cancel(reason="the handler that used this generator has ended")
            await generator.aclose()
    except BaseException as error:  # the handler has ended: whoever closes it reports this
        return _failure_in(error)
    return None


def _failure_in(error: BaseException | None) -> Exception | None:
    """Return what was raised while something was closed that a handler had left open.

    Raises:
        KeyboardInterrupt: Or `SystemExit`: if ``error`` is one, or a group with one.
    """
    if error is None:
        return None
    # A nursery around a `yield` wraps the `GeneratorExit`.
    _, rest = split(error, (trio.Cancelled, GeneratorExit))
    return None if rest is None else outcome_of(single_error(rest))


async def isolated(function: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Call a function of the application in a task of its own.

    Returns:
        The error that it raised or caused; ``None`` if it returned.

    Checkpoint: always.
    If cancelled: the function is cancelled.
    """
    return await watched(lambda _: function())


async def watched(function: Callable[[Watch], Awaitable[object]]) -> BaseException | None:
    """Do the same as `isolated` for a function that calls some of the application in turn.

    It asks its `Watch` after each of them, and returns if one has changed the task.

    Checkpoint: always.
    If cancelled: the function is cancelled.
    """
    error: BaseException | None = None

    async def call() -> None:
        nonlocal error
        watch = Watch()
        try:
            await function(watch)
        except BaseException as raised:  # the caller judges it, out of the scopes of this
            error = raised
        fault = await watch.close_all()
        error = error or fault

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
    except BaseException as raised:  # judged by the caller, as above
        error = error or raised
    return error


class _Compared:
    """Stands in for the context of a task that is not empty at first: true if it has changed."""

    __slots__ = ("_clean", "_now")

    def __init__(self, now: contextvars.Context, clean: contextvars.Context) -> None:
        self._now = now
        self._clean = clean

    def __bool__(self) -> bool:
        return differ(self._now, self._clean)


class _Nurseries:
    """Stands in for the list of the open nurseries of a task: true if there are any."""

    __slots__ = ("_task",)

    def __init__(self, task: Task) -> None:
        self._task = task

    def __bool__(self) -> bool:
        return bool(self._task.child_nurseries)


class _Scopes:
    """Stands in for a task where trio does not say which scope is the innermost one."""

    _cancel_status: Final = None


this_task: Final[Callable[[], Any]] = current_task if hasattr(Task, _INNERMOST) else lambda: _Scopes
"""Returns what has the innermost cancel scope of the calling task as ``_cancel_status``."""


class _Keeper:
    """Keeps the generators with a nursery of a watched task that would be closed in another task.

    So it does for the tasks that a handler has started. They have ended when the handler has.

    It is the finaliser of async generators in this thread, in front of trio's.

    Attributes:
        watched: The tasks, each with its generators.
        knows_trio: Whether trio has the private names of this module.
    """

    __slots__ = ("_next", "knows_trio", "watched")

    def __init__(self, finalizer: Callable[[Any], object] | None) -> None:
        self._next = finalizer
        self.watched: Final[dict[Task, list[types.AsyncGeneratorType[Any, Any]]]] = {}
        self.knows_trio: Final = _knows_trio()

    @enable_ki_protection
    def __call__(self, generator: types.AsyncGeneratorType[Any, Any]) -> None:
        for nursery in _nurseries_of(generator):
            if nursery in nursery.parent_task.child_nurseries:
                generators = self._kept_for(nursery.parent_task)
                if generators is not None:
                    generators.append(generator)
                    return
        if self._next is not None:
            self._next(generator)

    def _kept_for(self, task: Task) -> list[types.AsyncGeneratorType[Any, Any]] | None:
        """Return the generators of a watched task, or of the one in which it was started."""
        around: trio.Nursery | None
        while task not in self.watched:
            around = task.parent_nursery
            if around is None:
                return None
            task = around.parent_task
        return self.watched[task]


def _keeper() -> _Keeper:
    """Return the keeper of this run of trio; the first call puts it in front of trio's hook."""
    finalizer = sys.get_asyncgen_hooks().finalizer
    if isinstance(finalizer, _Keeper):
        return finalizer
    keeper = _Keeper(finalizer)
    sys.set_asyncgen_hooks(finalizer=cast("Callable[[object], None]", keeper))
    return keeper


def _knows_trio() -> bool:
    innermost = attrgetter(_INNERMOST)
    task = current_task()
    try:
        before = innermost(task)
        with trio.CancelScope():  # noqa: ASYNC100 - only looked at
            within = innermost(task)
        nurseries = getattr(task, _NURSERIES)
    except AttributeError:
        return False
    return (
        within is not before
        and innermost(task) is before
        and isinstance(nurseries, list)
        and nurseries == task.child_nurseries
        and hasattr(trio.Nursery, _CLOSE)
    )


def _nurseries_of(generator: types.AsyncGeneratorType[Any, Any]) -> Iterator[trio.Nursery]:
    """Find the nurseries that a generator refers to: those of its ``async with`` blocks are.

    Between a block and its nursery there are a method, a manager and what the manager is made of:
    a generator, a stack, or attributes. Nothing else is looked into: most objects lead to nurseries
    that are not the generator's. So one that an object without ``__aexit__`` has entered by hand is
    not found.
    """
    seen = {id(generator)}
    objects: list[Any] = [generator]
    left = _MOST_REFERENCES
    while objects and left > 0:
        refers = gc.get_referents(objects.pop())
        if len(refers) > _LARGEST:
            continue
        left -= 1 + len(refers)
        for refer in refers:
            kind = type(refer)
            if kind is trio.Nursery:
                yield refer
            elif (kind in _PARTS or hasattr(kind, "__aexit__")) and id(refer) not in seen:
                seen.add(id(refer))
                objects.append(refer)
