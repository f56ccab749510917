"""What is measured: paths of elements, ours and reactivex's.

Each function sends some integers from a synchronous source to its end, and returns how many came
out. reactivex has no demand and no rules: its figures say what calls and functions alone cost.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

import attrs
import trio

from rsocket_trio.reactive_streams import MAX_DEMAND, from_iterable, open_iter, pipe
from rsocket_trio.reactive_streams import operators as ops

__all__ = ["PATHS", "Path", "Sink", "is_even", "plus_one", "reactivex_missing", "three", "twice"]


def plus_one(number: int) -> int:
    return number + 1


def is_even(number: int) -> bool:
    return number % 2 == 0


def twice(number: int) -> int:
    return 2 * number


class Sink:
    """A subscriber that counts.

    Args:
        first: What it requests in on_subscribe.
        more: What it requests in each on_next; 0: nothing.
    """

    def __init__(self, first: int = MAX_DEMAND, more: int = 0) -> None:
        self.count = 0
        self.over: trio.Event | None = None
        self._first = first
        self._more = more

    def on_subscribe(self, subscription: Any, /) -> None:
        self._subscription = subscription
        subscription.request(self._first)

    def on_next(self, element: Any, /) -> None:
        self.count += 1
        if self._more:
            self._subscription.request(self._more)

    def on_error(self, error: Exception, /) -> None:
        raise error

    def on_complete(self) -> None:
        if self.over is not None:
            self.over.set()


def three_after(source: Any) -> Any:
    """Return a publisher: a source and three operators."""
    return pipe(source, ops.map(plus_one), ops.filter(is_even), ops.map(twice))


def three(count: int) -> Any:
    return three_after(from_iterable(range(count)))


def in_trio(count: int) -> int:
    """Send elements through three operators to a callback."""
    return _counted(three(count))


def _counted(publisher: Any, sink: Sink | None = None) -> int:
    return trio.run(_wait_counted, publisher, sink or Sink())


async def _wait_counted(publisher: Any, sink: Sink) -> int:
    # In a run of trio the source keeps its budget, and goes on in later turns of the loop.
    sink.over = trio.Event()
    publisher.subscribe(sink)
    await sink.over.wait()
    return sink.count


async def _iterated(publisher: Any) -> int:
    count = 0
    async with open_iter(publisher) as elements:
        async for _ in elements:
            count += 1
    return count


def _rx_counted(count: int, *operators: Any) -> int:
    import reactivex

    sink = Sink()
    source: Any = reactivex.from_iterable(range(count))
    source.pipe(*operators).subscribe(sink.on_next)
    return sink.count


def _rx_listed(count: int, *operators: Any) -> int:
    import reactivex
    from reactivex import operators as rx

    found = 0
    source: Any = reactivex.from_iterable(range(count))
    lists: list[list[int]] = []
    source.pipe(*operators, rx.to_list()).subscribe(lists.append)
    for _ in lists[0]:
        found += 1
    return found


def _rx_three() -> list[Any]:
    from reactivex import operators as rx

    return [rx.map(plus_one), rx.filter(is_even), rx.map(twice)]


def _rx_seven() -> list[Any]:
    from reactivex import operators as rx

    return [rx.map(plus_one) for _ in range(7)]


def reactivex_missing() -> str | None:
    """Return the reason why reactivex is not measured."""
    return None if find_spec("reactivex") else "the package reactivex is not installed"


@attrs.frozen(kw_only=True)
class Path:
    """A path.

    Attributes:
        title: What it is.
        ours: Sends so many elements, and returns how many came out.
        rx: The same with reactivex, if it can.
    """

    title: str
    ours: Callable[[int], int]
    rx: Callable[[int], int] | None = None


PATHS: Final = [
    Path(
        title="source to callback",
        ours=lambda count: _counted(from_iterable(range(count))),
        rx=_rx_counted,
    ),
    Path(
        title="source to callback, requested one by one",
        ours=lambda count: _counted(from_iterable(range(count)), Sink(1, 1)),
    ),
    Path(
        title="map, filter, map to callback",
        ours=in_trio,
        rx=lambda count: _rx_counted(count, *_rx_three()),
    ),
    Path(
        title="map, filter, map to callback, requested one by one",
        ours=lambda count: _counted(three(count), Sink(1, 1)),
    ),
    Path(
        title="seven times map to callback",
        ours=lambda count: _counted(
            pipe(from_iterable(range(count)), *(ops.map(plus_one) for _ in range(7)))
        ),
        rx=lambda count: _rx_counted(count, *_rx_seven()),
    ),
    Path(
        title="source to `open_iter` (reactivex: to a list, then iterated)",
        ours=lambda count: trio.run(_iterated, from_iterable(range(count))),
        rx=_rx_listed,
    ),
    Path(
        title="map, filter, map to `open_iter` (reactivex: to a list, then iterated)",
        ours=lambda count: trio.run(_iterated, three(count)),
        rx=lambda count: _rx_listed(count, *_rx_three()),
    ),
]
