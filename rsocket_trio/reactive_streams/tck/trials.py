"""Runs one test: its own run of trio, its clock, the factories of the user, and waiting.

Nothing here sleeps to see whether something happens. Where the clock is trio's `MockClock`, a test
waits until all tasks are blocked, and then lets virtual time pass, which takes no time.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from math import inf
from typing import Any, ClassVar, Final, Literal, TypeVar

import trio
import trio.testing

from .declarations import Allowed, check_declarations, one_of, seconds
from .steps import StepLimit
from .subscribers import ManualSubscriber, Provoked
from .verdicts import Violation, not_declared, violated

__all__ = ["SignalledError", "Trial", "Verification", "call_factory"]

T = TypeVar("T")
S = TypeVar("S", bound=ManualSubscriber)

_SETTLE: Final = {"mock": 60.0, "real": 0.1}
_FACTORIES: Final = ("publisher", "failing", "subscriber", "limited")
_PUBLISHERS: Final = ("publisher", "failing")
_POLL: Final = 0.002
"""Seconds between two looks at a condition, by the real clock."""


class SignalledError(Exception):
    """The error that the kit signals by on_error. A task of the user may well raise it."""


class Verification:
    """The common part of all verifications.

    Attributes:
        clock: ``"mock"``: time is virtual, and a test goes on as soon as all tasks wait.
            ``"real"``: for what waits for sockets, threads or processes.
        settle_seconds: How long nothing may happen until the kit believes that nothing will happen,
            in seconds. If it is None: 60 virtual seconds, or 0.1 real ones.
        patience: How long to wait for what has to happen by the real clock, in seconds. An async
            factory has to return within it, and `resource` has to yield and to end.
        step_seconds: The processor time after which a call that lets no other task run counts as
            one that never comes back. By far less than any test needs as a whole.
    """

    clock: ClassVar[Literal["mock", "real"]] = "mock"
    settle_seconds: ClassVar[float | None] = None
    patience: ClassVar[float] = 5.0
    step_seconds: ClassVar[float] = 5.0

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "clock": one_of("mock", "real"),
        "settle_seconds": seconds(or_none=True),
        "patience": seconds(),
        "step_seconds": seconds(),
    }

    def __init_subclass__(cls) -> None:
        """Check what the class declares.

        Raises:
            TypeError: A value is not allowed, or a name is nearly that of a declaration.
        """
        super().__init_subclass__()
        allowed = {name: each for base in cls.__mro__ for name, each in _allowed_of(base).items()}
        hooks = tuple(name for name in _MEANING if hasattr(cls, name))
        check_declarations(cls.__name__, vars(cls), allowed, hooks)

    def element(self, i: int) -> Any:
        """Return the element number ``i``, from 0. Not None. By default the number itself."""
        return i

    def resource(self) -> AbstractAsyncContextManager[Any]:
        """Return what each test enters first: a connection, for example. By default nothing.

        Factories get what it yields, if they have a parameter ``resource``.
        """
        return nullcontext()

    def check_needs(self, *, declared: tuple[str, ...] = (), **needs: Any) -> None:
        """Skip the test if the class lacks a capability that the test needs.

        Args:
            declared: Names of optional factories and hooks.
            needs: Further needs of this kind of verification.
        """
        for name in declared:
            if not self.has(name):
                not_declared(name, _MEANING[name])

    def has(self, name: str) -> bool:
        """Return whether the class declares an optional factory or hook."""
        return getattr(self, name, None) is not None

    def factory_name(self, factory: Callable[..., Any]) -> str:
        """Return the name under which the class declares a factory."""
        for name in _FACTORIES:
            static = inspect.getattr_static(self, name, None)
            if not isinstance(static, property) and getattr(self, name, None) == factory:
                return name
        return repr(factory)

    def run_trial(self, body: Callable[[Any, Trial], Awaitable[T]]) -> T:
        """Run the body of a test in a run of trio of its own.

        Raises:
            Violation: What is verified breaks a rule.
            BaseException: What else the body or a task raised, without the groups of nurseries.
        """
        clock = trio.testing.MockClock(autojump_threshold=0) if self.clock == "mock" else None
        limit = StepLimit(self.step_seconds)
        with limit.watching():
            try:
                return trio.run(self._trial, body, clock=clock, instruments=[limit])
            except BaseExceptionGroup as group:  # from the nursery of the trial
                raise _the_error(group) from None
        raise AssertionError("the block raises, or returns")

    async def _trial(self, body: Callable[[Any, Trial], Awaitable[T]]) -> T:
        seconds = self.make_seconds()
        # One scope with a deadline that moves: `resource` may have scopes of its own around yield.
        with trio.move_on_after(seconds) as scope:
            entered, failure = False, None
            async with self.resource() as resource:
                entered, scope.deadline = True, inf
                try:
                    result = await self._in_resource(body, resource)
                except BaseException as error:  # raised again; leaving may hide it
                    failure = error
                    raise
                finally:
                    scope.deadline = trio.current_time() + seconds
        if not scope.cancelled_caught:
            return result
        what = "end when its block was left" if entered else "yield"
        text = f"resource() did not {what} within {seconds:g} seconds"
        if failure is None:
            violated("set-up", text)
        failure.add_note(f"besides, {text}")
        raise failure

    async def _in_resource(self, body: Callable[[Any, Trial], Awaitable[T]], resource: Any) -> T:
        async with trio.open_nursery() as outer:
            nursery = await outer.start(_hold_nursery)
            trial = Trial(self, nursery, resource)
            try:
                result = await body(self, trial)
            finally:
                trial.leave()
            outer.cancel_scope.cancel(reason="the test is over")
        return result

    def make_seconds(self) -> float:
        """Return how long a factory or `resource` may take, by the clock of the test."""
        return max(self.quiet_seconds(), self.patience) if self.clock == "mock" else self.patience

    def quiet_seconds(self) -> float:
        """Return `settle_seconds`, or what stands for it."""
        return _SETTLE[self.clock] if self.settle_seconds is None else self.settle_seconds


async def _hold_nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Hold the nursery of the user's tasks, which may end with the error that the kit signals."""
    try:
        async with trio.open_nursery() as nursery:
            task_status.started(nursery)
            await trio.sleep_forever()
    except* SignalledError:  # the kit has signalled it, and a task has let it through
        pass


