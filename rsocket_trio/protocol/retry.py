"""How long to wait before trying again: `Retry`.

Exponential backoff with a cap, so that a peer that is down is not flooded, and with jitter, so
that the many clients of one server do not come back in step. A pure schedule: who uses it sleeps,
and brings the randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

import attrs
from attrs import validators as v

__all__ = ["Retry"]


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
        attempts: Give up after so many; ``None`` never gives up by itself.
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
