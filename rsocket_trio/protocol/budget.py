"""How many requests may be sent once more: `Budget`, `Purse`.

Retries without a budget multiply the load on a server that is in trouble. So successes earn them:
if nearly all requests succeed, each failure may be repeated, and if none does, nearly none is. It
is pure: the caller passes the time.
"""

from __future__ import annotations

from math import exp
from typing import Final

import attrs

from ..field_checks import number

__all__ = ["Budget", "Purse"]

_MEMORY: Final = 10.0
"""Seconds within which what was earned loses its worth, by a factor of e. So a client that has been
well for a year has earned no more than one that has been well for a minute."""


@attrs.frozen(kw_only=True)
class Budget:
    """How many more requests may be sent than are asked for.

    Attributes:
        ratio: How much each success earns: 0.2 lets the requests of a client be 1.2 times as many.
            What was earned is forgotten within some 10 seconds.
        per_second: So many may be sent besides, each second, so that a client with few requests can
            repeat one.
    """

    ratio: float = attrs.field(default=0.2, validator=number(at_least=0, finite=True))
    per_second: float = attrs.field(default=3.0, validator=number(at_least=0, finite=True))


class Purse:
    """What is left of a budget.

    Args:
        budget: The budget.
        now: The time, in seconds.
    """

    def __init__(self, budget: Budget, now: float) -> None:
        self._budget = budget
        self._now = now
        self._earned = 0.0
        self._free = budget.per_second

    def earn(self, now: float) -> None:
        """A request has succeeded."""
        self._pass_time(now)
        self._earned += self._budget.ratio

    def take(self, now: float) -> bool:
        """Return whether one more request may be sent; it is paid for then."""
        self._pass_time(now)
        if self._free >= 1:
            self._free -= 1
        elif self._earned + self._free >= 1:
            self._earned -= 1 - self._free
            self._free = 0.0
        else:
            return False
        return True

    def _pass_time(self, now: float) -> None:
        passed, self._now = now - self._now, now
        self._earned *= exp(-passed / _MEMORY)
        rate = self._budget.per_second
        # A rate of less than one in a second has to come to one all the same.
        self._free = min(self._free + passed * rate, max(rate, 1.0))
