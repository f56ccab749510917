"""Tests of publishers: cancel (rules 3.5 to 3.7, 3.12, 3.13, 3.15)."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Final

from .publisher_base import PublisherTests
from .publisher_streams import is_referenced
from .subscribers import ManualSubscriber
from .trials import Trial
from .verdicts import not_decided, optional, required, violated

__all__ = ["CancellingTests"]

_MANY: Final = 1000
"""Elements of a stream that is cancelled at its first one."""

_CALLS: Final = 2000
"""Function calls that a cancel may take. A count is the same on a fast and on a slow machine."""


class CancellingTests(PublisherTests):
    """What cancel does."""

    @optional("3.5", elements=3)
    async def test_r3_05_cancel_is_quick(self, trial: Trial) -> None:
        """Cancel of a long stream calls few functions: it does not run through the stream."""
        subscriber = await self.opened(trial, self.up_to(5 * _MANY))
        subscriber.request(1)
        await trial.until(lambda: subscriber.elements)
        calls = _calls_of(subscriber.cancel)
        if calls > _CALLS:
            violated("3.5", f"cancel() called {calls} functions; a quick one calls < {_CALLS}")

    @required("3.6", elements=3)
    async def test_r3_06_request_after_cancel_has_no_effect(self, trial: Trial) -> None:
        """After cancel, legal and illegal requests are answered by silence."""
        subscriber = await self.opened(trial, self.up_to(5))
        subscriber.cancel()
        await trial.settle()
        before = len(subscriber.signals)
        for n in (1, 1, 1, 0, -1):
            subscriber.request(n)
            await trial.settle()
            if later := subscriber.signals[before:]:
                violated("3.6", f"request({n}) after cancel() was answered by {later}")

    @required("3.7", elements=1)
    async def test_r3_07_cancel_again_has_no_effect(self, trial: Trial) -> None:
        """A second and a third cancel are answered by silence, and raise nothing."""
        subscriber = await self.opened(trial, self.up_to(3))
        subscriber.cancel()
        await trial.settle()
        before = len(subscriber.signals)
        raised = len(subscriber.raised)
        for which in ("second", "third"):
            subscriber.cancel()
            await trial.settle()
            if later := subscriber.signals[before:]:
                violated("3.7", f"the {which} cancel() was answered by {later}")
            if len(subscriber.raised) > raised:
                violated("3.7", f"the {which} cancel() raised {subscriber.raised[-1][1]!r}")

    @required("3.12", elements=20)
    async def test_r3_12_cancel_stops_the_signals(self, trial: Trial) -> None:
        """A cancel in the first on_next, with demand for all, stops the stream before its end."""
        n = self.up_to(_MANY)
        subscriber = await self.opened(trial, n, on_next=_cancel_at_first)
        subscriber.request(n)
        await trial.settle()
        if len(subscriber.elements) >= n:
            violated(
                "3.12", f"after cancel() at the first of {n} elements it signalled all of them"
            )

    @required("3.12", elements=20)
    async def test_r3_12_cancel_in_on_subscribe_stops_the_signals(self, trial: Trial) -> None:
        """A cancel in on_subscribe, behind a request for all, stops the stream before its end."""
        n = self.up_to(_MANY)
        before = 0

        def leave(me: ManualSubscriber) -> None:
            nonlocal before
            me.request(n)
            before = len(me.elements)
            me.cancel()

        subscriber = await self.opened(trial, n, on_subscribe=leave)
        await trial.settle()
        if before >= n:
            not_decided("request() signalled all elements before the cancel", "1.3")
        if len(subscriber.elements) >= n:
            violated("3.12", f"after cancel() in on_subscribe it signalled all {n} elements")

    @optional("3.12", completes=True)
    async def test_r3_12_no_end_after_cancel_in_on_subscribe(self, trial: Trial) -> None:
        """Who cancels in the on_subscribe of an empty stream gets no on_complete."""
        subscriber = await self.opened(trial, 0, on_subscribe=ManualSubscriber.cancel)
        await trial.settle()
        later = subscriber.signals[subscriber.signals.index("on_subscribe") + 1 :]
        if later:
            violated("3.12", f"after cancel() in on_subscribe it signalled {later}")

    @optional("3.12", elements=20)
    async def test_r3_12_no_element_once_cancel_has_returned(self, trial: Trial) -> None:
        """After a cancel in the first on_next there is no second one."""
        subscriber = await self.opened(trial, self.up_to(_MANY), on_next=_cancel_at_first)
        subscriber.request(20)
        await trial.settle()
        if (count := len(subscriber.elements)) > 1:
            violated("3.12", f"after cancel() had returned it signalled {count - 1} elements")

    @required("3.13", elements=3)
    async def test_r3_13_cancel_drops_the_subscriber(self, trial: Trial) -> None:
        """After cancel the publisher and its subscription do not refer to the subscriber."""
        publisher = await trial.make(self.publisher, self.up_to(10))
        subscriber = await self.joined(trial, publisher)
        subscriber.request(1)
        await trial.until(partial(subscriber.has, 1))
        subscriber.cancel()
        subscription, reference = subscriber.subscription, weakref.ref(subscriber)
        trial.forget(subscriber)
        del subscriber
        await trial.settle()
        if is_referenced(reference):
            violated(
                "3.13",
                f"after cancel() the subscriber is still referenced by {publisher!r},"
                f" {subscription!r} or a task",
            )

    @required("3.15", elements=3)
    async def test_r3_15_cancel_returns_normally(self, trial: Trial) -> None:
        """Cancel raises in no state: before a request, in each signal, after the end."""
        for state in ("open", "requested", "on_subscribe", "on_next", "on_complete", "ended"):
            reactions: dict[str, Callable[[ManualSubscriber], None]] = {}
            if state.startswith("on_"):
                reactions[state] = ManualSubscriber.cancel
            subscriber = await self.opened(trial, 3, **reactions)
            if state == "requested":
                subscriber.request(1)
                await trial.until(partial(subscriber.has, 1))
            if state in {"open", "requested"}:
                subscriber.cancel()
            elif state != "on_subscribe":
                subscriber.request(4)
                await trial.settle()
            if state == "ended" and subscriber.terminated:
                subscriber.cancel()
            await trial.quiet()
            for call, error in subscriber.raised:
                if call == "cancel()":
                    violated("3.15", f"cancel() raised {error!r}; state: {state}")


def _cancel_at_first(subscriber: ManualSubscriber) -> None:
    if len(subscriber.elements) == 1:
        subscriber.cancel()


def _calls_of(function: Callable[[], None]) -> int:
    """Count the functions that it calls."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls
