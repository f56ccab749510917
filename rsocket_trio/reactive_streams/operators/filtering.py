"""Only the elements that are wanted: `filter`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ..checks import check_element
from ..demand import MAX_DEMAND
from ..emission import own_traceback
from ..interfaces import Publisher, Subscriber
from .guarded import check_function, ignore
from .operator import Operated, Operator
from .stage import IDLE, SIGNALLING, Stage

__all__ = ["filter"]

T = TypeVar("T")


def filter(  # noqa: A001 - the name of the field; used as ops.filter
    predicate: Callable[[T], object],
) -> Operator[T, T]:
    """Make an operator that drops the elements for which a function is not true.

    For each element that it drops it requests another one, so that a subscriber gets as many as it
    has requested. A function that raises ends the stream, as that of `map` does.

    Example::

        pipe(from_iterable(range(6)), ops.filter(lambda number: number % 2))  # 1, 3, 5

    Args:
        predicate: Called with each element.

    Raises:
        TypeError: The function is not callable, or is an async function.
    """
    check_function(predicate)

    def operator(source: Publisher[T]) -> Operated[T, T]:
        return Operated(source, partial(_Filter, predicate))

    return operator


class _Filter(Stage[T, T]):
    __slots__ = ("_predicate", "_unbounded")

    def __init__(self, predicate: Callable[[T], object], downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._predicate = predicate
        self._unbounded = False

    def request(self, n: int, /) -> None:
        super().request(n)
        # Nobody counts such a demand down (rule 3.17), so nothing has to be made up for.
        if isinstance(n, int) and n >= MAX_DEMAND:
            self._unbounded = True

    def on_next(self, element: T, /) -> None:
        if element is None:
            check_element(element)
        predicate = self._predicate
        try:
            wanted = True if predicate(element) else False  # noqa: SIM210 - bool() costs a call
        except Exception as error:  # of the function (rule 1.4)
            self.fail(own_traceback(error))
            return
        if wanted:
            signal = self.signal
            self.state = SIGNALLING
            try:
                signal(element)
            except Exception as error:  # of the subscriber (rule 2.13)
                self.harmed("on_next", error)
                return
            if self.state == SIGNALLING:
                self.state = IDLE
            else:
                self.settle()
        elif not self._unbounded:
            upstream = self.upstream
            if upstream is not None:
                try:
                    upstream.request(1)  # The source is signalling, so it only counts (rule 3.3).
                except Exception as error:  # of a source that breaks rule 3.16
                    self.fail(own_traceback(error))

    def release(self) -> None:
        super().release()
        self._predicate = ignore
