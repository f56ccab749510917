"""What a user declares about a publisher, and what the tests of publishers share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

from ..interfaces import Publisher
from .declarations import Allowed, count, one_of, yes_or_no
from .steps import watched
from .subscribers import ManualSubscriber
from .trials import Trial, Verification
from .verdicts import not_decided, not_declared, violated

__all__ = ["MAX_DEMAND", "PublisherTests", "subscribe"]

MAX_DEMAND = 2**63 - 1
"""The demand that a publisher has to support (rule 3.17)."""


class PublisherTests(Verification):
    """The factories and capabilities of a publisher.

    Attributes:
        max_elements: The largest ``n`` of these factories. None: any number.
        completes: Whether the streams end with on_complete.
        recursion_bound: How deep on_next may run inside of on_next; 1 is no recursion.
        subscribers: Whether one publisher serves ``"one"`` subscriber, or ``"many"``.
        multicast: Whether all subscribers that are there before the first request get the same
            elements.
        on_subscribe_later: Whether on_subscribe comes only after subscribe has returned.
    """

    max_elements: ClassVar[int | None] = None
    completes: ClassVar[bool] = True
    recursion_bound: ClassVar[int] = 1
    subscribers: ClassVar[Literal["one", "many"]] = "many"
    multicast: ClassVar[bool] = False
    on_subscribe_later: ClassVar[bool] = False

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "max_elements": count(0, or_none=True),
        "completes": yes_or_no,
        "recursion_bound": count(1),
        "subscribers": one_of("one", "many"),
        "multicast": yes_or_no,
        "on_subscribe_later": yes_or_no,
    }

    @property
    def publisher(self) -> Callable[..., Any]:
        """The factory: ``publisher(n)`` returns a publisher of exactly ``n`` elements. Required.

        A class declares it as a method, or as a `staticmethod`.
        """
        raise TypeError(f"{type(self).__name__} does not declare publisher")

    @property
    def failing(self) -> Callable[..., Any] | None:
        """A factory: ``failing(n)`` returns a publisher of ``n`` elements that then fails."""
        return None

    async def make_failing(self, trial: Trial, n: int) -> Any:
        """Call `failing`, which the class declares.

        Checkpoint: only if the factory is an async function.
        If cancelled: as the factory.
        """
        assert self.failing is not None
        return await trial.make(self.failing, n)

    def check_needs(
        self,
        *,
        declared: tuple[str, ...] = (),
        elements: int = 0,
        completes: bool = False,
        many: bool = False,
        multicast: bool = False,
        **needs: Any,
    ) -> None:
        """Skip the test if the publisher lacks a capability that the test needs."""
        super().check_needs(declared=declared, **needs)
        if elements and self.max_elements is not None and elements > self.max_elements:
            not_declared("max_elements", f"the test needs {elements} elements")
        if completes and not self.completes:
            not_declared("completes", "the stream ends with on_complete")
        if many and self.subscribers != "many":
            not_declared("subscribers", "the publisher serves many subscribers")
        if multicast and not self.multicast:
            not_declared("multicast", "all subscribers get the same elements")

    def up_to(self, n: int) -> int:
        """Return ``n``, or how many elements the publisher can give, if that is less."""
        return n if self.max_elements is None else min(n, self.max_elements)

    def takes_nursery(self) -> bool:
        """Return whether the factory wants the nursery of the publisher's tasks."""
        return "nursery" in inspect.signature(self.publisher).parameters

    async def opened(
        self, trial: Trial, n: int, **reactions: Callable[[ManualSubscriber], None]
    ) -> ManualSubscriber:
        """Subscribe a new subscriber to a new publisher of ``n`` elements.

        Checkpoint: always.
        If cancelled: the subscriber may have been subscribed.
        """
        publisher = await trial.make(self.publisher, n)
        return await self.joined(trial, publisher, **reactions)

    async def joined(
        self,
        trial: Trial,
        publisher: Publisher[Any],
        **reactions: Callable[[ManualSubscriber], None],
    ) -> ManualSubscriber:
        """Subscribe a new subscriber to a publisher, and wait for on_subscribe.

        Checkpoint: always.
        If cancelled: the subscriber may have been subscribed.
        """
        subscriber = trial.subscriber(**reactions)
        raised = subscribe(publisher, subscriber)
        if raised is not None:
            violated("1.9", f"subscribe raised {raised!r}")
        if not await trial.until(lambda: subscriber.subscribed):
            not_decided("on_subscribe was not called", "rule 1.9")
        return subscriber

    async def drained(self, trial: Trial, subscriber: ManualSubscriber, n: int) -> None:
        """Request ``n`` elements one by one, each after the one before, then one more.

        Checkpoint: always.
        If cancelled: some have been requested.
        """
        for number in range(1, n + 2):
            if subscriber.terminated:
                break
            subscriber.request(1)
            await trial.until(partial(subscriber.has, number))

    async def filled(self, trial: Trial, subscriber: ManualSubscriber, n: int) -> bool:
        """Wait for ``n`` elements or the end, while elements come. Return whether there are ``n``.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        before = -1
        while before < len(subscriber.elements):
            before = len(subscriber.elements)
            if await trial.until(partial(subscriber.has, n)):
                break
        return len(subscriber.elements) >= n


def subscribe(publisher: Any, subscriber: Any) -> Exception | None:
    """Subscribe. Return what subscribe raised."""
    name = "subscribe(subscriber)"  # noqa: F841 - `watched` reads it
    try:
        publisher.subscribe(subscriber)
    except Exception as error:  # any kind: rule 1.9 is judged by what it was
        return error
    return None


watched(subscribe.__code__, "name")
