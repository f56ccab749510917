"""Publishers whose elements all have one size: `fixed_size`.

Over rsio the size is sent once, elements have no length, and those that are ready at the same time
leave in one message.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Any, Final, Protocol, TypeAlias, final

from ..field_checks import COUNT, FLAG, argument
from ..reactive_streams.checks import (
    check_element,
    check_error,
    check_subscriber,
    check_subscription,
    iterator_of,
)
from ..reactive_streams.emission import EMISSION_BUDGET, Emission, own_traceback
from ..reactive_streams.interfaces import Publisher, Subscriber, Subscription
from ..reactive_streams.iterating import IterablePublisher

__all__ = ["ElementSource", "FixedSizePublisher", "fixed_size"]

ElementSource: TypeAlias = Publisher[bytes] | Iterable[bytes] | Callable[[], Iterable[bytes]]
"""Where `fixed_size` gets elements, or blocks of them, from."""

_LISTS: Final[frozenset[type]] = frozenset((type(iter([])), type(iter(()))))
"""Iterators that know how many elements are left."""

_BLOCK_SIZE: Final = 64 * 2**10
"""The octets of a block that is made of elements, and those sent before other tasks run."""


def fixed_size(source: ElementSource, size: int, *, packed: bool = False) -> FixedSizePublisher:
    """Make a publisher whose elements all have ``size`` octets.

    Args:
        source: Where the elements come from: a publisher, an iterable (of which each subscriber
            gets an iteration of its own), or a function that returns an iterable. For an async
            iterable, give `rsocket_trio.reactive_streams.from_async_iterable`.
        size: The octets of each element, at least 1.
        packed: The source gives blocks: whole numbers of elements, one behind the other. Each
            block counts as its elements, and may be sent in several parts as they are requested.

    Raises:
        TypeError: The source is nothing of this kind, or the size is no integer.
        ValueError: The size is less than 1.
    """
    argument("size", size, COUNT)
    argument("packed", packed, FLAG)
    given: object = source
    if isinstance(given, AsyncIterable) and not hasattr(given, "subscribe"):
        raise TypeError(
            "an async iterable needs a task: give from_async_iterable(source, nursery) in its place"
        )
    known = hasattr(given, "subscribe") or callable(given) or isinstance(given, Iterable)
    if not known or isinstance(given, bytes | bytearray | memoryview | str):
        raise TypeError(f"a publisher or an iterable is needed, not {type(source).__name__}")
    return FixedSizePublisher(source, size, packed=packed)


@final
class FixedSizePublisher(IterablePublisher[bytes]):
    """A publisher of elements of one size; see `fixed_size`.

    Attributes:
        element_size: The octets of each element.
    """

    __slots__ = ("_packed", "_source", "element_size")

    def __init__(self, source: ElementSource, size: int, *, packed: bool) -> None:
        self._source: Any = source
        self._packed = packed
        self.element_size = size

    def subscribe(self, subscriber: Subscriber[bytes], /) -> None:
        """See `rsocket_trio.reactive_streams.Publisher.subscribe`."""
        check_subscriber(subscriber)
        self._begin(subscriber, packed=False)

    def subscribe_packed(self, subscriber: Subscriber[bytes], /) -> None:
        """Subscribe to blocks: each element of ``on_next`` is a block of one element or more.

        The demand still counts elements, and a block has no more than were requested.
        """
        check_subscriber(subscriber)
        self._begin(subscriber, packed=True)

    def _begin(self, subscriber: Subscriber[bytes], *, packed: bool) -> None:
        size = self.element_size
        if hasattr(self._source, "subscribe"):
            if self._packed:
                self._source.subscribe(_BlockRelay(subscriber, size, packed=packed))
            else:
                self._source.subscribe(_Checked(subscriber, size))
            return
        blocks: _Blocks
        try:
            iterator = iterator_of(self._source() if callable(self._source) else self._source)
            blocks = _Cut(iterator, size) if self._packed else _Joined(iterator, size)
        except Exception as error:  # of the source: it is a signal (rule 1.9)
            blocks = _Failed(own_traceback(error))
        _BlockEmission(subscriber, blocks, size, packed=packed).start()


class _Blocks(Protocol):
    """A source of blocks."""

    @property
    def exhausted(self) -> bool:
        """Whether the end is known already."""

    def take(self, count: int) -> bytes:
        """Return at most ``count`` elements; nothing at the end."""

    def close(self) -> None:
        """Let go of the source."""


class _Joined:
    """Elements, which are put together."""

    def __init__(self, elements: Iterator[bytes], size: int) -> None:
        self._elements = elements
        self._size = size
        self._failure: Exception | None = None  # it comes behind the elements before it

    def take(self, count: int) -> bytes:
        elements: list[bytes] = []
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        size = self._size
        try:
            elements.extend(islice(self._elements, count))
        except Exception as error:  # of the source: raised by this or the next call
            self._failure = own_traceback(error)
        sizes = set(map(len, elements))
        if sizes and sizes != {size}:
            at = next(at for at, element in enumerate(elements) if len(element) != size)
            self._failure = _wrong_size(len(elements[at]), size)
            del elements[at:]
        if not elements and self._failure is not None:
            return self.take(count)
        return b"".join(elements)

    @property
    def exhausted(self) -> bool:
        """Whether the end is known already."""
        return type(self._elements) in _LISTS and not length_hint(self._elements)

    def close(self) -> None:
        close = getattr(self._elements, "close", None)
        if close is not None:
            close()


class _Cut:
    """Blocks, which are cut if fewer elements are wanted."""

    def __init__(self, blocks: Iterator[Any], size: int) -> None:
        self._blocks = blocks
        self._size = size
        self._rest = memoryview(b"")

    def take(self, count: int) -> bytes:
        rest = self._rest
        wanted = count * self._size
        while not rest:
            block = next(self._blocks, None)
            if block is None:
                return b""
            rest = _checked(block, self._size)
            if type(block) is bytes and 0 < len(block) <= wanted:
                return block
        self._rest = rest[wanted:]
        return bytes(rest[:wanted])

    @property
    def exhausted(self) -> bool:
        """Whether the end is known already."""
        return not self._rest and type(self._blocks) in _LISTS and not length_hint(self._blocks)

    def close(self) -> None:
        self._rest = memoryview(b"")
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()


class _Failed:
    """A source that could not be opened."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.exhausted = False

    def take(self, count: int) -> bytes:
        raise self._error

    def close(self) -> None:
        """There is nothing to let go of."""


