"""How long to wait before trying again: `Retry`.

Exponential backoff with a cap, so that a peer that is down is not flooded, and with jitter, so
that the many clients of one server do not come back in step. A pure schedule: who uses it sleeps,
and brings the randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Final

import attrs
from attrs import validators as v

__all__ = ["Attempts", "Retry"]

_STEADY: Final = 1.0
"""A connection that lasts less than this, in seconds, was as good as none."""


def _positive(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    # Written so that NaN is refused too.
    if not 0 < value < inf:
        raise ValueError(f"{attribute.name} must be greater than 0 and finite, not {value!r}")


@attrs.frozen(kw_only=True)
class Retry:
    """A schedule of attempts.

    Attributes:
        initial: The wait before the first attempt, in seconds.
        factor: Each wait is so many times as long as the one before; at least 1.
        maximum: No wait is longer, in seconds.
        jitter: The part of each wait that is random, 0 to 1: a wait of ``w`` becomes something
            between ``w * (1 - jitter)`` and ``w``.
        attempts: Give up after so many in a row; ``None`` never gives up by itself.
    """

    initial: float = attrs.field(default=0.1, validator=_positive)
    factor: float = attrs.field(default=2.0, validator=[_positive, v.ge(1)])
    maximum: float = attrs.field(default=10.0, validator=_positive)
    jitter: float = attrs.field(default=0.5, validator=[v.ge(0), v.le(1)])
    attempts: int | None = attrs.field(default=None, validator=v.optional(v.ge(1)))

    def delays(self, random: Callable[[], float]) -> Iterator[float]:
        """The waits, in seconds, one before each attempt; ends where it is time to give up.

        Args:
            random: Gives numbers from 0 up to 1, e.g. ``random.random``.
        """
        wait = self.initial
        made = 0
        while self.attempts is None or made < self.attempts:
            wait = min(wait, self.maximum)
            yield wait * (1 - self.jitter * random())
            wait *= self.factor
            made += 1


class Attempts:
    """The waits before attempts, over all the losses of one thing.

    A server, or whatever stands before it, may take every connection and drop it at once. So an
    attempt that brought a connection has succeeded only where that lasted, for longer than the wait
    before it: then the schedule begins anew. Else it goes on where it was.

    Args:
        retry: The schedule.
        random: See `Retry.delays`.
    """

    def __init__(self, retry: Retry, random: Callable[[], float]) -> None:
        self._retry = retry
        self._random = random
        self._waits = retry.delays(random)
        self._wait = 0.0

    def within(self, seconds: float) -> Iterator[float]:
        """The waits from here on, after a loss.

        Args:
            seconds: How long there is for all of them. The first wait takes half of it at most, so
                that there is one attempt in time.
        """
        at_most = seconds / 2
        for wait in self._waits:
            self._wait = wait
            yield min(wait, at_most)
            at_most = inf

    def lost(self, lasted: float) -> None:
        """The connection that the last attempt brought is lost, after ``lasted`` seconds."""
        if lasted > max(self._wait, _STEADY):
            self._waits = self._retry.delays(self._random)
