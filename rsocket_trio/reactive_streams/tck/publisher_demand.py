"""Tests of publishers: request (rules 3.2 to 3.4, 3.8, 3.9, 3.16, 3.17)."""

from __future__ import annotations

import re
from typing import Any, Final

import trio

from .publisher_base import MAX_DEMAND, PublisherTests
from .subscribers import ManualSubscriber
from .trials import Trial
from .verdicts import not_decided, optional, required, violated

__all__ = ["DemandTests"]

_LEVELS: Final = 50
"""Elements that drive the test of recursion. With many more, a publisher that recurses would reach
the limit of Python before it is judged."""

_MANY: Final = 5000
"""Elements that take long enough to starve others."""

_LARGE: Final = 300
"""Elements requested at once: more than the batches and buffers that are usual."""

_IDLE_TURNS: Final = 1000
"""Turns of the loop without an element, after which a publisher counts as one that sleeps."""

_SPEAKS_OF_IT: Final = re.compile(
    r"3\.9|non-?positive|not positive|negative|must be positive|greater than (0|zero)|> ?0",
    re.IGNORECASE,
)


class DemandTests(PublisherTests):
    """What request does."""

    @required("3.2", elements=6)
    async def test_r3_02_request_from_inside_of_signals(self, trial: Trial) -> None:
        """Three requests in on_subscribe and one in each on_next bring all six elements."""

        def request_three_times(me: ManualSubscriber) -> None:
            for _ in range(3):
                me.request(1)

        subscriber = await self.opened(
            trial, 6, on_subscribe=request_three_times, on_next=lambda me: me.request(1)
        )
        if not await trial.until(lambda: len(subscriber.elements) >= 6):
            violated(
                "3.2",
                "3 x request(1) in on_subscribe and request(1) in each on_next brought"
                f" {len(subscriber.elements)} of 6 elements",
            )

    @required("3.3")
    async def test_r3_03_recursion_is_bounded(self, trial: Trial) -> None:
        """request(1) in each on_next does not run the next on_next inside, beyond the bound."""
        bound = max(1, self.recursion_bound)
        needed = bound + 1
        self.check_needs(elements=needed)
        n = self.up_to(max(_LEVELS, needed))
        subscriber = await self.opened(trial, n, on_next=lambda me: me.request(1))
        subscriber.request(1)
        await trial.until(lambda: len(subscriber.elements) >= n or subscriber.terminated)
        if subscriber.depth > bound:
            violated(
                "3.3",
                f"on_next ran {subscriber.depth} deep inside of on_next, and the bound is {bound}",
            )
        if len(subscriber.elements) < needed:
            not_decided(f"there were only {len(subscriber.elements)} elements", "the set-up")

    @optional("3.4", elements=_MANY)
    async def test_r3_04_large_demand_starves_nobody(self, trial: Trial) -> None:
        """With a demand of 2**63 - 1, other tasks run before the stream of 5000 ends."""
        subscriber = await self.opened(trial, _MANY)
        subscriber.request(MAX_DEMAND)
        if len(subscriber.elements) == _MANY:
            violated("3.4", f"request(2**63 - 1) signalled {_MANY} elements before it returned")
        idle = 0
        while idle < _IDLE_TURNS:
            before = len(subscriber.elements)
            if before == _MANY:
                return
            await trio.lowlevel.checkpoint()
            came = len(subscriber.elements) - before
            if came == _MANY:
                violated("3.4", f"no other task ran while it signalled {_MANY} elements")
            idle = 0 if came else idle + 1
        not_decided(f"only {len(subscriber.elements)} of {_MANY} elements came in time", None)

    @required("3.8", elements=4)
    async def test_r3_08_demand_adds_up(self, trial: Trial) -> None:
        """Requests of 2 and 1 elements in one on_next bring three more."""

        def request_twice(me: ManualSubscriber) -> None:
            if len(me.elements) == 1:
                me.request(2)
                me.request(1)

        subscriber = await self.opened(trial, self.up_to(10), on_next=request_twice)
        subscriber.request(1)
        await trial.until(lambda: len(subscriber.elements) >= 4)
        if len(subscriber.elements) == 1:
            not_decided("a request from inside of on_next has no effect", "rule 3.2")
        if len(subscriber.elements) < 4:
            violated(
                "3.8",
                f"request(1), then request(2) and request(1): {len(subscriber.elements)} elements"
                " of the 4 that were requested",
            )

    @required("3.9", elements=1)
    async def test_r3_09_request_of_zero_signals_on_error(self, trial: Trial) -> None:
        """request(0) is answered by on_error with a ValueError."""
        await self._check_illegal(trial, 0)

    @required("3.9", elements=1)
    async def test_r3_09_negative_request_signals_on_error(self, trial: Trial) -> None:
        """request(-1) and request(-2**63) are answered by on_error with a ValueError."""
        for n in (-1, -(2**63)):
            await self._check_illegal(trial, n)

    async def _check_illegal(self, trial: Trial, n: int) -> None:
        subscriber = await self._with_illegal_request(trial, n)
        if not subscriber.errors:
            after = [
                *subscriber.signals,
                *(f"{call} raised {e!r}" for call, e in subscriber.raised),
            ]
            violated("3.9", f"request({n}) was not answered by on_error; there was {after}")
        if not isinstance(subscriber.errors[0], ValueError):
            violated(
                "3.9", f"request({n}) has to signal a ValueError, not {subscriber.errors[0]!r}"
            )

    async def _with_illegal_request(self, trial: Trial, n: Any) -> ManualSubscriber:
        subscriber = await self.opened(trial, self.up_to(10))
        subscriber.request(n)
        await trial.until(lambda: subscriber.terminated)
        return subscriber

    @optional("3.9", elements=1)
    async def test_r3_09_error_says_what_is_wrong(self, trial: Trial) -> None:
        """The text of that error speaks of rule 3.9, or of a number that is not positive."""
        subscriber = await self._with_illegal_request(trial, -7)
        if not subscriber.errors:
            not_decided("request(-7) was not answered by on_error", "rule 3.9")
        if not _SPEAKS_OF_IT.search(text := str(subscriber.errors[0])):
            violated("3.9", f"the text of the error, {text!r}, does not say what is wrong")

    @required("3.16", elements=3)
    async def test_r3_16_request_returns_normally(self, trial: Trial) -> None:
        """Request raises for no integer in no state: before, in and after each signal."""
        for n in (1, 2**63 - 1, 2**64, 0, -1):
            for state in ("open", "on_subscribe", "on_next", "on_complete", "ended", "cancelled"):
                subscriber = await self._with_request_in(trial, n, state)
                for call, error in subscriber.raised:
                    violated("3.16", f"{call} raised {error!r}; state: {state}")

    async def _with_request_in(self, trial: Trial, n: Any, state: str) -> ManualSubscriber:
        reactions = {state: lambda me: me.request(n)} if state.startswith("on_") else {}
        subscriber = await self.opened(trial, 3, **reactions)
        if state == "open":
            subscriber.request(n)
        subscriber.request(1)
        if state != "on_subscribe":
            subscriber.request(3)
            await trial.quiet()
        if state == "cancelled":
            subscriber.cancel()
        if state in {"ended", "cancelled"}:
            subscriber.request(n)
        await trial.quiet()
        return subscriber

    @optional("3.16", elements=1)
    async def test_r3_16_request_of_no_integer_is_a_type_error(self, trial: Trial) -> None:
        """request(1.5) and request(None) return normally; on_error gets a TypeError."""
        for n in (1.5, None):
            subscriber = await self._with_illegal_request(trial, n)
            for call, error in subscriber.raised:
                violated("3.16", f"{call} raised {error!r}")
            if not subscriber.errors or not isinstance(subscriber.errors[0], TypeError):
                violated("3.16", f"request({n!r}) signalled {subscriber.errors}, and no TypeError")

    @required("3.17", elements=_LARGE // 2)
    async def test_r3_17_large_demand_is_not_cut(self, trial: Trial) -> None:
        """One request for up to 300 elements brings all of them."""
        n = self.up_to(_LARGE)
        subscriber = await self.opened(trial, n)
        subscriber.request(n)
        if await self.filled(trial, subscriber, n):
            return
        if subscriber.terminated:
            not_decided(
                f"the stream ended after {len(subscriber.elements)} of {n} elements", "rule 1.5"
            )
        violated(
            "3.17", f"request({n}) brought only {len(subscriber.elements)} elements, and no end"
        )

    @required("3.17", elements=3)
    async def test_r3_17_demand_of_the_maximum(self, trial: Trial) -> None:
        """request(2**63 - 1), and more than that, brings all three elements."""
        for n in (MAX_DEMAND, 2**70):
            subscriber = await self.opened(trial, 3)
            subscriber.request(n)
            await self._check_all(trial, subscriber, f"request({n})")

    @required("3.17", elements=3)
    async def test_r3_17_demand_that_adds_up_to_the_maximum(self, trial: Trial) -> None:
        """Requests that add up to 2**63 - 1 bring all three elements."""

        def request_three_times(me: ManualSubscriber) -> None:
            if len(me.elements) == 1:
                for n in (MAX_DEMAND // 2, MAX_DEMAND // 2, 1):
                    me.request(n)

        subscriber = await self.opened(trial, 3, on_next=request_three_times)
        subscriber.request(1)
        await trial.until(lambda: len(subscriber.elements) >= 3)
        if len(subscriber.elements) < 3:
            control = await self.opened(trial, 3, on_next=lambda me: me.request(1))
            control.request(1)
            if not await trial.until(lambda: len(control.elements) > 1):
                not_decided("a request from inside of on_next has no effect", "rule 3.2")
        await self._check_all(trial, subscriber, "demand that adds up to 2**63 - 1")

    async def _check_all(self, trial: Trial, subscriber: ManualSubscriber, what: str) -> None:
        await trial.until(lambda: len(subscriber.elements) >= 3 or subscriber.errors)
        if len(subscriber.elements) < 3:
            violated("3.17", f"{what} brought {subscriber.signals} in place of 3 elements")

    @required("3.17", elements=3)
    async def test_r3_17_demand_beyond_the_maximum_is_no_error(self, trial: Trial) -> None:
        """Demand that adds up to more than 2**63 - 1 is no error."""
        n = self.up_to(11)
        subscriber = await self.opened(trial, n, on_next=lambda me: me.request(MAX_DEMAND - 1))
        subscriber.request(1)
        await trial.until(lambda: len(subscriber.elements) >= n or subscriber.errors)
        if subscriber.errors:
            violated("3.17", f"demand beyond 2**63 - 1 signalled {subscriber.errors[0]!r}")
