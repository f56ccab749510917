"""Tests of publishers: the set-up, counts, ends and order of signals (rules 1.1 to 1.8)."""

from __future__ import annotations

import gc
import random
import weakref
from functools import partial
from typing import Any

from ..interfaces import Publisher
from .publisher_base import PublisherTests, subscribe
from .subscribers import ManualSubscriber
from .trials import Trial
from .verdicts import not_decided, optional, required, violated

__all__ = ["StreamTests", "is_referenced"]


def is_referenced(reference: weakref.ref[ManualSubscriber]) -> bool:
    """Return whether somebody still refers to it."""
    if reference() is not None:
        gc.collect()
    return reference() is not None


class StreamTests(PublisherTests):
    """What a subscriber gets, and how it ends."""

    @required("set-up", elements=1)
    async def test_setup_factory_gives_one_element(self, trial: Trial) -> None:
        """``publisher(1)`` gives exactly one element."""
        await self._check_factory(trial, 1)

    @required("set-up", elements=3)
    async def test_setup_factory_gives_three_elements(self, trial: Trial) -> None:
        """``publisher(3)`` gives exactly three elements."""
        await self._check_factory(trial, 3)

    async def _check_factory(self, trial: Trial, n: int) -> None:
        subscriber = await self.opened(trial, n)
        await self.drained(trial, subscriber, n)
        await trial.settle()
        if len(subscriber.elements) != n:
            violated("set-up", f"publisher({n}) gave {len(subscriber.elements)} elements")

    @required("1.1", elements=5)
    async def test_r1_01_never_more_elements_than_requested(self, trial: Trial) -> None:
        """Requests of 0, 1, 1 and 2 elements, then random ones: never one too many."""
        subscriber = await self.opened(trial, self.up_to(10))
        await trial.settle()
        self._check_surplus(subscriber, "before any request")
        for n in (1, 1, 2):
            subscriber.request(n)
            await trial.settle()
            self._check_surplus(subscriber, f"after request({n})")
        for seed in range(10 if self.clock == "mock" else 1):
            await self._request_at_random(trial, random.Random(seed))

    async def _request_at_random(self, trial: Trial, dice: random.Random) -> None:
        subscriber = await self.opened(trial, self.up_to(40))
        for _ in range(8):
            subscriber.request(dice.choice((1, 1, 2, 3, 7)))
            if dice.random() < 0.5:
                await trial.quiet()
        await trial.settle()
        self._check_surplus(subscriber, "after random requests")

    def _check_surplus(self, subscriber: ManualSubscriber, when: str) -> None:
        if subscriber.surplus > 0:
            violated(
                "1.1",
                f"{when} there were {subscriber.surplus} elements more than requested",
            )

    @required("1.2", elements=3, completes=True)
    async def test_r1_02_may_complete_with_fewer_elements(self, trial: Trial) -> None:
        """A request of 10 elements of a stream of 3 ends with on_complete."""
        subscriber = await self.opened(trial, 3)
        subscriber.request(10)
        if not await trial.until(lambda: subscriber.completed):
            violated("1.2", f"3 elements, request(10): no on_complete, but {subscriber.signals}")

    @required("1.3", elements=3)
    async def test_r1_03_signals_are_serial(self, trial: Trial) -> None:
        """A request from inside of on_next runs no other signal inside of that on_next."""
        subscriber = await self.opened(trial, 3, on_next=lambda me: me.request(1))
        subscriber.request(1)
        await trial.settle()
        for outer, inner in subscriber.nested:
            if outer != "on_next" or self.recursion_bound == 1:
                violated("1.3", f"{inner} began while {outer} was running")

    @optional("1.3", elements=2)
    async def test_r1_03_no_signal_inside_on_subscribe(self, trial: Trial) -> None:
        """A request from inside of on_subscribe is answered after on_subscribe has returned."""
        subscriber = await self.opened(trial, 2, on_subscribe=lambda me: me.request(2))
        await trial.settle()
        for outer, inner in subscriber.nested:
            if outer == "on_subscribe":
                violated("1.3", f"{inner} began while on_subscribe was running")

    @required("1.4", declared=("failing",))
    async def test_r1_04_failed_publisher_signals_on_error(self, trial: Trial) -> None:
        """A publisher that fails at once signals on_error."""
        await self._check_failure(trial, 0)

    @required("1.4", declared=("failing",), elements=2)
    async def test_r1_04_failure_after_elements_signals_on_error(self, trial: Trial) -> None:
        """A publisher that fails after two elements signals on_error after them."""
        await self._check_failure(trial, 2)

    async def _check_failure(self, trial: Trial, n: int) -> None:
        subscriber = trial.subscriber()
        if subscribe(await self.make_failing(trial, n), subscriber) is not None:
            not_decided("subscribe raised", "rule 1.9")
        await trial.until(lambda: subscriber.subscribed)
        await self.drained(trial, subscriber, n)
        await trial.until(lambda: subscriber.terminated)
        if not subscriber.errors:
            violated(
                "1.4",
                f"a publisher that fails after {n} elements signalled no on_error, but"
                f" {subscriber.signals}",
            )

    @required("1.5", elements=3, completes=True)
    async def test_r1_05_finite_stream_completes(self, trial: Trial) -> None:
        """Three elements one by one, a request for one more: on_complete."""
        subscriber = await self.opened(trial, 3)
        await self.drained(trial, subscriber, 3)
        if not await trial.until(lambda: subscriber.completed):
            violated("1.5", f"no on_complete after the last element, but {subscriber.signals}")

    @optional("1.5", elements=3, completes=True)
    async def test_r1_05_completes_without_further_demand(self, trial: Trial) -> None:
        """on_complete follows the last element, without a request for one more."""
        subscriber = await self.opened(trial, 3)
        subscriber.request(3)
        if not await trial.until(lambda: subscriber.completed):
            violated("1.5", "on_complete waits for a request after the last element")

    @optional("1.5", completes=True)
    async def test_r1_05_empty_stream_completes_without_demand(self, trial: Trial) -> None:
        """``publisher(0)`` signals on_complete without any request."""
        subscriber = await self.opened(trial, 0)
        if not await trial.until(lambda: subscriber.completed):
            violated("1.5", "an empty stream does not complete without a request")

    @required("1.6", elements=1, completes=True)
    async def test_r1_06_subscription_is_cancelled_after_completion(self, trial: Trial) -> None:
        """After on_complete, illegal requests and cancel have no effect."""
        subscriber = await self.opened(trial, 1)
        await self.drained(trial, subscriber, 1)
        if not await trial.until(lambda: subscriber.completed):
            not_decided("the stream did not complete", "rule 1.5")
        before = len(subscriber.signals)
        subscriber.request(0)
        subscriber.request(-1)
        subscriber.cancel()
        await trial.settle()
        if later := subscriber.signals[before:]:
            violated("1.6", f"after on_complete, request(0) and cancel() made it signal {later}")

    @required("1.6", elements=1, completes=True)
    async def test_r1_06_subscriber_is_dropped_after_completion(self, trial: Trial) -> None:
        """After on_complete the publisher and its subscription do not refer to the subscriber."""
        publisher = await trial.make(self.publisher, 1)
        await self._check_dropped(trial, publisher, "on_complete", "rule 1.5")

    @required("1.6", declared=("failing",), elements=1)
    async def test_r1_06_subscriber_is_dropped_after_an_error(self, trial: Trial) -> None:
        """After on_error the publisher and its subscription do not refer to the subscriber."""
        publisher = await self.make_failing(trial, 1)
        await self._check_dropped(trial, publisher, "on_error", "rule 1.4")

    async def _check_dropped(
        self, trial: Trial, publisher: Publisher[Any], end: str, judged_by: str
    ) -> None:
        subscriber = await self.joined(trial, publisher)
        await self.drained(trial, subscriber, 1)
        await trial.until(partial(subscriber.has, 2))
        if end not in subscriber.signals:
            not_decided(f"there was no {end}", judged_by)
        for error in subscriber.errors:
            if isinstance(error, Exception):  # A publisher may keep it; our calls are in it.
                error.__traceback__ = None
        subscription, reference = subscriber.subscription, weakref.ref(subscriber)
        trial.forget(subscriber)
        del subscriber
        await trial.settle()
        if is_referenced(reference):
            violated(
                "1.6",
                f"after {end} the subscriber is still referenced by {publisher!r},"
                f" {subscription!r} or a task",
            )

    @required("1.7", elements=1, completes=True)
    async def test_r1_07_nothing_after_on_complete(self, trial: Trial) -> None:
        """After on_complete a further request is answered by silence."""
        subscriber = await self.opened(trial, 1)
        subscriber.request(10)
        if not await trial.until(lambda: subscriber.completed):
            not_decided("the stream did not complete", "rule 1.5")
        subscriber.request(10)
        await trial.settle()
        later = subscriber.signals[subscriber.signals.index("on_complete") + 1 :]
        if later:
            violated("1.7", f"after on_complete it signalled {later}")

    @required("1.7", declared=("failing",), elements=1)
    async def test_r1_07_nothing_after_on_error(self, trial: Trial) -> None:
        """After on_error a further request is answered by silence."""
        subscriber = await self.joined(trial, await self.make_failing(trial, 1))
        subscriber.request(10)
        if not await trial.until(lambda: subscriber.errors):
            not_decided("the publisher did not signal on_error", "rule 1.4")
        subscriber.request(10)
        await trial.settle()
        later = subscriber.signals[subscriber.signals.index("on_error") + 1 :]
        if later:
            violated("1.7", f"after on_error it signalled {later}")

    @required("1.7", elements=1)
    async def test_r1_07_nothing_after_on_error_for_a_request(self, trial: Trial) -> None:
        """After the on_error for request(-1), good and bad requests are answered by silence."""
        subscriber = await self.opened(trial, self.up_to(10))
        subscriber.request(-1)
        if not await trial.until(lambda: subscriber.errors):
            not_decided("request(-1) was not answered by on_error", "rule 3.9")
        for n in (10, -1):
            subscriber.request(n)
            await trial.settle()
        later = subscriber.signals[subscriber.signals.index("on_error") + 1 :]
        if later:
            violated("1.7", f"after the on_error for request(-1) it signalled {later}")

    @required("2.13", elements=1)
    async def test_r2_13_no_element_is_none(self, trial: Trial) -> None:
        """No element of up to 300 is None, for which on_next would raise TypeError."""
        n = self.up_to(300)
        subscriber = await self.opened(trial, n)
        subscriber.request(n)
        await self.filled(trial, subscriber, n)
        for i, element in enumerate(subscriber.elements):
            if element is None:
                violated("2.13", f"on_next was called with None, for element {i} of {n}")

    @required("2.13", declared=("failing",))
    async def test_r2_13_no_error_is_none(self, trial: Trial) -> None:
        """The argument of on_error is an exception: for None on_error would raise TypeError."""
        subscriber = trial.subscriber()
        subscribe(await self.make_failing(trial, 0), subscriber)
        subscriber.request(1)
        await trial.until(lambda: subscriber.terminated)
        for error in subscriber.errors:
            if not isinstance(error, Exception):
                violated("2.13", f"on_error was called with {error!r}, which is no exception")

    @required("1.8", elements=3)
    async def test_r1_08_silence_after_cancel(self, trial: Trial) -> None:
        """Once a cancelled publisher has become quiet it stays so, for an hour of virtual time."""
        subscriber = await self.opened(trial, 3)
        subscriber.request(1)
        await trial.until(lambda: subscriber.elements)
        subscriber.cancel()
        await trial.quiet()
        before = len(subscriber.signals)
        await trial.settle(3600.0)
        if later := subscriber.signals[before:]:
            violated("1.8", f"some time after cancel() it signalled {later}")

    @optional("1.8", elements=3)
    async def test_r1_08_nothing_once_cancel_has_returned(self, trial: Trial) -> None:
        """No terminal signal follows a cancel from inside of the last on_next."""
        subscriber = await self.opened(
            trial, 3, on_next=lambda me: me.cancel() if len(me.elements) == 3 else None
        )
        subscriber.request(3)
        await trial.settle()
        if subscriber.terminated:
            violated("1.8", f"after cancel() had returned it signalled {subscriber.signals[-1]}")
