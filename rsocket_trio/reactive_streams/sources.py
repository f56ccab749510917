"""Publishers of what is here already: `from_iterable`, `just`, `empty`, `never`, `failed`.

Each subscriber gets all elements (they are cold), as it requests them. A source is asked for an
element only when one is requested. So a generator completes with the first request behind its last
element. A list, tuple, range, string or bytes object knows its end: it completes at once, without
one more request. So does a collection that is empty when it is subscribed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import chain, islice
from typing import Any, Final, TypeVar, cast

from .checks import check_error, check_subscriber, iterator_of, null_element
from .emission import Emission, own_traceback
from .errors import AlreadySubscribed
from .interfaces import Subscriber
from .iterating import IterablePublisher
from .short_stack import exhausted

__all__ = ["empty", "failed", "from_iterable", "just", "never"]

T = TypeVar("T")

_KNOWN: Final[tuple[Iterable[object], ...]] = (
    [], (), range(1), range(2**70), "", "\u0100", b"", bytearray()
)  # fmt: skip
_LISTS: Final = frozenset(type(iter(each)) for each in _KNOWN)
"""Iterators that know how many elements are left, without any effect on them."""


def from_iterable(source: Iterable[T] | Callable[[], Iterable[T]]) -> IterablePublisher[T]:
    """Make a publisher of the elements of an iterable.

    Each subscriber gets an iteration of its own. An exception of the iterable becomes
    ``on_error``; so does an element that is ``None``. If a subscriber cancels, its iterator is
    closed, if it can be closed.

    Args:
        source: An iterable, or a function that returns one for each subscriber. An iterator, for
            example a generator object, can be subscribed to once.
    """
    return _FromIterable(source)


def just(*elements: T) -> IterablePublisher[T]:
    """Make a publisher of the given elements."""
    return _FromIterable(elements)


def empty() -> IterablePublisher[Any]:
    """Make a publisher that completes at once."""
    return _FromIterable(())


def never() -> IterablePublisher[Any]:
    """Make a publisher that sends nothing, not even an end."""
    return _Never()


def failed(error: Exception) -> IterablePublisher[Any]:
    """Make a publisher that fails at once.

    Args:
        error: What each subscriber gets.

    Raises:
        TypeError: ``error`` is no `Exception`.
    """
    check_error(error)
    return _Failed(error)


class _FromIterable(IterablePublisher[T]):
    def __init__(self, source: Iterable[T] | Callable[[], Iterable[T]]) -> None:
        self._source = source
        self._given = False

    def subscribe(self, subscriber: Subscriber[T], /) -> None:
        check_subscriber(subscriber)
        emission = _IteratorEmission(subscriber)
        try:
            if self._begin(emission):
                emission.start()
                return
        except RecursionError as error:
            failure: Exception | None = exhausted("subscribe", error)
        except Exception as error:  # of the source (rule 1.4)
            failure = own_traceback(error)
        else:
            failure = None
        emission.start_ended(failure)

    def _begin(self, emission: _IteratorEmission[T]) -> bool:
        """Open the source; return whether it may have elements."""
        source = self._source
        iterable = source if isinstance(source, Iterable) or not callable(source) else source()
        if isinstance(iterable, Sized) and not len(iterable):
            return False
        iterator = iterator_of(iterable)
        if iterator is source:
            if self._given:
                raise AlreadySubscribed(
                    f"this {type(source).__name__} has been given to another subscriber: use an "
                    "iterable that is no iterator, or a function that returns one"
                )
            self._given = True
        emission.open(iterator)
        return True


class _Never(IterablePublisher[Any]):
    def subscribe(self, subscriber: Subscriber[Any], /) -> None:
        check_subscriber(subscriber)
        _Nothing(subscriber).start()


class _Failed(IterablePublisher[Any]):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def subscribe(self, subscriber: Subscriber[Any], /) -> None:
        check_subscriber(subscriber)
        _Nothing(subscriber).start_ended(self._error)


class _Nothing(Emission[T]):
    """A subscription without elements."""

    __slots__ = ()

    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        return 0

    def _release(self) -> None:
        pass


class _End:
    """The last element of an iterator that is being sent: ``None``, which elements cannot be.

    So the loop has one comparison for two questions.
    """

    __slots__ = ("reached",)

    def __init__(self) -> None:
        self.reached = False

    def __iter__(self) -> _End:
        return self

    def __next__(self) -> Any:
        self.reached = True


class _IteratorEmission(Emission[T]):
    """Sends the elements of an iterator, which `open` gives it."""

    __slots__ = ("_elements", "_end", "_iterator", "_left")

    def __init__(self, subscriber: Subscriber[T]) -> None:
        super().__init__(subscriber)
        self._end = _End()
        self._iterator: Iterator[T] | None = None
        self._elements: Iterator[T] = self._end
        self._left: Callable[[], int] | None = None

    def open(self, iterator: Iterator[T]) -> None:
        """Use this iterator; called once, before `start`."""
        self._iterator = iterator
        self._elements = chain(iterator, self._end)
        if type(iterator) in _LISTS:
            self._left = cast("Any", iterator).__length_hint__

    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        self.demand.take(limit)
        on_next = subscriber.on_next
        try:
            for element in islice(self._elements, limit):
                if element is None:
                    self._ended(None if self._end.reached else null_element())
                    return 0
                try:
                    on_next(element)
                except Exception as error:  # of the subscriber (rule 2.13)
                    self._raised("on_next", error)
                    return 0
                if self._over:
                    return 0
            left = self._left
            if left is not None and not left():
                self._ended()
        except RecursionError as error:
            if self._over:
                raise
            self._ended(exhausted("on_next", error))
        except Exception as error:  # of the source (rule 1.4)
            self._ended(own_traceback(error))
        return limit

    def _release(self) -> None:
        iterator, self._iterator = self._iterator, None
        self._elements = self._end
        self._left = None
        close = None if self._end.reached else getattr(iterator, "close", None)
        if close is not None:
            try:
                close()
            except RecursionError:  # for another attempt
                self._iterator = iterator
                raise
