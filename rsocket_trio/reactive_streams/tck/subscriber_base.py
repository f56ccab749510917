"""What a user declares about a subscriber, and what the tests of subscribers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .driver import Capture, Driver
from .trials import Trial, Verification
from .verdicts import not_decided, violated

__all__ = ["SubscriberTests"]


class SubscriberTests(Verification):
    """The factories and hooks of a subscriber."""

    @property
    def subscriber(self) -> Callable[..., Any]:
        """The factory: ``subscriber()`` returns a new subscriber. Required.

        If it has a parameter ``publisher``, it gets one, and may start what subscribes to it.
        """
        raise TypeError(f"{type(self).__name__} does not declare subscriber")

    @property
    def limited(self) -> Callable[..., Any] | None:
        """A factory: ``limited(n)`` returns a subscriber that needs only ``n`` elements."""
        return None

    @property
    def trigger_request(self) -> Callable[..., Any] | None:
        """A hook: ``trigger_request(subscriber, n)`` makes it request ``n`` elements.

        Omit it if the subscriber requests by itself.
        """
        return None

    @property
    def trigger_cancel(self) -> Callable[..., Any] | None:
        """A hook: ``trigger_cancel(subscriber)`` makes it cancel."""
        return None

    async def driven(
        self, trial: Trial, factory: Callable[..., Any] | None = None, *arguments: Any
    ) -> Driver:
        """Make a subscriber and its driver. Nothing is signalled.

        Checkpoint: always.
        If cancelled: the subscriber may have been made.
        """
        publisher = Capture()
        made = await trial.make(factory or self.subscriber, *arguments, publisher=publisher)
        await trial.until(lambda: publisher.subscriber is not None or hasattr(made, "on_subscribe"))
        subscriber = publisher.subscriber if publisher.subscriber is not None else made
        if not hasattr(subscriber, "on_subscribe"):
            violated("set-up", f"the factory gave {made!r}, and nobody has subscribed")
        return Driver(subscriber, publisher, self.element)

    async def joined_driver(
        self, trial: Trial, factory: Callable[..., Any] | None = None, *arguments: Any
    ) -> Driver:
        """Make a subscriber and its driver, and signal on_subscribe.

        Checkpoint: always.
        If cancelled: the subscriber may have been made.
        """
        driver = await self.driven(trial, factory, *arguments)
        driver.on_subscribe()
        await trial.quiet()
        return driver

    async def demanded(self, trial: Trial, driver: Driver, n: int = 1) -> None:
        """Bring about a demand for at least one element.

        Checkpoint: always.
        If cancelled: it may have been requested.
        """
        if driver.owed < n and self.trigger_request is not None:
            self.trigger_request(driver.subscriber, n)
        if not await trial.until(lambda: driver.owed > 0):
            not_decided("the subscriber requests nothing", "rule 2.1")
