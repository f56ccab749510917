"""The cost of each rule: map, filter and map with one rule after the other.

The first step is the three functions in a loop. The next ones are classes as those of the package,
each with one more rule. The last ones are the package: its operators before a source that counts
nothing, then its source, then its source in a run of trio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rsocket_trio.reactive_streams import from_iterable

from .paths import Sink, in_trio, is_even, plus_one, three_after, twice

__all__ = ["STEPS"]


def _functions(count: int) -> int:
    found = 0
    for number in range(count):
        number = plus_one(number)
        if is_even(number):
            twice(number)
            found += 1
    return found


class _Calls:
    """Operators that call one another, and no rule at all."""

    __slots__ = ("_function", "signal", "state", "upstream")

    def __init__(self, function: Callable[[Any], Any], downstream: Any) -> None:
        self._function = function
        self.signal = downstream.on_next
        self.state = 0
        self.upstream: Any = None

    def fail(self, error: Exception) -> None:
        raise error


class _Map0(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        function = self._function
        result = function(element)
        signal = self.signal
        signal(result)


class _Filter0(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        function = self._function
        if function(element):
            signal = self.signal
            signal(element)


class _Map1(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        function = self._function
        try:
            result = function(element)
        except Exception as error:  # of the function
            self.fail(error)
            return
        signal = self.signal
        signal(result)


class _Filter1(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        function = self._function
        try:
            wanted = True if function(element) else False  # noqa: SIM210 - as in the package
        except Exception as error:  # of the function
            self.fail(error)
            return
        if wanted:
            signal = self.signal
            signal(element)


class _Map2(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        if element is None:
            raise TypeError
        function = self._function
        try:
            result = function(element)
        except Exception as error:  # of the function
            self.fail(error)
            return
        if result is None:
            self.fail(TypeError())
            return
        signal = self.signal
        signal(result)


class _Filter2(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        if element is None:
            raise TypeError
        function = self._function
        try:
            wanted = True if function(element) else False  # noqa: SIM210 - as in the package
        except Exception as error:  # of the function
            self.fail(error)
            return
        if wanted:
            signal = self.signal
            signal(element)


class _Map3(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        if element is None:
            raise TypeError
        function = self._function
        try:
            result = function(element)
        except Exception as error:  # of the function
            self.fail(error)
            return
        if result is None:
            self.fail(TypeError())
            return
        signal = self.signal
        try:
            signal(result)
        except Exception as error:  # of the subscriber
            self.fail(error)
            return


class _Filter3(_Calls):
    __slots__ = ()

    def on_next(self, element: Any) -> None:
        if element is None:
            raise TypeError
        function = self._function
        try:
            wanted = True if function(element) else False  # noqa: SIM210 - as in the package
        except Exception as error:  # of the function
            self.fail(error)
            return
        if wanted:
            signal = self.signal
            try:
                signal(element)
            except Exception as error:  # of the subscriber
                self.fail(error)
                return


def _chained(map_: type[Any], filter_: type[Any]) -> Callable[[int], int]:
    def run(count: int) -> int:
        sink = Sink()
        on_next = map_(plus_one, filter_(is_even, map_(twice, sink))).on_next
        for number in range(count):
            on_next(number)
        return sink.count

    return run


def _operators_alone(count: int) -> int:
    sink = Sink()
    three_after(_Pushed(count)).subscribe(sink)
    return sink.count


def _outside_of_trio(count: int) -> int:
    sink = Sink()
    three_after(from_iterable(range(count))).subscribe(sink)
    return sink.count


class _Pushed:
    """A source that counts nothing."""

    def __init__(self, count: int) -> None:
        self._count = count

    def subscribe(self, subscriber: Any, /) -> None:
        subscriber.on_subscribe(self)
        on_next = subscriber.on_next
        for number in range(self._count):
            on_next(number)

    def request(self, n: int, /) -> None:
        pass

    def cancel(self) -> None:
        pass


STEPS: Final[list[tuple[str, Callable[[int], int]]]] = [
    ("the three functions in a loop", _functions),
    ("one call per operator, without any rule", _chained(_Map0, _Filter0)),
    ("a function that raises ends the stream (1.4)", _chained(_Map1, _Filter1)),
    ("`None` is no element (2.13)", _chained(_Map2, _Filter2)),
    ("a subscriber that raises harms only itself (2.13)", _chained(_Map3, _Filter3)),
    ("a wrong request is answered behind the running signal (1.3, 3.9)", _operators_alone),
    ("demand, recursion and cancel are the source's affair (1.1, 1.8, 3.3)", _outside_of_trio),
    ("other tasks run after 256 elements, in a run of trio (3.4)", in_trio),
]
"""Each step has the rules of the steps before it, too."""
