"""When the requests of a bench begin: `Pace`."""

from __future__ import annotations

from math import sqrt
from time import perf_counter_ns
from typing import Final

import trio

__all__ = ["Pace"]


class Pace:
    """Says when requests begin, so that a slow peer does not make them begin later.

    A request that waits for its turn, because all that may be open are open, counts from the time
    at which it should have begun. Else the time of a peer that stops for a second would be in the
    latency of the few requests that were open, and be missing in that of all that should have
    followed ("coordinated omission").

    Args:
        rate: Requests per second.
        ramp: Seconds in which the rate grows from 0 to that.
    """

    def __init__(self, rate: float, ramp: float) -> None:
        self._rate: Final = rate
        self._ramp: Final = ramp
        self._began = perf_counter_ns()
        self._number = 0

    async def next(self) -> int:
        """Wait until the next request should begin; return that time, of `perf_counter_ns`.

        Checkpoint: always.
        If cancelled: this request has no turn any more.
        """
        number, self._number = self._number, self._number + 1
        due = self._began + int(self.due(number) * 1e9)
        await trio.sleep(max((due - perf_counter_ns()) / 1e9, 0))
        return due

    def due(self, number: int) -> float:
        """Return when a request should begin, in seconds: the first is number 0."""
        # The rate grows evenly, so the requests grow as the square of the time.
        grown = self._rate * self._ramp / 2
        if number < grown:
            return sqrt(2 * number * self._ramp / self._rate)
        return self._ramp + (number - grown) / self._rate

    @property
    def late(self) -> int:
        """How many requests should have begun by now and have not."""
        passed = (perf_counter_ns() - self._began) / 1e9
        grown = self._rate * self._ramp / 2
        if passed < self._ramp:
            due = self._rate * passed * passed / (2 * self._ramp)
        else:
            due = grown + (passed - self._ramp) * self._rate
        return max(int(due) + 1 - self._number, 0)
