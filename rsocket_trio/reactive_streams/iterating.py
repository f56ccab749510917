"""Read a publisher with ``async for``: `open_iter`, `iterate`, and the mixin `IterablePublisher`.

There is no task and no async generator: a subscriber keeps the elements, and the task that reads
takes them from it. The demand is a window (``prefetch``) that moves with the reader.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any, Final, Generic, TypeVar, cast, final

import attrs
import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..sealed import Sealed, make
from .demand import MAX_DEMAND
from .inbox import ElementInbox
from .interfaces import Publisher
from .unread import ElementCounter

__all__ = [
    "NOTHING_TO_COUNT",
    "ElementStatistics",
    "ElementStream",
    "IterablePublisher",
    "check_prefetch",
    "close_iterator",
    "counted",
    "iterate",
    "iterator_over",
    "open_iter",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PREFETCH: Final = 64
"""Elements that are requested ahead of the reader. With fewer, each request has fewer elements."""

_IN_A_ROW: Final = 64
"""Elements in a row before other tasks run."""


@attrs.frozen(kw_only=True)
class ElementStatistics:
    """Numbers about an `ElementStream`.

    Attributes:
        received: The number of elements that have arrived.
        unread: The number of elements that have arrived and are unread.
        outstanding: The number of elements that are requested and have not arrived.
    """

    received: int
    unread: int
    outstanding: int


@final
class ElementStream(
    trio.abc.ReceiveChannel[T],
    Generic[T],
    metaclass=Sealed,
    given="open_iter and iterate give one",
):
    """The elements of a publisher, in order. Iterate over it; it is a `trio.abc.ReceiveChannel`.

    One task reads it at a time. Closing it before its end cancels the subscription. Elements that
    have arrived are delivered before the end or the error.
    """

    __slots__ = ("_burst", "_inbox", "_publisher", "_queue")

    def __init__(self, inbox: ElementInbox[T], publisher: Publisher[T] | None) -> None:
        self._inbox = inbox
        self._publisher = publisher  # subscribed to by the first item
        self._queue = inbox.queue
        self._burst = 0

    def __aiter__(self) -> ElementStream[T]:
        return self

    async def __anext__(self) -> T:
        """Return the next element.

        Checkpoint: every element is a cancellation point; other tasks run whenever this has to
        wait, and after every 64 elements at least.
        If cancelled: no element is lost.
        """
        if self._queue and self._burst < _IN_A_ROW:
            await checkpoint_if_cancelled()
            self._burst += 1
            return self._inbox.pop()
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> T:
        """Receive the next element.

        Raises:
            trio.EndOfChannel: The publisher is complete, and all elements have been received.
            TooManyElements: The publisher sent more than was requested.
            trio.ClosedResourceError: This was closed here.
            trio.BusyResourceError: Another task is receiving.
            RuntimeError: The caller is in another thread than the publisher. This holds for each
                method of this class that does something.
            Exception: The error that the publisher signalled.

        Checkpoint: always.
        If cancelled: no element is lost.
        """
        self._burst = 0
        self._subscribe()
        await self._inbox.wait()
        return self._inbox.pop()

    def receive_nowait(self) -> T:
        """Receive an element that has arrived already.

        Raises:
            trio.WouldBlock: There is no element yet.
            trio.EndOfChannel: As `receive`, and its other errors.
        """
        self._inbox.check_home()
        self._subscribe()
        self._inbox.check()
        if not self._queue:
            raise trio.WouldBlock
        return self._inbox.pop()

    def follow(self, demand: Callable[[], int]) -> None:
        """Request only as many elements as someone else demands; call it before the first element.

        Elements are requested when the reader has none left and waits for one: ``demand()`` of
        them, but at least one, and at most ``prefetch``. So the source is at most one element
        ahead of that demand. Of large elements fewer are requested: about 64 KiB of them, but one
        of any size; and at first one, then twice as many each time.

        Args:
            demand: Returns how many elements may be passed on now.
        """
        self._inbox.check_home()
        self._inbox.follow(demand)

    async def receive_many(self, limit: int | None = None) -> list[T]:
        """Receive all elements that have arrived; wait only if there is none.

        Args:
            limit: The largest number of elements to return; by default there is no limit.

        Returns:
            At least one element.

        Raises:
            trio.EndOfChannel: As `receive`, and its other errors.
            ValueError: ``limit`` is less than 1.

        Checkpoint: always.
        If cancelled: no element is lost.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self._burst = 0
        self._subscribe()
        await self._inbox.wait()
        pop = self._inbox.pop
        here = len(self._queue)
        return [pop() for _ in range(here if limit is None else min(limit, here))]

    def request_n(self, n: int) -> None:
        """Request ``n`` more elements; only with ``prefetch=0``. After the end it does nothing.

        Raises:
            ValueError: ``n`` is less than 1, more than 2**63-1, or the demand is automatic.
            TypeError: ``n`` is no integer.
            trio.ClosedResourceError: This was closed here.
        """
        self._inbox.check_home()
        if self._inbox.closed:
            raise trio.ClosedResourceError("this iteration was closed here")
        check_prefetch(n, "n")
        if self._inbox.window:
            raise ValueError(
                "the demand of this iteration is automatic: open it with prefetch=0 for request_n"
            )
        self._inbox.request(n)

    def close(self) -> None:
        """Stop reading: cancel the subscription, and drop what is unread."""
        if not self._inbox.closed:
            self._inbox.check_home()
        self._publisher = None
        self._inbox.close()

    async def aclose(self) -> None:
        """`close`, and a checkpoint.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        self.close()
        await checkpoint()

    def statistics(self) -> ElementStatistics:
        """Return numbers about this iteration, for humans and tests."""
        inbox = self._inbox
        return ElementStatistics(
            received=inbox.received, unread=len(inbox.queue), outstanding=inbox.outstanding
        )

    def _subscribe(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            try:
                publisher.subscribe(self._inbox)
            except BaseException:  # nothing will arrive, so the next call must not wait
                self._inbox.close()
                raise

    def __del__(self) -> None:
        # After `break` in an `async for` nobody closes the iterator. The publisher refers to the
        # inbox only, so the subscription ends here (rule 2.6). Another thread must not signal.
        if not self._inbox.ended and self._inbox.at_home and trio.lowlevel.in_trio_run():
            self._inbox.close()


@asynccontextmanager
async def open_iter(
    publisher: Publisher[T], prefetch: int = PREFETCH, *, limit: int | None = None
) -> AsyncIterator[ElementStream[T]]:
    """Subscribe to a publisher, and read its elements; leaving the block cancels.

    Args:
        publisher: What to read.
        prefetch: The largest number of elements that are requested or unread. More are requested
            whenever a quarter of them has been read. 0: only `ElementStream.request_n` requests.
        limit: The number of elements to request altogether. The iteration ends behind them, and
            the subscription is cancelled when the last of them arrives. By default there is none.

    Raises:
        ValueError: ``prefetch`` is less than 0, ``limit`` less than 1, or one more than 2**63-1.
        TypeError: One of them is no integer, or ``publisher`` is no publisher.

    Checkpoint: entering is a cancellation point; leaving never waits.
    If cancelled: the subscription is cancelled.
    """
    stream = _stream(publisher, prefetch, limit)
    try:
        await checkpoint_if_cancelled()
        stream._subscribe()  # noqa: SLF001 - of this module
        yield stream
    finally:
        stream.close()


def iterate(
    publisher: Publisher[T], prefetch: int = PREFETCH, *, limit: int | None = None
) -> ElementStream[T]:
    """Return an async iterator over a publisher; it subscribes when the first element is read.

    Close it with ``aclose`` if it is not read to its end; `open_iter` does so by itself. See there
    for the arguments and errors.
    """
    return _stream(publisher, prefetch, limit)


def iterator_over(source: AsyncIterable[T] | Publisher[T]) -> AsyncIterator[T]:
    """Return an iterator over an async iterable, or over a publisher that is none.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(source, AsyncIterable) or not callable(getattr(source, "subscribe", None)):
        return aiter(cast("AsyncIterable[T]", source))
    return iterate(source)


