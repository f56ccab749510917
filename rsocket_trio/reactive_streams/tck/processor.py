"""The verification of processors that pass on what they get: rules 4.1, 4.2, and all others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from .declarations import Allowed, count, yes_or_no
from .driver import Driver
from .publisher import PublisherVerification
from .publisher_base import subscribe
from .sources import Source
from .subscriber import SubscriberVerification
from .subscribers import ManualSubscriber
from .trials import SignalledError, Trial, call_factory
from .verdicts import not_decided, not_declared, optional, required, violated

__all__ = ["ProcessorVerification"]


class ProcessorVerification(PublisherVerification, SubscriberVerification):
    """Verifies a processor that passes on the elements it gets: an identity processor.

    All tests of publishers are run on the processor with a correct publisher before it, and all
    tests of subscribers with a correct subscriber behind it.

    Attributes:
        buffer_size: How many elements the processor may request that nobody behind it wants.
        coordinated: Whether the slowest of several subscribers holds up the others.
        recovers: Whether the processor does not pass on_error on.
        cancels_upstream: Whether it cancels its subscription when its last subscriber cancels.
    """

    buffer_size: ClassVar[int | None] = None
    coordinated: ClassVar[bool] = False
    recovers: ClassVar[bool] = False
    cancels_upstream: ClassVar[bool] = True

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "buffer_size": count(0, or_none=True),
        "coordinated": yes_or_no,
        "recovers": yes_or_no,
        "cancels_upstream": yes_or_no,
    }

    @property
    def processor(self) -> Callable[..., Any]:
        """The factory: ``processor()`` returns a new processor. Required.

        It may have parameters ``nursery`` and ``resource``.
        """
        raise TypeError(f"{type(self).__name__} does not declare processor")

    def check_needs(
        self, *, declared: tuple[str, ...] = (), passes_errors: bool = False, **needs: Any
    ) -> None:
        """Skip the test if the processor lacks a capability that the test needs."""
        if self.recovers and (passes_errors or "failing" in declared):
            not_declared("recovers", "it is declared, so no error is passed on")
        if not self.cancels_upstream and "trigger_cancel" in declared:
            not_declared("cancels_upstream", "the processor cancels when its subscriber cancels")
        super().check_needs(declared=declared, **needs)

    def has(self, name: str) -> bool:
        """Return whether a factory or hook exists: a processor fails as what it is fed with."""
        if name == "trigger_cancel":
            return self.cancels_upstream
        return not (name == "failing" and self.recovers) and super().has(name)

    def factory_name(self, factory: Callable[..., Any]) -> str:
        """Return the name of the only factory of the user: the others call it."""
        return "processor"

    def takes_nursery(self) -> bool:
        """Return whether the factory wants the nursery of the processor's tasks."""
        return "nursery" in inspect.signature(self.processor).parameters

    async def publisher(self, n: int, nursery: Any, resource: Any) -> Any:
        """Return a processor that is fed with ``n`` elements."""
        return await self._fed(Source(n, self.element), nursery, resource)

    async def failing(self, n: int, nursery: Any, resource: Any) -> Any:
        """Return a processor that is fed with ``n`` elements, and then with an error."""
        return await self._fed(Source(n, self.element, fails=True), nursery, resource)

    async def subscriber(self, nursery: Any, resource: Any, trial: Trial) -> Any:
        """Return a processor that feeds a correct subscriber."""
        processor = await self._make(nursery, resource)
        behind = trial.subscriber()
        processor.subscribe(behind)
        self._pairs[id(processor)] = processor, behind
        return processor

    @cached_property
    def _pairs(self) -> dict[int, tuple[Any, ManualSubscriber]]:
        """Processors by id, each with the subscriber behind it. pytest allows no __init__."""
        return {}

    def trigger_request(self, subscriber: Any, n: int) -> None:
        """Request elements of the processor."""
        _, behind = self._pairs[id(subscriber)]
        if behind.subscribed:
            behind.request(n)
        else:
            behind.reactions["on_subscribe"] = lambda me: me.request(n)

    def trigger_cancel(self, subscriber: Any) -> None:
        """Cancel the subscription to the processor."""
        self._pairs[id(subscriber)][1].cancel()

    async def _make(self, nursery: Any, resource: Any) -> Any:
        made = call_factory(self.processor, nursery=nursery, resource=resource)
        if inspect.isawaitable(made):
            made = await made
        for name in ("subscribe", "on_subscribe"):
            if not hasattr(made, name):
                text = f"the factory processor returned {made!r}, which is no processor"
                violated("set-up", f"{text}: it has no {name}")
        return made

    async def _fed(self, source: Source, nursery: Any, resource: Any) -> Any:
        processor = await self._make(nursery, resource)
        source.subscribe(processor)
        return processor

    async def _between(self, trial: Trial, count: int = 1) -> tuple[Driver, list[ManualSubscriber]]:
        """A processor with subscribers behind it, and a driver that has signalled on_subscribe."""
        driver = await self.driven(trial)
        behind = [self._pairs[id(driver.subscriber)][1]]
        for _ in range(count - 1):
            behind.append(trial.subscriber())
            if (raised := subscribe(driver.subscriber, behind[-1])) is not None:
                violated("1.9", f"subscribe of subscriber {len(behind)} raised {raised!r}")
        driver.on_subscribe()
        await trial.quiet()
        return driver, behind

    async def _feed(self, trial: Trial, driver: Driver, n: int) -> None:
        """Signal elements up to ``n`` in all, as they are requested."""
        while driver.sent < n and await trial.until(lambda: driver.owed > 0):
            driver.on_next()
            await trial.quiet()

    @required("1.4", many=True, passes_errors=True)
    async def test_r1_04_error_reaches_all_subscribers(self, trial: Trial) -> None:
        """An error from upstream reaches two subscribers, one of them without demand."""
        driver, behind = await self._between(trial, 2)
        behind[0].request(1)
        await trial.quiet()
        driver.on_error(SignalledError("the publisher fails"))
        await trial.until(lambda: all(each.errors for each in behind))
        for which, subscriber in zip(("that has requested", "without demand"), behind, strict=True):
            if not subscriber.errors:
                violated(
                    "1.4", f"an error did not reach a subscriber {which}: {subscriber.signals}"
                )

    @required("2.1", many=True)
    async def test_r2_01_demand_goes_on_upstream(self, trial: Trial) -> None:
        """What was requested long ago is requested upstream, beside a subscriber without demand."""
        driver, behind = await self._between(trial, 2)
        for subscriber in behind if self.coordinated else behind[:1]:
            subscriber.request(20)
        await self._feed(trial, driver, 20)
        await trial.until(lambda: len(behind[0].elements) >= 20)
        if len(behind[0].elements) < 20:
            hint = "; if it waits for another one without demand, declare coordinated = True"
            violated(
                "2.1",
                f"of 20 elements that a subscriber requested only {driver.subscription.demand} were"
                f" requested upstream, and {len(behind[0].elements)} arrived"
                + ("" if self.coordinated else hint),
            )

    @required("4.1")
    async def test_r4_01_elements_pass_in_order(self, trial: Trial) -> None:
        """Twenty elements, requested in several steps, pass in order, and then the end."""
        driver, (behind,) = await self._between(trial)
        for n in (1, 2, 5, 12):
            behind.request(n)
            await self._feed(trial, driver, min(20, behind.requested))
        await trial.settle()
        wanted = [self.element(i) for i in range(driver.sent)]
        if behind.elements != wanted[: len(behind.elements)] or len(behind.elements) < 20:
            violated("4.1", f"the elements {wanted} came out as {behind.elements}")

    @required("4.1")
    async def test_r4_01_elements_pass_before_the_end(self, trial: Trial) -> None:
        """Elements that wait when the upstream completes are passed on before the end."""
        driver, (behind,) = await self._between(trial)
        await self._feed(trial, driver, 3)
        if not driver.sent:
            not_decided("the processor requests nothing before its subscriber does", None)
        driver.on_complete()
        await trial.settle()
        behind.request(driver.sent + 1)
        await trial.until(lambda: behind.terminated)
        if len(behind.elements) < driver.sent:
            violated(
                "4.1",
                f"{driver.sent} elements waited when the upstream completed, and"
                f" {len(behind.elements)} of them came out",
            )

    @required("4.1")
    async def test_r4_01_demand_ahead_is_bounded(self, trial: Trial) -> None:
        """It requests at most ``buffer_size`` elements that nobody behind it has requested."""
        if self.buffer_size is None:
            not_declared("buffer_size", "how many elements the processor may request ahead")
        driver, (behind,) = await self._between(trial)
        for n in (0, 3):
            if n:
                behind.request(n)
            await self._feed(trial, driver, 4 * (self.buffer_size + n) + 4)
            if (ahead := driver.subscription.demand - n) > self.buffer_size:
                violated(
                    "4.1",
                    f"with a demand of {n} it requested {ahead} elements ahead, and its buffer_size"
                    f" is {self.buffer_size}",
                )

    @optional("4.1")
    async def test_r4_01_cancel_goes_upstream(self, trial: Trial) -> None:
        """When its only subscriber cancels, the processor cancels its subscription."""
        driver, (behind,) = await self._between(trial)
        behind.cancel()
        if not await trial.until(lambda: driver.subscription.cancels):
            violated("4.1", "the only subscriber cancelled, and the upstream was not cancelled")

    @required("4.2")
    async def test_r4_02_error_is_passed_on_at_once(self, trial: Trial) -> None:
        """An error from upstream is passed on without any demand, or the processor recovers."""
        driver, (behind,) = await self._between(trial)
        error = SignalledError("the publisher fails")
        driver.on_error(error)
        await trial.until(lambda: behind.terminated)
        if not self.recovers:
            if not behind.errors:
                violated("4.2", f"an error from upstream was not passed on: {behind.signals}")
            if behind.errors[0] is not error:
                violated("4.2", f"{error!r} from upstream was passed on as {behind.errors[0]!r}")
            return
        behind.request(1)
        await trial.settle()
        if late := driver.subscription.late_requests:
            violated("4.2", f"after it recovered from on_error, it requested {late} elements of it")
