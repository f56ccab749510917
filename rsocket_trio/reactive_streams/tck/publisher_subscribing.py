"""Tests of publishers: what subscribe does, one subscriber and many (1.9 to 1.11, 2.12, 2.13)."""

from __future__ import annotations

from typing import Any

import trio

from ..interfaces import Publisher
from .publisher_base import PublisherTests, subscribe
from .subscribers import HostileSubscriber, ManualSubscriber
from .trials import Trial
from .verdicts import not_decided, not_declared, optional, required, violated

__all__ = ["SubscribingTests"]


class SubscribingTests(PublisherTests):
    """How a subscription begins, and how subscribers share a publisher."""

    @required("1.9")
    async def test_r1_09_subscribe_returns_normally(self, trial: Trial) -> None:
        """Subscribe returns normally, also for a second subscriber, and if the publisher fails."""
        publisher = await trial.make(self.publisher, self.up_to(3))
        for which in ("first", "second"):
            if (raised := subscribe(publisher, trial.subscriber())) is not None:
                violated("1.9", f"subscribe of a {which} subscriber raised {raised!r}")
        if self.has("failing"):
            failing = await self.make_failing(trial, 0)
            if (raised := subscribe(failing, trial.subscriber())) is not None:
                violated("1.9", f"subscribe to a failing publisher raised {raised!r}")

    @required("1.9")
    async def test_r1_09_subscribe_in_a_closed_nursery_signals_on_error(self, trial: Trial) -> None:
        """If the nursery of the publisher is closed: on_subscribe, then on_error."""
        if not self.takes_nursery():
            not_declared("nursery", "the factory takes the nursery of the publisher's tasks")
        async with trio.open_nursery() as nursery:
            publisher = await trial.make(self.publisher, self.up_to(3), nursery=nursery)
            nursery.cancel_scope.cancel(reason="the test closes it")
        subscriber = trial.subscriber()
        if (raised := subscribe(publisher, subscriber)) is not None:
            violated("1.9", f"subscribe with a closed nursery raised {raised!r}")
        await trial.until(lambda: subscriber.subscribed)
        subscriber.request(1)
        await trial.until(lambda: subscriber.terminated)
        if subscriber.signals != ["on_subscribe", "on_error"]:
            violated(
                "1.9",
                "with a closed nursery the signals are on_subscribe and on_error, not"
                f" {subscriber.signals}",
            )

    @required("1.9")
    async def test_r1_09_none_is_a_type_error(self, trial: Trial) -> None:
        """subscribe(None) raises TypeError."""
        raised = subscribe(await trial.make(self.publisher, self.up_to(1)), None)
        if not isinstance(raised, TypeError):
            what = f"raised {raised!r}" if raised is not None else "returned"
            violated("1.9", f"subscribe(None) {what}, but has to raise TypeError")

    @required("1.9")
    async def test_r1_09_on_subscribe_comes_first(self, trial: Trial) -> None:
        """on_subscribe is the first signal, and comes before subscribe returns."""
        publisher = await trial.make(self.publisher, self.up_to(3))
        await self._check_first(trial, publisher, "a subscriber", at_once=True)

    @required("1.9", completes=True)
    async def test_r1_09_an_empty_stream_begins_with_on_subscribe(self, trial: Trial) -> None:
        """Where nothing comes between, on_complete still comes behind on_subscribe."""
        publisher = await trial.make(self.publisher, 0)
        await self._check_first(trial, publisher, "the subscriber of an empty stream")

    @required("1.9", elements=1)
    async def test_r1_09_a_second_subscriber_gets_on_subscribe(self, trial: Trial) -> None:
        """It gets on_subscribe first, beside another one; who is refused, on_error behind it."""
        publisher = await trial.make(self.publisher, 1)
        await self.joined(trial, publisher)
        await self._check_first(trial, publisher, "a second subscriber")

    @required("1.9", elements=1, completes=True)
    async def test_r1_09_a_late_subscriber_gets_on_subscribe(self, trial: Trial) -> None:
        """Who subscribes after the stream of another one has ended gets on_subscribe first."""
        publisher = await trial.make(self.publisher, 1)
        subscriber = await self.joined(trial, publisher)
        await self.drained(trial, subscriber, 1)
        if not await trial.until(lambda: subscriber.terminated):
            not_decided("the stream did not complete", "rule 1.5")
        await self._check_first(trial, publisher, "a subscriber after the end")

    async def _check_first(
        self, trial: Trial, publisher: Publisher[Any], who: str, *, at_once: bool = False
    ) -> None:
        subscriber = trial.subscriber()
        if subscribe(publisher, subscriber) is not None:
            not_decided("subscribe raised", "rule 1.9")
        if at_once and not self.on_subscribe_later and not subscriber.subscribed:
            violated("1.9", f"{who}: subscribe returned before on_subscribe was called")
        await trial.until(lambda: subscriber.subscribed)
        if not subscriber.subscribed:
            violated("1.9", f"{who}: on_subscribe was never called")
        if subscriber.signals[0] != "on_subscribe":
            violated("1.9", f"{who}: {subscriber.signals[0]} was signalled before on_subscribe")

    @required("1.9", declared=("failing",))
    async def test_r1_09_rejection_is_on_error_after_on_subscribe(self, trial: Trial) -> None:
        """A publisher that fails at once calls on_subscribe before on_error."""
        subscriber = trial.subscriber()
        if subscribe(await self.make_failing(trial, 0), subscriber) is not None:
            not_decided("subscribe raised", "rule 1.9")
        await trial.settle()
        if subscriber.signals[:1] != ["on_subscribe"]:
            violated(
                "1.9", f"a failed publisher did not begin with on_subscribe: {subscriber.signals}"
            )

    @optional("1.10", many=True, elements=3)
    async def test_r1_10_same_subscriber_twice(self, trial: Trial) -> None:
        """A second subscription of one subscriber, which it cancels, leaves the first as it was."""

        def cancel_the_second(me: ManualSubscriber) -> None:
            if len(me.subscriptions) > 1:
                me.subscriptions.pop().cancel()

        subscriber = trial.subscriber(on_subscribe=cancel_the_second)
        publisher = await trial.make(self.publisher, 3)
        for _ in range(2):
            if (raised := subscribe(publisher, subscriber)) is not None:
                violated("1.10", f"subscribe raised {raised!r}")
            await trial.quiet()
        subscriber.request(3)
        await trial.until(lambda: len(subscriber.elements) == 3)
        await trial.settle()
        if len(subscriber.elements) != 3 or subscriber.errors:
            violated(
                "1.10",
                "a second subscription of the same subscriber changed the first one:"
                f" {subscriber.signals}",
            )

    @optional("1.11", many=True, elements=1)
    async def test_r1_11_two_subscribers(self, trial: Trial) -> None:
        """A second subscriber is not refused."""
        publisher = await trial.make(self.publisher, 1)
        both = [await self.joined(trial, publisher) for _ in range(2)]
        await trial.settle()
        for subscriber in both:
            if subscriber.errors:
                violated("1.11", f"one of two subscribers was refused: {subscriber.errors[0]!r}")

    @optional("1.11", many=True, elements=1)
    async def test_r1_11_each_subscriber_gets_signals(self, trial: Trial) -> None:
        """Of two subscribers that request one element each, each gets an element or completes."""
        publisher = await trial.make(self.publisher, 1)
        both = [await self.joined(trial, publisher) for _ in range(2)]
        for subscriber in both:
            subscriber.request(1)
        await trial.until(lambda: all(each.elements or each.completed for each in both))
        for which, subscriber in zip(("first", "second"), both, strict=True):
            if not subscriber.elements and not subscriber.completed:
                violated("1.11", f"the {which} of two subscribers got {subscriber.signals}")

    @optional("1.11", many=True, multicast=True, elements=5)
    async def test_r1_11_multicast_one_by_one(self, trial: Trial) -> None:
        """Three subscribers that request in different steps get the same elements."""
        await self._check_multicast(trial, 5, ((1, 1, 2, 1), (2, 3), (3, 1, 1)))

    @optional("1.11", many=True, multicast=True, elements=3)
    async def test_r1_11_multicast_requested_upfront(self, trial: Trial) -> None:
        """Three subscribers that request more than there is get the same elements."""
        await self._check_multicast(trial, 3, ((4,), (4,), (4,)))

    @optional("1.11", many=True, multicast=True, elements=3, completes=True)
    async def test_r1_11_multicast_completes_for_each(self, trial: Trial) -> None:
        """Three subscribers that request more than there is all complete."""
        all_three = await self._multicast(trial, 3, ((4,), (4,), (4,)))
        await trial.until(lambda: all(each.completed for each in all_three))
        for number, subscriber in enumerate(all_three, 1):
            if not subscriber.completed:
                violated("1.11", f"subscriber {number} of 3 did not complete: {subscriber.signals}")

    async def _check_multicast(
        self, trial: Trial, n: int, patterns: tuple[tuple[int, ...], ...]
    ) -> None:
        all_three = await self._multicast(trial, n, patterns)
        await trial.until(lambda: all(len(each.elements) >= n for each in all_three))
        first = all_three[0].elements
        for number, subscriber in enumerate(all_three, 1):
            if len(first) < n or subscriber.elements != first:
                violated(
                    "1.11",
                    f"subscriber {number} of 3 got {subscriber.elements}, the first one {first},"
                    f" and there were {n} elements",
                )

    async def _multicast(
        self, trial: Trial, n: int, patterns: tuple[tuple[int, ...], ...]
    ) -> list[ManualSubscriber]:
        publisher = await trial.make(self.publisher, n)
        all_three = [await self.joined(trial, publisher) for _ in patterns]
        for step in range(max(map(len, patterns))):
            for subscriber, pattern in zip(all_three, patterns, strict=True):
                if step < len(pattern):
                    subscriber.request(pattern[step])
            await trial.quiet()
        return all_three

    @required("2.12", elements=3)
    async def test_r2_12_on_subscribe_is_called_once(self, trial: Trial) -> None:
        """From subscribe to the end of the stream on_subscribe is called once."""
        subscriber = await self.opened(trial, 3)
        await self.drained(trial, subscriber, 3)
        await trial.settle()
        if (count := subscriber.signals.count("on_subscribe")) != 1:
            violated("2.12", f"on_subscribe was called {count} times for one subscribe")

    @required("2.13", elements=3)
    async def test_r2_13_subscriber_that_raises_counts_as_cancelled(self, trial: Trial) -> None:
        """After an exception out of on_subscribe or on_next the subscriber is not signalled."""
        for signal in ("on_subscribe", "on_next"):
            publisher = await trial.make(self.publisher, 3)
            await self._check_hostile(trial, publisher, signal)

    @required("2.13", elements=3)
    async def test_r2_13_errors_of_a_subscriber_stay_with_it(self, trial: Trial) -> None:
        """An exception out of a signal reaches no caller, no task and no other subscriber."""
        for signal in ("on_subscribe", "on_next", "on_complete", "on_error"):
            if signal == "on_error" and not self.has("failing"):
                continue
            if signal == "on_complete" and not self.completes:
                continue
            if signal == "on_error":
                publisher = await self.make_failing(trial, 3)
            else:
                publisher = await trial.make(self.publisher, 3)
            hostile = trial.joins(HostileSubscriber(signal))
            others = [await self.joined(trial, publisher)] if self.subscribers == "many" else []
            raised = subscribe(publisher, hostile)
            for subscriber in (*others, hostile):
                subscriber.request(4)
            await trial.settle()
            for each in [] if raised is None else [("subscribe", raised)]:
                self._complain(signal, *each)
            for call, error in hostile.raised:
                self._complain(signal, call, error)
            for other in others:
                await self._check_unharmed(trial, other, signal)

    async def _check_hostile(self, trial: Trial, publisher: Any, signal: str) -> None:
        hostile = trial.joins(HostileSubscriber(signal))
        subscribe(publisher, hostile)
        hostile.request(4)
        await trial.settle()
        if signal in hostile.signals:
            later = hostile.signals[hostile.signals.index(signal) + 1 :]
            if later:
                violated("2.13", f"a subscriber raised from {signal}, and got {later} after that")

    def _complain(self, signal: str, call: str, error: BaseException) -> None:
        violated("2.13", f"a subscriber raised from {signal}: {call} raised {error!r} in its turn")

    async def _check_unharmed(self, trial: Trial, other: ManualSubscriber, signal: str) -> None:
        await trial.until(lambda: len(other.elements) >= 3 or other.terminated)
        failing = signal == "on_error"
        if len(other.elements) < 3 or (other.errors and not failing):
            violated(
                "2.13",
                f"a subscriber raised from {signal}, and another subscriber of that publisher"
                f" got {other.signals} in place of its 3 elements",
            )
