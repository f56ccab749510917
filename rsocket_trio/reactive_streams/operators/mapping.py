"""One result for each element: `map`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ..checks import check_element
from ..emission import own_traceback
from ..interfaces import Publisher, Subscriber
from .guarded import check_function, ignore
from .operator import Operated, Operator
from .stage import IDLE, SIGNALLING, Stage

__all__ = ["map"]

T = TypeVar("T")
R = TypeVar("R")


def map(  # noqa: A001 - the name of the field; used as ops.map
    function: Callable[[T], R],
) -> Operator[T, R]:
    """Make an operator that puts the result of a function in the place of each element.

    A function that raises ends the stream: the source is cancelled, and the subscriber gets the
    exception. A result of ``None`` is a `TypeError`, since ``None`` is no element (rule 2.13).

    Example::

        pipe(from_iterable([1, 2, 3]), ops.map(lambda number: number * 10))  # 10, 20, 30

    Args:
        function: Called with each element.

    Raises:
        TypeError: The function is not callable, or is an async function.
    """
    check_function(function)

    def operator(source: Publisher[T]) -> Operated[T, R]:
        return Operated(source, partial(_Map, function))

    return operator


class _Map(Stage[T, R]):
    __slots__ = ("_function",)

    def __init__(self, function: Callable[[T], R], downstream: Subscriber[R]) -> None:
        super().__init__(downstream)
        self._function: Callable[[T], R | None] = function

    def on_next(self, element: T, /) -> None:
        if element is None:
            check_element(element)
        # A local variable: Python's fast path for calls of attributes is one for methods.
        function = self._function
        try:
            result = function(element)
        except Exception as error:  # of the function (rule 1.4)
            self.fail(own_traceback(error))
            return
        if result is None:
            self._no_result()
            return
        signal = self.signal
        self.state = SIGNALLING
        try:
            signal(result)
        except Exception as error:  # of the subscriber (rule 2.13)
            self.harmed("on_next", error)
            return
        if self.state == SIGNALLING:
            self.state = IDLE
        else:
            self.settle()

    def release(self) -> None:
        super().release()
        self._function = ignore

    def _no_result(self) -> None:
        # After the end, `ignore` has made it.
        self.fail(TypeError("the function of map() has returned None, which is never an element"))
