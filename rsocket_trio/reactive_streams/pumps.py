"""Publishers of what comes later: `from_async_iterable`, `from_channel`.

Each subscription has a task, which lives in the nursery that is given: it takes an element from the
source when one is requested, and closes the source. Nothing of that task ever reaches the nursery:
an error of the source is ``on_error``, and a subscriber that raises loses its subscription. If the
nursery is cancelled, the subscribers get `SourceClosed`; if it is closed, new ones do.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import Final, Generic, TypeVar

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..entrance import Home, not_at_home
from ..errors import single_error
from ..log_policy import logger
from ..one_waiter import OneWaiter
from .checks import check_nursery, check_subscriber, null_element
from .errors import AlreadySubscribed, SourceClosed
from .interfaces import Subscriber
from .iterating import IterablePublisher, close_iterator
from .queued_emission import QueueEmission

__all__ = ["PumpedPublisher", "from_async_iterable", "from_channel", "start_in"]

T = TypeVar("T")

Open = Callable[[], AbstractAsyncContextManager[AsyncIterator[T]]]

_IN_A_ROW: Final = 64
"""Elements in a row before other tasks run, from a source that has no checkpoints."""


def from_async_iterable(
    source: AsyncIterable[T] | Callable[[], AsyncIterable[T]], nursery: trio.Nursery
) -> IterablePublisher[T]:
    """Make a publisher of the elements of an async iterable.

    Each subscriber gets an iteration of its own, in a task of its own, which closes the iterator
    (``aclose``) at the end. The source is asked for an element only when one is requested. So it
    completes with the first request behind its last element.

    Args:
        source: An async iterable, or a function that returns one for each subscriber, for example
            an async generator function. An iterator, for example a generator object, can be
            subscribed to once.
        nursery: The owner of the tasks.

    Raises:
        TypeError: ``nursery`` is no nursery.
    """
    check_nursery("from_async_iterable()", nursery)
    once = _Once(source)

    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncIterator[T]]:
        made = source if isinstance(source, AsyncIterable) or not callable(source) else source()
        iterator = aiter(made)
        once.check(iterator)
        try:
            yield iterator
        finally:
            await close_iterator(iterator)

    return PumpedPublisher(opened, nursery)


def from_channel(
    channel: trio.abc.ReceiveChannel[T], nursery: trio.Nursery
) -> IterablePublisher[T]:
    """Make a publisher of the elements of a channel. One subscriber gets them, and no other.

    An element is received only when one is requested. The channel is closed at the end of the
    subscription, however early that is, so nobody waits for a receiver that is gone.

    Args:
        channel: A memory channel, a `PayloadStream`, or any other.
        nursery: The owner of the task.

    Raises:
        TypeError: ``nursery`` is no nursery.
    """
    check_nursery("from_channel()", nursery)
    once = _Once(channel)

    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncIterator[T]]:
        once.check(channel)
        async with channel:
            yield channel

    return PumpedPublisher(opened, nursery, owned=True)


class _Once:
    """Sees to it that an iterator is given to one subscriber."""

    def __init__(self, source: object) -> None:
        self._source = source
        self._given = False

    def check(self, iterator: object) -> None:
        if iterator is self._source:
            if self._given:
                raise AlreadySubscribed(
                    f"this {type(iterator).__name__} has been given to another subscriber"
                )
            self._given = True


class PumpedPublisher(IterablePublisher[T]):
    """A publisher with a task for each subscription.

    Args:
        opened: Opens the source for one subscriber, in its task.
        nursery: The owner of the tasks.
        ahead: Take one element before it is requested. So the end of the source is seen without
            one more request.
        owned: Open the source even if the subscription is over already, so that it is closed.
    """

    def __init__(
        self,
        opened: Open[T],
        nursery: trio.Nursery,
        *,
        ahead: bool = False,
        owned: bool = False,
    ) -> None:
        if not callable(getattr(nursery, "start_soon", None)):
            raise TypeError(f"nursery= takes a trio.Nursery, not {type(nursery).__name__}")
        self._open = opened
        self._nursery = nursery
        self._ahead = ahead
        self._owned = owned

    def subscribe(self, subscriber: Subscriber[T], /) -> None:
        """See `Publisher.subscribe`."""
        check_subscriber(subscriber)
        pump = _Pump(subscriber, self._open, ahead=self._ahead, owned=self._owned)
        failure = start_in(self._nursery, pump.run, "this publisher")
        if failure is None:
            pump.emission.start()
        else:
            pump.emission.start_ended(failure)


def start_in(
    nursery: trio.Nursery, work: Callable[[], Awaitable[object]], what: str
) -> Exception | None:
    """Start the task of a subscription; return why this is not possible, for ``on_error``.

    Args:
        nursery: Its owner.
        work: What it does.
        what: Whose nursery it is, e.g. ``"this publisher"``.
    """
    if not trio.lowlevel.in_trio_run():
        return SourceClosed("this is not the thread of trio")
    root = nursery.parent_task
    while root.parent_nursery is not None:
        root = root.parent_nursery.parent_task
    if root is not trio.lowlevel.current_root_task():
        return not_at_home(what)
    try:
        nursery.start_soon(work, name=f"a task of {what}")
    except RuntimeError:  # of trio: it is closed to new arrivals
        return SourceClosed(f"the nursery of {what} has ended")
    return None


class _Pumped(QueueEmission[T]):
    """The subscription to a source with a task, which only its own trio run may wake."""

    __slots__ = ("_home",)

    def __init__(
        self,
        subscriber: Subscriber[T],
        *,
        on_request: Callable[[int], object],
        on_end: Callable[[], object],
    ) -> None:
        super().__init__(subscriber, on_request=on_request, on_end=on_end)
        self._home = Home()

    def request(self, n: int, /) -> None:
        """See `Subscription.request`.

        Raises:
            RuntimeError: The caller is in another thread than the task.
        """
        if self.active:
            self._home.check("this subscription")
        super().request(n)

    def cancel(self) -> None:
        """See `Subscription.cancel`.

        Raises:
            RuntimeError: The caller is in another thread than the task.
        """
        if self.active:
            self._home.check("this subscription")
        super().cancel()


class _Pump(OneWaiter, Generic[T]):
    """The task of one subscription.

    Attributes:
        emission: The subscription.
    """

    __slots__ = ("_ahead", "_open", "_owned", "_scope", "_task", "emission")

    def __init__(
        self, subscriber: Subscriber[T], opened: Open[T], *, ahead: bool, owned: bool
    ) -> None:
        self._task = None
        self._open = opened
        self._ahead = ahead
        self._owned = owned
        self._scope = trio.CancelScope()
        self.emission = _Pumped(subscriber, on_request=self._requested, on_end=self._scope.cancel)

    def _requested(self, _n: int) -> None:
        self._wake()

    async def run(self) -> None:
        """Send the elements of the source, then the last signal. Only cancellations leave it."""
        emission = self.emission
        try:
            with self._scope:
                try:
                    await self._send()
                except Exception:  # of the source: handled below
                    raise
                except BaseException as error:  # a cancellation: it goes on
                    # If our scope is cancelled, the subscription is over, and this does nothing.
                    emission.end(SourceClosed(_why_closed(error)))
                    raise
        except Exception as error:  # of the source (rule 1.4)
            self._failed(error)
        except BaseExceptionGroup as group:  # of a source with a nursery
            failures, rest = group.split(Exception)
            if failures is not None:
                self._failed(failures)
            if rest is not None:
                raise rest from None
        else:
            emission.close()

    def _failed(self, error: Exception) -> None:
        if self.emission.active:
            alone = single_error(error)
            self.emission.close(alone if isinstance(alone, Exception) else error)
        else:
            logger.error("closing the source of a publisher failed", exc_info=error)

    async def _send(self) -> None:
        emission = self.emission
        demand = emission.demand
        queue = emission.queue
        push = emission.push
        burst = 0
        if not self._owned:
            await checkpoint_if_cancelled()
        async with self._open() as iterator:
            await checkpoint_if_cancelled()
            take = iterator.__anext__
            while True:
                while queue if self._ahead else not demand.outstanding:
                    burst = 0
                    await self._until_woken()
                try:
                    element = await take()
                except StopAsyncIteration:
                    return
                if element is None:
                    raise null_element()
                push(element)
                del element
                if not emission.active:
                    return
                burst += 1
                if burst >= _IN_A_ROW:
                    burst = 0
                    await checkpoint()


def _why_closed(error: BaseException) -> str:
    """Say what has ended the task of a source that did not fail with an `Exception`."""
    if trio.current_effective_deadline() == -inf:
        return "the nursery of this publisher was cancelled"
    if isinstance(error, trio.Cancelled):
        return (
            "the source was cancelled by a scope of its own, e.g. one around a yield whose time "
            "was over while the source waited for a request"
        )
    return f"the source raised {type(error).__name__}"