def _allowed_of(base: type) -> Mapping[str, Allowed]:
    found: Mapping[str, Allowed] = vars(base).get("_allowed", {})
    return found


def call_factory(factory: Callable[..., Any], *arguments: Any, **offered: Any) -> Any:
    """Call a factory of the user with those of the offered arguments that it has parameters for."""
    wanted = inspect.signature(factory).parameters
    return factory(*arguments, **{name: value for name, value in offered.items() if name in wanted})


_MEANING: Final = {
    "failing": "a factory of a publisher that gives some elements and then fails",
    "limited": "a factory of a subscriber that needs only some elements",
    "trigger_cancel": "a function that makes the subscriber cancel",
    "trigger_request": "a function that makes the subscriber request elements",
}


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found


def _the_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to report: the only one, or the violation with the others as notes."""
    leaves = _leaves(group)
    if len(leaves) == 1:
        error = leaves[0]
        return _escaped(error) if isinstance(error, Provoked) else error
    for error in leaves:
        if isinstance(error, Violation):
            for other in leaves:
                if other is not error:
                    error.add_note(f"besides, a task raised {other!r}")
            return error
    return group


def _escaped(error: Provoked) -> Violation:
    return Violation(error.rule, f"{error} came out of a task of the publisher")


class Trial:
    """One run of a test: its nursery, and how to wait in it.

    Attributes:
        nursery: The nursery of the user's tasks. It is cancelled when the test ends.
        resource: What `Verification.resource` yields.
    """

    def __init__(self, verification: Verification, nursery: trio.Nursery, resource: Any) -> None:
        self.nursery = nursery
        self._verification = verification
        self.resource = resource
        self._subscribers: set[ManualSubscriber] = set()
        self._mock = verification.clock == "mock"
        self._seconds = verification.quiet_seconds()

    def subscriber(self, **reactions: Callable[[ManualSubscriber], None]) -> ManualSubscriber:
        """Make a subscriber, which leaves with the test."""
        return self.joins(ManualSubscriber(**reactions))

    def joins(self, subscriber: S) -> S:
        """See to it that a subscriber of the kit leaves with the test (rule 2.6)."""
        self._subscribers.add(subscriber)
        return subscriber

    def forget(self, subscriber: ManualSubscriber) -> None:
        """Refer no longer to a subscriber whose subscription is over."""
        self._subscribers.remove(subscriber)

    def leave(self) -> None:
        """Cancel the subscriptions of the kit that are still open."""
        for subscriber in self._subscribers:
            subscriber.leave()

    async def make(self, factory: Callable[..., Any], *arguments: Any, **offered: Any) -> Any:
        """Call a factory of the user. Give it ``nursery`` and ``resource`` if it wants them.

        Raises:
            Violation: An async factory does not return within `Verification.patience`, or by the
                mock clock within the seconds of `settle`, if they are more; or a factory of
                publishers returns something else.

        Checkpoint: only if the factory is an async function.
        If cancelled: as the factory.
        """
        own = {"nursery": self.nursery, "resource": self.resource, "trial": self}
        offered = {**own, **offered}
        made = call_factory(factory, *arguments, **offered)
        if inspect.isawaitable(made):
            seconds = self._verification.make_seconds()
            with trio.move_on_after(seconds) as scope:
                made = await made
            if scope.cancelled_caught:
                name = self._verification.factory_name(factory)
                violated("set-up", f"the factory {name} did not return within {seconds:g} seconds")
        if not hasattr(made, "subscribe"):
            name = self._verification.factory_name(factory)
            if name in _PUBLISHERS:
                violated("set-up", f"the factory {name} returned {made!r}, which is no publisher")
        return made

    async def quiet(self) -> None:
        """Wait until no task has anything to do. By the mock clock no time passes.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        if self._mock:
            await trio.testing.wait_all_tasks_blocked()
        else:
            await trio.sleep(self._seconds)

    async def settle(self, seconds: float = 0.0) -> None:
        """Wait until nothing will happen: `quiet`, and then some time by the mock clock.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        await self.quiet()
        if self._mock:
            await trio.sleep(max(self._seconds, seconds))
            await trio.testing.wait_all_tasks_blocked()

    async def until(self, condition: Callable[[], object]) -> bool:
        """Wait for a condition. Return whether it holds in the end.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        if self._mock:
            await self.quiet()
            if not condition():
                await self.settle()
        else:
            with trio.move_on_after(self._verification.patience):
                while not condition():  # noqa: ASYNC110 - what it waits for knows no event
                    await trio.sleep(_POLL)
            await trio.lowlevel.checkpoint()
        return bool(condition())
