"""Several elements as one: `batch`."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import trio

from ..checks import check_nursery
from ..demand import MAX_DEMAND
from ..interfaces import Publisher, Subscriber
from .guarded import check_count, check_seconds
from .intake import Intake
from .operator import Operated, Operator
from .timers import Timer

__all__ = ["batch"]

T = TypeVar("T")


def batch(
    size: int, seconds: float | None = None, nursery: trio.Nursery | None = None
) -> Operator[Any, list[Any]]:
    """Make an operator that gathers elements into lists.

    A list is complete when it has ``size`` elements, or when its first element has waited for
    ``seconds``. One that is due, and for which there is no demand, goes on growing until it is
    requested or has ``size`` elements. At the end of the source the last list may be shorter; if
    the source fails, the list that is not complete is dropped.

    For a request of one list it requests ``size`` elements: so at most ``size`` of them wait.

    Example::

        pipe(from_iterable(range(5)), ops.batch(2))  # [0, 1], [2, 3], [4]

    Args:
        size: The largest number of elements in a list.
        seconds: The longest time that an element waits for others.
        nursery: With ``seconds``: where each subscription has its task. When it is cancelled, the
            subscriber gets `SourceClosed`.

    Raises:
        ValueError: A number is too small, or only one of ``seconds`` and ``nursery`` is given.
        TypeError: An argument has the wrong type.
    """
    check_count("the size of batch()", size)
    if seconds is not None:
        check_seconds("the seconds of batch()", seconds)
    if (seconds is None) is not (nursery is None):
        raise ValueError("batch() needs a nursery if it has seconds, and only then")
    if nursery is not None:
        check_nursery("batch()", nursery)

    def operator(source: Publisher[T]) -> Operated[T, list[T]]:
        return Operated(source, partial(_Batch, size, seconds, nursery))

    return operator


class _Batch(Intake[T, list[T]]):
    __slots__ = ("_current", "_due", "_seconds", "_size", "_timer")

    def __init__(
        self,
        size: int,
        seconds: float | None,
        nursery: trio.Nursery | None,
        downstream: Subscriber[list[T]],
    ) -> None:
        super().__init__(downstream)
        self._size = size
        self._seconds = seconds
        self._current: list[T] = []
        self._due = False
        self._timer = None if nursery is None else Timer(nursery, self._on_time, self.end)

    def start(self) -> None:
        failure = None if self._timer is None else self._timer.start()
        if failure is not None:
            self._ended(failure)  # rule 1.9: the last signal comes behind on_subscribe
        super().start()

    def received(self, element: T) -> None:
        current = self._current
        current.append(element)
        if len(current) >= self._size or (self._due and self._wanted()):
            self._flush()
        elif len(current) == 1 and self._timer is not None and self._seconds is not None:
            self._timer.at(trio.current_time() + self._seconds)

    def completed(self) -> None:
        if self._current:
            self._flush()
        self.close()

    def _wanted(self) -> bool:
        """Whether a list would leave at once."""
        return self.demand.outstanding > len(self.queue)

    def _on_time(self) -> None:
        self._due = bool(self._current)
        if self._due and self._wanted():
            self._flush()

    def _flush(self) -> None:
        self._due = False
        if self._timer is not None:
            self._timer.clear()
        current, self._current = self._current, []
        self.push(current)

    def _requested(self, n: int) -> None:
        if self._due:
            self._flush()
        demand = self.demand.outstanding
        here = len(self._current) + len(self.queue) * self._size + self.expected.outstanding
        wanted = MAX_DEMAND if demand == MAX_DEMAND else demand * self._size - here
        if wanted > 0 and self.expected.outstanding != MAX_DEMAND:
            self.ask(min(wanted, MAX_DEMAND))

    def let_go(self) -> None:
        super().let_go()
        self._current = []
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
