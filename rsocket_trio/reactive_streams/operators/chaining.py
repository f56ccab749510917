"""One publisher after another: `concat`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from ..checks import check_subscriber
from ..interfaces import Publisher, Subscriber
from ..iterating import IterablePublisher
from .guarded import check_publisher
from .operator import Operator
from .succession import Succession

__all__ = ["concat", "concat_with"]

T = TypeVar("T")


def concat(*publishers: Publisher[T]) -> IterablePublisher[T]:
    """Make a publisher of the elements of several, one publisher after the other.

    A publisher is subscribed to when the one before is complete. The first error ends it.

    Example::

        concat(just(1, 2), just(3))  # 1, 2, 3

    Args:
        publishers: The publishers; each may be given more than once.

    Raises:
        TypeError: One of them is no publisher.
    """
    for each in publishers:
        check_publisher(each)
    return _Concat(publishers)


def concat_with(*publishers: Publisher[Any]) -> Operator[Any, Any]:
    """Make an operator that appends the elements of other publishers: see `concat`.

    Raises:
        TypeError: One of them is no publisher.
    """
    for each in publishers:
        check_publisher(each)

    def operator(source: Publisher[T]) -> IterablePublisher[T]:
        return concat(source, *publishers)

    return operator


class _Concat(IterablePublisher[T]):
    def __init__(self, publishers: tuple[Publisher[T], ...]) -> None:
        self._publishers: Final = publishers

    def subscribe(self, subscriber: Subscriber[T], /) -> None:
        check_subscriber(subscriber)
        _Chain(subscriber, iter(self._publishers)).start()


class _Chain(Succession[T]):
    __slots__ = ("_publishers",)

    def __init__(self, downstream: Subscriber[T], publishers: Iterator[Publisher[T]]) -> None:
        super().__init__(downstream)
        self._publishers = publishers

    def next_source(self) -> Publisher[T] | None:
        publisher = next(self._publishers, None)
        if publisher is None:
            self.close()
        return publisher

    def completed(self) -> None:
        """The loop subscribes to the next one."""

    def failed(self, error: Exception) -> None:
        self.end(error)

    def let_go(self) -> None:
        super().let_go()
        self._publishers = iter(())
