"""The ages of batches, by a clock that is never set: `Ages`."""

from __future__ import annotations

from collections import deque
from math import inf
from time import monotonic
from time import time as now
from typing import Final

import attrs

__all__ = ["Age", "Ages"]

_TOLERANCE: Final = 1.0
"""Seconds. When the wall clock moves by more against the clock that is never set, it was set."""

_MAX_STEPS: Final = 256
"""Steps that are remembered. For batches of older ones, the clock counts as it was at the opening.
"""


@attrs.frozen
class Age:
    """How old a batch is.

    Attributes:
        seconds: Its age, or more exactly the least that it can be.
        certain: Whether the time that was stored with the batch can be true.
    """

    seconds: float
    certain: bool


@attrs.frozen
class _Step:
    """From the offset ``first`` on, the wall clock was ahead of the monotonic clock by so much."""

    first: float
    ahead: float


class Ages:
    """Tells the ages of batches from the wall times that are stored with them.

    While the spool is open, the wall clock may be set; this remembers by how much, and from which
    batch on. The batches of an earlier time are as old as the wall clock says when the spool is
    opened, and grow older from then on by the monotonic clock. If the wall clock is behind their
    time at this moment, they are new at this moment, and their age is not certain.

    Args:
        head: The head of the spool as it is opened.
    """

    def __init__(self, head: int) -> None:
        self._head: Final = head
        self._opened: Final = monotonic()
        # The step of the opening is before every batch, and is never forgotten.
        self._steps: Final = deque([_Step(-inf, now() - self._opened)])

    def stamp(self, first: int) -> float:
        """Return the wall time, for batches from the offset ``first`` on."""
        at = now()
        ahead = at - monotonic()
        if abs(ahead - self._steps[-1].ahead) > _TOLERANCE:
            while self._steps[-1].first >= first:
                self._steps.pop()  # No batch was stored after it.
            self._steps.append(_Step(first, ahead))
            if len(self._steps) > _MAX_STEPS:
                del self._steps[1]
        return at

    def of(self, first: int, stored_at: float) -> Age:
        """Return the age of the batch at the offset ``first``.

        Args:
            first: The offset.
            stored_at: What `stamp` returned for it.
        """
        born = stored_at - next(step.ahead for step in reversed(self._steps) if step.first <= first)
        certain = first >= self._head or born <= self._opened
        return Age(max(monotonic() - (born if certain else self._opened), 0), certain)