NOTHING_TO_COUNT: Final = nullcontext()
"""`counted` for an iterator that has no elements but the one that it has given."""


def counted(iterator: object, counter: ElementCounter | None) -> AbstractContextManager[None]:
    """Have elements of a publisher counted that are here, or arrive, for the time of the block.

    For whoever passes them on, and has to wait before the next one. Other iterators have none here.

    Raises:
        Exception: When the block is entered: there is too much, says the counter.
    """
    if counter is None or not isinstance(iterator, ElementStream):
        return NOTHING_TO_COUNT
    return _counted(iterator, counter)


@contextmanager
def _counted(stream: ElementStream[Any], counter: ElementCounter) -> Iterator[None]:
    inbox = stream._inbox  # noqa: SLF001 - of this module
    failure = inbox.count_with(counter)
    if failure is not None:
        raise failure
    try:
        yield
    finally:
        inbox.count_no_more(counter)


async def close_iterator(iterator: object) -> None:
    """Close a generator or a channel, if it can be closed. Safe to call twice."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is None:
        return
    try:
        await cast("Awaitable[object]", aclose())
    except BaseExceptionGroup as group:  # a nursery around `yield` wraps the `GeneratorExit`
        _, rest = group.split(GeneratorExit)
        if rest is not None:
            raise rest from None


def check_prefetch(value: object, name: str, *, least: int = 1) -> None:
    """Check a number of elements.

    Raises:
        ValueError: It is less than ``least``, or more than 2**63-1.
        TypeError: It is no integer.
    """
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if not least <= value <= MAX_DEMAND:
        raise ValueError(f"{name} must be from {least} to 2**63-1, not {value}")


def _stream(publisher: Publisher[T], prefetch: int, limit: int | None) -> ElementStream[T]:
    if not callable(getattr(publisher, "subscribe", None)):
        raise TypeError(f"{type(publisher).__name__} is no Publisher: it has no subscribe()")
    check_prefetch(prefetch, "prefetch", least=0)
    if limit is not None:
        check_prefetch(limit, "limit")
    return make(ElementStream, ElementInbox(prefetch, limit), publisher)


class IterablePublisher(Publisher[T_co]):
    """A publisher that ``async for`` can read: the base class of the publishers of this package.

    A subclass has ``subscribe``. The iteration is `iterate` with its usual prefetch.
    """

    __slots__ = ()

    def __aiter__(self) -> ElementStream[T_co]:
        return iterate(self)
