"""Which target gets a request, and which targets a client has: `Choice`, `PeakLatency`, `part_of`.

It is pure: time and random numbers come from the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from math import exp
from operator import attrgetter
from typing import Final, Protocol, TypeVar

from .options import Target

__all__ = ["FAILURE", "LEAST", "Candidate", "Choice", "PeakLatency", "part_of"]

FAILURE: Final = 1.0
"""A failure counts as a latency of so many seconds at least: otherwise the target that fails at
once would look best, and get most requests."""

_DECAY: Final = 10.0
"""Seconds after which a latency counts for a third."""

LEAST: Final = 1e-6
"""Seconds: with a latency of 0 the number of open requests would not matter."""


class PeakLatency:
    """The latency of one target: a mean that decays, and that a longer time replaces at once.

    Attributes:
        known: Whether there is any.
    """

    __slots__ = ("_at", "_mean", "known")

    def __init__(self) -> None:
        self.known = False
        self._mean = 0.0
        self._at = 0.0

    def add(self, seconds: float, now: float) -> None:
        """Add a time."""
        if not self.known or seconds >= self._mean:
            self._mean = seconds
        else:
            kept = exp((self._at - now) / _DECAY)
            self._mean = self._mean * kept + seconds * (1 - kept)
        self.known = True
        self._at = now

    def at_least(self, seconds: float, now: float) -> None:
        """Add the time after which somebody has left who got no answer."""
        if not self.known or seconds > self.at(now):
            self.add(seconds, now)

    def at(self, now: float) -> float:
        """Return the present mean. While nothing is heard of a target, it is forgotten slowly."""
        return max(self._mean * exp((self._at - now) / _DECAY), LEAST)


class Candidate(Protocol):
    """A target, for `Choice`.

    Attributes:
        in_flight: The number of open requests there.
        turn: When it was chosen last, by the number of choices; for a new target any number up to
            0, so that not all clients begin with the same target.
    """

    in_flight: int
    turn: float

    def latency_at(self, now: float) -> float:
        """Return its latency, or what is expected of a new target."""


C = TypeVar("C", bound=Candidate)


class Choice:
    """Chooses the target of each request.

    Args:
        how: See `PoolOptions.choose`.
        random: Returns numbers from 0 up to 1.
    """

    def __init__(self, how: str, random: Callable[[], float]) -> None:
        self._random = random
        self._turn = 0
        self.among: Callable[[Sequence[C], float], C] = {
            "latency": self._by_latency,
            "least_in_flight": self._by_number,
            "round_robin": self._by_turns,
        }[how]

    def _by_turns(self, candidates: Sequence[C], _now: float) -> C:
        return self._next(min(candidates, key=attrgetter("turn")))

    def _by_number(self, candidates: Sequence[C], _now: float) -> C:
        return self._next(min(candidates, key=attrgetter("in_flight", "turn")))

    def _next(self, chosen: C) -> C:
        self._turn += 1
        chosen.turn = self._turn
        return chosen

    def _by_latency(self, candidates: Sequence[C], now: float) -> C:
        count = len(candidates)
        if count == 1:
            return candidates[0]
        # One number for both: the choice among all ordered pairs of two different ones.
        i, j = divmod(int(self._random() * count * (count - 1)), count - 1)
        one, other = candidates[i], candidates[j + (j >= i)]
        load = one.latency_at(now) * (one.in_flight + 1)
        return one if load <= other.latency_at(now) * (other.in_flight + 1) else other


def part_of(targets: Iterable[Target], client_id: str, at_most: int) -> list[Target]:
    """Return the targets of one client: all, or those whose hash with its id is greatest.

    When a target comes or goes, the part of a client changes by one target at most; and all targets
    are in equally many parts, but for chance.
    """
    known = list(dict.fromkeys(targets))
    if len(known) <= at_most:
        return known
    key = blake2b(client_id.encode()).digest()

    def weight(target: Target) -> bytes:
        return blake2b(f"{target!r}".encode(), key=key).digest()

    return sorted(known, key=weight)[-at_most:]
