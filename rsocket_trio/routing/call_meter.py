"""Middleware that counts calls by interaction, route and outcome: `CallMeter`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final

import trio

from ..field_checks import COUNT, argument
from ..statistics import Histogram, RouteStatistics
from .call import AnyCall, Outcome

__all__ = ["CallMeter", "metered"]

_MAX_ROUTES: Final = 1000
_BOUNDS: Final = Histogram.bounds


class CallMeter:
    """Middleware of both ends that counts calls, and measures how long they take.

    ``Router(middleware=[CallMeter()])`` makes `Server.statistics` have `WireStatistics.by_route`;
    as the first of the middleware it sees all requests that the router gets, also those that are
    refused or have no handler. One in ``connect(..., middleware=[...])`` counts requests that are
    made here. One meter may serve any number of routers, servers and connections.

    Calls are counted by the route of their handler, and never by a text of the peer, so there are
    as many numbers as handlers. Routes of requests that are made here are of the program.

    Args:
        max_routes: So many routes are counted separately, at most; further ones count as
            ``None``. 1000: about a megabyte.

    Raises:
        TypeError: ``max_routes`` is no int.
        ValueError: It is less than 1.
    """

    measures: Final = True
    """See `AnyCall.traffic`."""

    def __init__(self, *, max_routes: int = _MAX_ROUTES) -> None:
        argument("max_routes", max_routes, COUNT)
        self._max_routes = max_routes
        self._routes: dict[tuple[str, str | None], _Numbers] = {}

    def __call__(self, call: AnyCall) -> AbstractAsyncContextManager[None]:
        """See `Middleware`."""
        key = call.interaction, call.template
        numbers = self._routes.get(key)
        if numbers is None:
            if key[1] is not None and len(self._routes) >= self._max_routes:
                key = key[0], None
            numbers = self._routes.setdefault(key, _Numbers())
        return _Metered(call, numbers)

    def statistics(self) -> tuple[RouteStatistics, ...]:
        """Return the numbers of now, for each interaction and route that was called."""
        return tuple([n.snapshot(*key) for key, n in self._routes.items()])


def metered(middleware: Iterable[object]) -> tuple[RouteStatistics, ...]:
    """Return the numbers of all meters among some middleware."""
    meters = [each for each in middleware if isinstance(each, CallMeter)]
    return tuple([numbers for meter in meters for numbers in meter.statistics()])


class _Numbers:
    """The numbers of one interaction and route."""

    __slots__ = ("begun", "ended", "items_in", "items_out", "size_in", "size_out")

    def __init__(self) -> None:
        self.begun = 0
        self.ended: dict[Outcome, tuple[list[int], list[float]]] = {}
        self.items_in = self.items_out = self.size_in = self.size_out = 0

    def end(self, outcome: Outcome, seconds: float) -> None:
        ended = self.ended.get(outcome)
        if ended is None:
            ended = self.ended[outcome] = [0] * (len(_BOUNDS) + 1), [0.0]
        counts, total = ended
        counts[bisect_left(_BOUNDS, seconds)] += 1
        total[0] += seconds

    def snapshot(self, interaction: str, route: str | None) -> RouteStatistics:
        return RouteStatistics(
            interaction=str(interaction),
            route=route,
            begun=self.begun,
            ended={str(o): Histogram(tuple(c), t[0]) for o, (c, t) in self.ended.items()},
            items_in=self.items_in,
            items_out=self.items_out,
            size_in=self.size_in,
            size_out=self.size_out,
        )


class _Metered(AbstractAsyncContextManager[None]):
    """The block around one call. It never waits, so each call that is begun is ended once."""

    __slots__ = ("_began", "_call", "_numbers")

    def __init__(self, call: AnyCall, numbers: _Numbers) -> None:
        self._call = call
        self._numbers = numbers

    async def __aenter__(self) -> None:
        self._began = self._call.began()
        self._numbers.begun += 1

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        call, numbers, traffic = self._call, self._numbers, self._call.traffic
        outcome = call.outcome
        assert outcome is not None  # set before a block is left
        numbers.end(outcome, trio.current_time() - self._began)
        numbers.items_out += call.items
        if traffic is not None:
            numbers.items_in += traffic.items_in
            numbers.size_in += traffic.size_in
            numbers.size_out += traffic.size_out
