"""The verification of subscribers (rules 2.1 to 2.13, 3.8, 3.10, 3.11)."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

from .driver import ManualSubscription
from .subscriber_base import SubscriberTests
from .trials import SignalledError, Trial
from .verdicts import not_applicable, not_decided, optional, report_only, required, violated

__all__ = ["SubscriberVerification"]

_MOST: Final = 512
"""Elements that are signalled to a subscriber with a large demand."""

_NESTED: Final = 10
"""Elements that are signalled from inside of request, each in the request of the one before."""


class SubscriberVerification(SubscriberTests):
    """Verifies a subscriber. Subclass it, with a name that pytest collects.

    At least ``subscriber`` has to be declared: a method, or any callable as a ``staticmethod``. A
    factory may be an async function; parameters ``nursery``, ``resource`` and ``publisher`` get the
    nursery of the test, what ``resource`` yields, and a publisher to subscribe to.
    """

    @required("set-up")
    async def test_setup_request_elements_and_cancel(self, trial: Trial) -> None:
        """The subscriber requests two elements, gets them, and cancels when told to."""
        driver = await self.joined_driver(trial)
        for _ in range(2):
            await self.demanded(trial, driver)
            driver.on_next()
            await trial.quiet()
        if self.trigger_cancel is not None and self.has("trigger_cancel"):
            self.trigger_cancel(driver.subscriber)
            if not await trial.until(lambda: driver.subscription.cancels):
                violated("set-up", "trigger_cancel did not cancel the subscription")

    @required("2.1")
    async def test_r2_01_demand_is_signalled(self, trial: Trial) -> None:
        """After on_subscribe there is demand, of positive numbers; what was requested is taken."""
        driver = await self.joined_driver(trial)
        if self.trigger_request is not None:
            self.trigger_request(driver.subscriber, 3)
        if not await trial.until(lambda: driver.subscription.requests):
            violated("2.1", "after on_subscribe the subscriber requested nothing")
        while driver.owed > 0 and driver.sent < _MOST:
            driver.on_next()
            await trial.quiet()
        driver.on_complete()
        for n in driver.subscription.requests:
            if not isinstance(n, int) or n <= 0:
                violated("2.1", f"the subscriber called request({n!r}), which is not positive")

    @report_only("2.2")
    async def test_r2_02_time_in_on_next(self, trial: Trial) -> str:
        """How long on_next takes: only its author knows whether that is too long."""
        driver = await self.joined_driver(trial)
        await self.demanded(trial, driver)
        longest = 0.0
        while driver.owed > 0 and driver.sent < _MOST:
            before = time.perf_counter()
            driver.on_next()
            longest = max(longest, time.perf_counter() - before)
            await trial.quiet()
        return f"the longest of {driver.sent} on_next took {longest * 1e6:.0f} microseconds"

    @required("2.3")
    async def test_r2_03_on_complete_calls_nothing(self, trial: Trial) -> None:
        """on_complete calls neither its subscription nor the publisher."""
        await self._check_calls_in_end(trial, "on_complete")

    @required("2.3")
    async def test_r2_03_on_error_calls_nothing(self, trial: Trial) -> None:
        """on_error calls neither its subscription nor the publisher."""
        await self._check_calls_in_end(trial, "on_error", SignalledError("the publisher fails"))

    async def _check_calls_in_end(self, trial: Trial, signal: str, *arguments: Any) -> None:
        driver = await self.joined_driver(trial)
        if self.trigger_request is not None:
            self.trigger_request(driver.subscriber, 2)
        await trial.quiet()
        getattr(driver, signal)(*arguments)
        if calls := driver.subscription.inside:
            violated("2.3", f"{signal} called {' and '.join(calls)} of its subscription")
        if driver.resubscribed:
            violated("2.3", f"{signal} called subscribe of the publisher")

    @required("2.4")
    async def test_r2_04_no_request_after_on_complete(self, trial: Trial) -> None:
        """After on_complete nothing is requested, even if the subscriber is told to."""
        driver = await self.joined_driver(trial)
        driver.on_complete()
        await self._check_silence(trial, driver, "on_complete")

    @required("2.4")
    async def test_r2_04_no_request_after_on_error(self, trial: Trial) -> None:
        """After on_error nothing is requested, even if the subscriber is told to."""
        driver = await self.joined_driver(trial)
        driver.on_error(SignalledError("the publisher fails"))
        await self._check_silence(trial, driver, "on_error")

    async def _check_silence(self, trial: Trial, driver: Any, signal: str) -> None:
        if self.trigger_request is not None:
            self.trigger_request(driver.subscriber, 1)
        await trial.settle()
        if late := driver.subscription.late_requests:
            violated("2.4", f"after {signal} the subscriber requested {late} elements")

    @required("2.5")
    async def test_r2_05_second_subscription_is_cancelled(self, trial: Trial) -> None:
        """A second subscription is cancelled and never requested from; the first one lives on."""
        driver = await self.joined_driver(trial)
        second = ManualSubscription()
        try:
            driver.subscriber.on_subscribe(second)
        except Exception as error:  # of any kind: none is allowed
            violated("2.5", f"a second on_subscribe raised {error!r}")
        await trial.settle()
        if not second.cancels:
            violated("2.5", "a second subscription was not cancelled")
        if second.requests:
            violated("2.5", f"the subscriber requested {second.requests} of a second subscription")
        if driver.subscription.cancels:
            violated("2.5", "a second subscription made the subscriber cancel its first one")
        if self.trigger_request is not None and driver.owed < 1:
            self.trigger_request(driver.subscriber, 1)
            await trial.quiet()
        if second.requests:
            violated("2.5", f"the subscriber requested {second.requests} of a second subscription")

    @optional("2.6", declared=("limited",))
    async def test_r2_06_cancels_what_it_no_longer_needs(self, trial: Trial) -> None:
        """A subscriber that needs two elements cancels after the second one."""
        driver = await self.joined_driver(trial, self.limited, 2)
        while driver.sent < 2:
            await self.demanded(trial, driver)
            driver.on_next()
            await trial.quiet()
        if not await trial.until(lambda: driver.subscription.cancels):
            violated("2.6", "a subscriber that needs 2 elements did not cancel after them")

    test_r2_07_calls_are_serial = not_applicable("2.7")

    @required("2.8", declared=("trigger_cancel",))
    async def test_r2_08_elements_after_cancel_are_tolerated(self, trial: Trial) -> None:
        """An element that was on its way when the subscriber cancelled does no harm."""
        driver = await self.joined_driver(trial)
        await self.demanded(trial, driver)
        assert self.trigger_cancel is not None
        self.trigger_cancel(driver.subscriber)
        await trial.quiet()
        driver.raised.clear()
        driver.on_next()
        await trial.settle()
        for _, error in driver.raised:
            violated("2.8", f"on_next after cancel() raised {error!r}")

    @required("2.9")
    async def test_r2_09_on_complete_after_a_request(self, trial: Trial) -> None:
        """on_complete after a request returns normally."""
        driver = await self.joined_driver(trial)
        await self.demanded(trial, driver)
        driver.on_complete()
        self._check_end(driver, "2.9", "after a request")

    @required("2.9")
    async def test_r2_09_on_complete_without_a_request(self, trial: Trial) -> None:
        """on_complete right after on_subscribe returns normally."""
        driver = await self.driven(trial)
        driver.on_subscribe()
        driver.on_complete()
        self._check_end(driver, "2.9", "right after on_subscribe")

    @required("2.10")
    async def test_r2_10_on_error_after_a_request(self, trial: Trial) -> None:
        """on_error after a request returns normally."""
        driver = await self.joined_driver(trial)
        await self.demanded(trial, driver)
        driver.on_error(SignalledError("the publisher fails"))
        self._check_end(driver, "2.10", "after a request")

    @required("2.10")
    async def test_r2_10_on_error_without_a_request(self, trial: Trial) -> None:
        """on_error right after on_subscribe returns normally."""
        driver = await self.driven(trial)
        driver.on_subscribe()
        driver.on_error(SignalledError("the publisher fails"))
        self._check_end(driver, "2.10", "right after on_subscribe")

    def _check_end(self, driver: Any, rule: str, when: str) -> None:
        for signal, error in driver.raised:
            if signal in {"on_complete", "on_error"}:
                violated(rule, f"{signal} {when} raised {error!r}")

    test_r2_11_signals_are_published = not_applicable("2.11")

    @required("2.13")
    async def test_r2_13_signals_return_normally(self, trial: Trial) -> None:
        """on_subscribe and on_next of all that was requested raise nothing."""
        driver = await self.joined_driver(trial)
        if self.trigger_request is not None:
            self.trigger_request(driver.subscriber, 5)
        await trial.quiet()
        while driver.owed > 0 and driver.sent < _NESTED:
            driver.on_next()
            await trial.quiet()
        for signal, error in driver.raised:
            violated("2.13", f"{signal} raised {error!r}")

    @required("2.13")
    async def test_r2_13_on_subscribe_of_none_is_a_type_error(self, trial: Trial) -> None:
        """on_subscribe(None) raises TypeError."""
        driver = await self.driven(trial)
        self._check_none(driver.subscriber, "on_subscribe")

    @required("2.13")
    async def test_r2_13_on_next_of_none_is_a_type_error(self, trial: Trial) -> None:
        """on_next(None) raises TypeError."""
        driver = await self.joined_driver(trial)
        await self.demanded(trial, driver)
        self._check_none(driver.subscriber, "on_next")

    @required("2.13")
    async def test_r2_13_on_error_of_none_is_a_type_error(self, trial: Trial) -> None:
        """on_error(None) raises TypeError."""
        driver = await self.joined_driver(trial)
        self._check_none(driver.subscriber, "on_error")

    def _check_none(self, subscriber: Any, signal: str) -> None:
        try:
            getattr(subscriber, signal)(None)
        except TypeError:
            return
        except Exception as error:  # of any kind: only a TypeError is right
            violated("2.13", f"{signal}(None) has to raise TypeError, and raised {error!r}")
        violated("2.13", f"{signal}(None) has to raise TypeError, and returned")

    test_r3_01_context_of_the_calls = not_applicable("3.1")

    @required("3.8", declared=("trigger_request",))
    async def test_r3_08_all_that_is_wanted_is_requested(self, trial: Trial) -> None:
        """A subscriber that wants two elements requests two, at once or one after the other."""
        driver = await self.joined_driver(trial)
        assert self.trigger_request is not None
        self.trigger_request(driver.subscriber, 2)
        await trial.quiet()
        if driver.owed < 1:
            not_decided("the subscriber requests nothing", "rule 2.1")
        while driver.owed > 0 and driver.sent < 2:
            driver.on_next()
            await trial.settle()
        if driver.subscription.demand < 2:
            violated(
                "3.8", f"2 elements were wanted, and only {driver.subscription.demand} requested"
            )

    @optional("3.10")
    async def test_r3_10_elements_inside_of_request(self, trial: Trial) -> None:
        """A publisher that calls on_next inside of request does no harm."""
        driver = await self.driven(trial)

        def emit() -> None:
            while driver.owed > 0 and driver.sent < _NESTED:
                driver.on_next()

        driver.subscription = ManualSubscription(emit)
        await self._check_signals_inside_of_request(trial, driver, "3.10")

    @optional("3.11")
    async def test_r3_11_end_inside_of_request(self, trial: Trial) -> None:
        """A publisher that calls on_complete or on_error inside of request does no harm."""
        failure = SignalledError("the publisher fails")
        for signal, arguments in (("on_complete", ()), ("on_error", (failure,))):
            driver = await self.driven(trial)
            end = partial(getattr(driver, signal), *arguments)
            driver.subscription = ManualSubscription(end)
            await self._check_signals_inside_of_request(trial, driver, "3.11")

    async def _check_signals_inside_of_request(self, trial: Trial, driver: Any, rule: str) -> None:
        driver.on_subscribe()
        if self.trigger_request is not None:
            try:
                self.trigger_request(driver.subscriber, 3)
            except Exception as error:  # of any kind: it comes out of a signal
                violated(rule, f"request with a signal inside raised {error!r}")
        await trial.settle()
        for signal, raised in driver.raised:
            violated(rule, f"{signal} inside of request raised {raised!r}")
        if late := driver.subscription.late_requests:
            violated(rule, f"after the end inside of request the subscriber requested {late}")

    test_r3_14_cancel_may_shut_down = not_applicable("3.14")
