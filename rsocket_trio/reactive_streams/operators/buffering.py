"""Elements that wait for demand, as many as there is room for: `buffer`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from ..demand import MAX_DEMAND
from ..emission import own_traceback
from ..errors import ReactiveStreamsError
from ..interfaces import Publisher, Subscriber
from .guarded import check_count, check_function
from .intake import Intake
from .operator import Operated, Operator

__all__ = ["BufferOverflow", "Overflow", "buffer"]

T = TypeVar("T")


class BufferOverflow(ReactiveStreamsError):
    """A source that was not held back sent more elements than `buffer` has room for."""


class Overflow(Enum):
    """What `buffer` does with an element that it has no room for.

    Attributes:
        ERROR: It ends the stream with `BufferOverflow`.
        DROP_OLDEST: It drops the element that has waited longest.
        DROP_NEWEST: It drops the new element.
        LATEST: It drops all that wait: the subscriber goes on with the newest one.
        WAIT: This does not happen: it requests no more elements than it has room for.
    """

    ERROR = "error"
    DROP_OLDEST = "drop oldest"
    DROP_NEWEST = "drop newest"
    LATEST = "latest"
    WAIT = "wait"


def buffer(
    capacity: int,
    overflow: Overflow = Overflow.ERROR,
    *,
    on_drop: Callable[[Any], object] | None = None,
) -> Operator[Any, Any]:
    """Make an operator that takes elements before they are requested, and holds them.

    It requests from the source without a limit, because a source of events cannot be held back;
    with `Overflow.WAIT` it requests what it has room for. If the source completes, the subscriber
    still gets the elements that wait; if it fails, it gets the error at once, and they are dropped.

    Example::

        pipe(readings, ops.buffer(1, Overflow.LATEST))  # for a display that shows the newest one

    Args:
        capacity: The largest number of elements that wait.
        overflow: What happens with one more.
        on_drop: Called with each element that is dropped because there is no room, for example to
            count it. If it raises, the stream ends with that error.

    Raises:
        ValueError: The capacity is less than 1.
        TypeError: An argument has the wrong type.
    """
    check_count("the capacity of buffer()", capacity)
    overflow = Overflow(overflow)
    if on_drop is not None:
        check_function(on_drop)

    def operator(source: Publisher[T]) -> Operated[T, T]:
        if overflow is Overflow.WAIT:
            return Operated(source, partial(_Ahead, capacity))
        return Operated(source, partial(_Buffer, capacity, overflow, on_drop))

    return operator


class _Buffer(Intake[T, T]):
    """A buffer before a source that is not held back."""

    __slots__ = ("_capacity", "_on_drop", "_overflow")

    def __init__(
        self,
        capacity: int,
        overflow: Overflow,
        on_drop: Callable[[T], object] | None,
        downstream: Subscriber[T],
    ) -> None:
        super().__init__(downstream)
        self._capacity = capacity
        self._overflow = overflow
        self._on_drop = on_drop

    def opened(self) -> None:
        self.ask(MAX_DEMAND)

    def received(self, element: T) -> None:
        queue = self.queue
        if len(queue) < self._capacity:
            self.push(element)
        elif self._overflow is Overflow.ERROR:
            self.end(BufferOverflow(f"more than {self._capacity} elements wait"))
        elif self._overflow is Overflow.DROP_NEWEST:
            self._drop([element])
        else:
            dropped = list(queue) if self._overflow is Overflow.LATEST else [queue[0]]
            for _ in dropped:
                queue.popleft()
            self.push(element)
            self._drop(dropped)

    def _drop(self, elements: list[T]) -> None:
        on_drop = self._on_drop
        if on_drop is None:
            return
        try:
            for element in elements:
                on_drop(element)
        except Exception as error:  # of the function (rule 1.4)
            self.end(own_traceback(error))


class _Ahead(Intake[T, T]):
    """A buffer that holds the source back when it is full."""

    __slots__ = ("_capacity", "_refill", "_taken")

    def __init__(self, capacity: int, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._capacity = capacity
        self._refill = max(1, capacity // 4)  # A request for each element would be slow.
        self._taken = 0

    def opened(self) -> None:
        self.ask(self._capacity)

    def received(self, element: T) -> None:
        self.push(element)

    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        sent = 0
        while sent < limit and self.queue and not self._over:
            just_sent = super()._emit(subscriber, limit - sent)
            sent += just_sent
            self._taken += just_sent
            if self._taken >= self._refill and not self._over:
                taken, self._taken = self._taken, 0
                self.ask(taken)  # A synchronous source fills the queue here.
        if not self._over:
            super()._emit(subscriber, 0)  # Has it been closed?
        return sent
