"""Subscribers that the kit gives to the publisher under test. They depend on nothing else here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..interfaces import Subscription
from .steps import watched

__all__ = ["HostileSubscriber", "ManualSubscriber", "Provoked"]

_RUNAWAY: Final = 300_000
"""Signals after which a subscriber believes that its publisher will never stop."""


class Provoked(Exception):
    """An error that a subscriber of the kit raises on purpose.

    Attributes:
        rule: The rule that is broken where this error comes out of a task.
    """

    def __init__(self, text: str, rule: str) -> None:
        super().__init__(text)
        self.rule = rule


class ManualSubscriber:
    """Requests and cancels when told to, and records what it gets. It keeps all rules itself.

    Attributes:
        signals: The names of the signals, in order.
        elements: The elements.
        errors: The arguments of on_error.
        nested: (outer, inner) of each signal that began while another one ran.
        depth: The deepest recursion of on_next in on_next; 1 without recursion.
        requested: The sum of all valid requests.
        surplus: How many elements there were beyond those requested, at the worst moment.
        raised: (call, exception) of each request and cancel that did not return normally.
        cancelled: Whether it has cancelled its last subscription, or raised.
        reactions: What to do inside of a signal, after it was recorded: a function of this
            subscriber by the name of the signal.
    """

    def __init__(self, **reactions: Callable[[Any], None]) -> None:
        self.signals: list[str] = []
        self.elements: list[Any] = []
        self.errors: list[Any] = []
        self.nested: list[tuple[str, str]] = []
        self.depth = 0
        self.requested = 0
        self.surplus = 0
        self.raised: list[tuple[str, BaseException]] = []
        self.cancelled = False
        self.subscriptions: list[Subscription] = []
        self.reactions = reactions
        self._running: list[str] = []

    @property
    def subscription(self) -> Subscription:
        """The subscription that was signalled last."""
        return self.subscriptions[-1]

    @property
    def subscribed(self) -> bool:
        """Whether on_subscribe was signalled."""
        return bool(self.subscriptions)

    @property
    def completed(self) -> bool:
        """Whether on_complete was signalled."""
        return "on_complete" in self.signals

    @property
    def terminated(self) -> bool:
        """Whether on_complete or on_error was signalled."""
        return self.completed or "on_error" in self.signals

    def has(self, n: int) -> bool:
        """Return whether there are ``n`` elements, or the end."""
        return len(self.elements) >= n or self.terminated

    def request(self, n: Any) -> None:
        """Request elements, if there is a subscription."""
        if self.subscribed and isinstance(n, int) and n > 0:
            self.requested += n
        self._call(f"request({n!r})", lambda subscription: subscription.request(n))

    def cancel(self) -> None:
        """Cancel, if there is a subscription."""
        self.cancelled = self.subscribed
        self._call("cancel()", lambda subscription: subscription.cancel())

    def leave(self) -> None:
        """Cancel what is still open: the test is over (rule 2.6)."""
        if self.subscribed and not self.cancelled and not self.terminated:
            self.cancel()

    def _call(self, name: str, call: Callable[[Subscription], None]) -> None:
        if not self.subscribed:
            return
        try:
            call(self.subscription)
        except Exception as error:  # any kind: rules 3.15 and 3.16 are checked by what is recorded
            self.raised.append((name, error))

    watched(_call.__code__, "name")

    def on_subscribe(self, subscription: Subscription) -> None:
        """Record it."""
        self.subscriptions.append(subscription)
        with self._signal("on_subscribe"):
            pass

    def on_next(self, element: Any) -> None:
        """Record it."""
        self.elements.append(element)
        self.surplus = max(self.surplus, len(self.elements) - self.requested)
        with self._signal("on_next"):
            pass

    def on_error(self, error: Any) -> None:
        """Record it."""
        self.errors.append(error)
        with self._signal("on_error"):
            pass

    def on_complete(self) -> None:
        """Record it."""
        with self._signal("on_complete"):
            pass

    @contextmanager
    def _signal(self, name: str) -> Iterator[None]:
        self.signals.append(name)
        if len(self.signals) > _RUNAWAY:
            raise Provoked("the publisher does not stop", "1.1")
        if self._running:
            self.nested.append((self._running[-1], name))
        self._running.append(name)
        self.depth = max(self.depth, self._running.count("on_next"))
        try:
            if (reaction := self.reactions.get(name)) is not None:
                reaction(self)
            yield
        finally:
            self._running.pop()


class HostileSubscriber(ManualSubscriber):
    """Raises from one signal, which rule 2.13 forbids."""

    def __init__(self, signal: str) -> None:
        def fail(me: ManualSubscriber) -> None:
            me.cancelled = True  # It counts as that (rule 2.13).
            raise Provoked(f"the error that a subscriber raised from {signal}", "2.13")

        super().__init__(**{signal: fail})