def _wrong_size(got: int, size: int) -> ValueError:
    return ValueError(f"the source gave an element of {got} octets, and its elements have {size}")


def _checked(block: Any, size: int) -> memoryview:
    view = memoryview(block).cast("B")
    if len(view) % size:
        raise ValueError(f"a block of {len(view)} octets holds no elements of {size} octets each")
    return view


class _BlockEmission(Emission[bytes]):
    """Sends the elements of an iterable, as blocks or one by one."""

    __slots__ = ("_blocks", "_budget", "_packed", "_size")

    def __init__(
        self, subscriber: Subscriber[bytes], blocks: _Blocks, size: int, *, packed: bool
    ) -> None:
        super().__init__(subscriber)
        self._blocks = blocks
        self._size = size
        self._packed = packed
        self._budget = max(_BLOCK_SIZE // size, 1) if packed else EMISSION_BUDGET

    def _emit(self, subscriber: Subscriber[bytes], limit: int) -> int:
        sent = 0
        on_next = subscriber.on_next
        size = self._size
        while sent < limit:
            try:
                block = self._blocks.take(limit - sent)
            except Exception as error:  # of the source (rule 1.4)
                self._ended(own_traceback(error))
                return sent
            if not block:
                self._ended()
                return sent
            self.demand.take(len(block) // size)
            try:
                if self._packed:
                    on_next(block)
                    sent += len(block) // size
                else:
                    for at in range(0, len(block), size):
                        sent += 1
                        on_next(block[at : at + size])
                        if self._over:
                            return sent
            except Exception as error:  # of the subscriber (rule 2.13)
                self._raised("on_next", error)
                return sent
            if self._over:
                return sent
        if self._blocks.exhausted:
            self._ended()
        return sent

    def _release(self) -> None:
        blocks, self._blocks = self._blocks, _Failed(RuntimeError("closed"))
        blocks.close()


class _Checked:
    """Between a publisher of elements and its subscriber: checks their size."""

    __slots__ = ("_size", "_subscriber", "_subscription")

    def __init__(self, subscriber: Subscriber[bytes], size: int) -> None:
        self._subscriber: Subscriber[bytes] | None = subscriber
        self._subscription: Subscription | None = None
        self._size = size

    def on_subscribe(self, subscription: Subscription, /) -> None:
        check_subscription(subscription)
        self._subscription = subscription
        if self._subscriber is not None:
            self._subscriber.on_subscribe(subscription)

    def on_next(self, element: bytes, /) -> None:
        check_element(element)
        subscriber = self._subscriber
        if subscriber is None:
            return
        if len(element) == self._size:
            subscriber.on_next(element)
            return
        self._subscriber = None
        if self._subscription is not None:
            self._subscription.cancel()
        subscriber.on_error(_wrong_size(len(element), self._size))

    def on_error(self, error: Exception, /) -> None:
        check_error(error)
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            subscriber.on_error(error)

    def on_complete(self) -> None:
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            subscriber.on_complete()


class _BlockRelay(Emission[bytes]):
    """Between a publisher of blocks and the subscriber of their elements.

    The publisher is asked for one block at a time. What is not requested of a block waits here.
    """

    __slots__ = ("_asked", "_budget", "_done", "_failure", "_packed", "_rest", "_size", "_upstream")

    def __init__(self, subscriber: Subscriber[bytes], size: int, *, packed: bool) -> None:
        super().__init__(subscriber)
        self._size = size
        self._packed = packed
        self._rest = memoryview(b"")
        self._asked = False
        self._done = False
        self._failure: Exception | None = None
        self._upstream: Subscription | None = None
        self._budget = max(_BLOCK_SIZE // size, 1) if packed else EMISSION_BUDGET

    def on_subscribe(self, subscription: Subscription, /) -> None:
        check_subscription(subscription)
        if self._upstream is not None:
            subscription.cancel()
            return
        self._upstream = subscription
        self.start()

    def on_next(self, element: bytes, /) -> None:
        check_element(element)
        if not self.active:
            return
        self._asked = False
        try:
            self._rest = _checked(element, self._size)
        except (TypeError, ValueError) as error:
            self.end(error)
            return
        self.wake()

    def on_error(self, error: Exception, /) -> None:
        check_error(error)
        self._done, self._failure = True, error
        self._upstream = None
        self.wake()

    def on_complete(self) -> None:
        self._done = True
        self._upstream = None
        self.wake()

    def _emit(self, subscriber: Subscriber[bytes], limit: int) -> int:
        size = self._size
        sent = 0
        while not self._over:
            if not self._rest:
                if self._done:
                    self._ended(self._failure)
                elif sent < limit and not self._asked and self._upstream is not None:
                    self._asked = True
                    self._upstream.request(1)
                    if self._rest or self._done:
                        continue
                break
            if sent >= limit:
                break
            count = min(limit - sent, len(self._rest) // size) if self._packed else 1
            block = bytes(self._rest[: count * size])
            self._rest = self._rest[count * size :]
            self.demand.take(count)
            sent += count
            try:
                subscriber.on_next(block)
            except Exception as error:  # of the subscriber (rule 2.13)
                self._raised("on_next", error)
        return sent

    def _release(self) -> None:
        self._rest = memoryview(b"")
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.cancel()
