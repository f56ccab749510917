"""The waits before attempts to connect again: `Retry`, `Attempts`.

Exponential backoff with a cap, so that a peer that is down is not flooded, and with jitter, so
that the many clients of one server do not come back at the same time. It is a pure schedule: the
caller sleeps, and passes the random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Final

import attrs

from ..field_checks import COUNT, FINITE, number, optional

__all__ = ["Attempts", "Retry"]

_STEADY: Final = 1.0
"""A connection that lasts less than this, in seconds, does not count as a success."""


@attrs.frozen(kw_only=True)
class Retry:
    """A schedule of attempts.

    Attributes:
        initial_delay: The delay before the first attempt, in seconds.
        factor: Each delay is this many times as long as the previous one; at least 1.
        max_delay: The longest delay, in seconds.
        jitter: The part of each delay that is random, 0 to 1: a delay of ``d`` becomes a random
            value between ``d * (1 - jitter)`` and ``d``.
        max_attempts: Give up after this many attempts in a row; ``None``: there is no limit.
    """

    initial_delay: float = attrs.field(default=0.1, validator=FINITE)
    factor: float = attrs.field(default=2.0, validator=number(at_least=1, finite=True))
    max_delay: float = attrs.field(default=10.0, validator=FINITE)
    jitter: float = attrs.field(default=0.5, validator=number(at_least=0, at_most=1))
    max_attempts: int | None = attrs.field(default=None, validator=optional(COUNT))

    def delays(self, random: Callable[[], float]) -> Iterator[float]:
        """Iterate over the waits, in seconds, one before each attempt, until it gives up.

        Args:
            random: Returns numbers from 0 up to 1, e.g. ``random.random``.
        """
        wait = self.initial_delay
        made = 0
        while self.max_attempts is None or made < self.max_attempts:
            wait = min(wait, self.max_delay)
            yield wait * (1 - self.jitter * random())
            wait *= self.factor
            made += 1


class Attempts:
    """The waits before attempts, over all losses of connections of one session or client.

    A server, or a proxy before it, may accept every connection and drop it at once. So an attempt
    succeeds only if its connection lasts longer than the wait before it: then the schedule begins
    anew. Otherwise the schedule goes on.

    Args:
        retry: The schedule.
        random: See `Retry.delays`.
        spread: After a connection that has lasted, the schedule begins with this delay, in seconds,
            if it is longer than the first of ``retry``: a server that stops loses all its clients
            in one moment.
    """

    def __init__(self, retry: Retry, random: Callable[[], float], *, spread: float = 0.0) -> None:
        self._after_success = attrs.evolve(retry, initial_delay=max(retry.initial_delay, spread))
        self._random = random
        self._waits = retry.delays(random)
        self._wait = 0.0

    def within(self, seconds: float) -> Iterator[float]:
        """Iterate over the next waits, after a loss.

        Args:
            seconds: The time for all attempts. The first wait takes half of it at most, so that
                there is one attempt in time.
        """
        at_most = seconds / 2
        for wait in self._waits:
            self._wait = wait
            yield min(wait, at_most)
            at_most = inf

    def lost(self, lasted: float) -> bool:
        """Record that the connection of the last attempt is lost, after ``lasted`` seconds.

        Returns:
            Whether it was a success, so that the schedule begins anew.
        """
        steady = lasted > max(self._wait, _STEADY)
        if steady:
            self._waits = self._after_success.delays(self._random)
        return steady
