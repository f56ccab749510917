"""How much of each spool a batch reads, and how it is cut into partitions.

All of this is arithmetic, so a batch that Spark repeats after a crash has the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import attrs

from .offsets import Offsets

__all__ = [
    "EVENTS_OF_A_TASK",
    "MAX_USUAL_PARTITIONS",
    "Limit",
    "SpoolRange",
    "cut",
    "ranges_between",
    "share",
    "usual_partitions",
]

EVENTS_OF_A_TASK: Final = 50_000
"""A task of so many events takes about 0.2 s, of which 0.01 s is what each task costs."""

MAX_USUAL_PARTITIONS: Final = 64
"""Each task asks a collector, which has 256 places for readers (`CollectorLimits.max_reads`)."""


@attrs.frozen
class Limit:
    """How much one batch may read; None: no limit.

    Attributes:
        rows: Events of all collectors together.
        size: Bytes of all collectors together.
        least: Events of all collectors together; fewer wait for more, or for their time.
    """

    rows: int | None = None
    size: int | None = None
    least: int | None = None


@attrs.frozen(order=True)
class SpoolRange:
    """A range of the offsets of a spool.

    Attributes:
        spool_id: The spool.
        start: The offset of the first event.
        stop: The offset behind the last event.
        epoch: The epoch that the spool has up to ``stop``, if it is known.
    """

    spool_id: str
    start: int
    stop: int
    epoch: str | None = None

    @property
    def count(self) -> int:
        """The number of events."""
        return self.stop - self.start


def ranges_between(start: Mapping[str, int], stop: Offsets) -> list[SpoolRange]:
    """Return what is between two offsets, without empty ranges.

    A spool that is only in one of them has no range: a new spool gets its place in the offsets
    before its first event is read, and a spool that is dropped is read no more.
    """
    return [
        SpoolRange(spool_id, start[spool_id], end, stop.epochs.get(spool_id))
        for spool_id, end in sorted(stop.items())
        if start.get(spool_id, end) < end
    ]


def usual_partitions(ranges: list[SpoolRange]) -> int:
    """Return into how many pieces a batch is cut if the user does not say it.

    The process that plans a batch does not know the cores of Spark. So the number depends on the
    events only: small batches are not cut, and a query that falls behind uses more cores.
    """
    total = sum(each.count for each in ranges)
    return max(1, min(MAX_USUAL_PARTITIONS, round(total / EVENTS_OF_A_TASK)))


def cut(ranges: list[SpoolRange], at_least: int) -> list[SpoolRange]:
    """Cut ranges, so that there are ``at_least`` pieces of about the same number of events.

    Each range has one piece at least. There are fewer pieces only if there are fewer events.
    """
    pieces = dict.fromkeys(ranges, 1)
    missing = min(at_least, sum(each.count for each in ranges)) - len(ranges)
    total = sum(each.count for each in ranges)
    if missing > 0:
        goal = total / (len(ranges) + missing)
        for each in ranges:
            pieces[each] = max(1, min(each.count, round(each.count / goal)))
        # Rounding leaves some too many or too few: correct where pieces are the largest.
        while sum(pieces.values()) < len(ranges) + missing:
            largest = max(
                (each for each in ranges if pieces[each] < each.count),
                key=lambda each: each.count / pieces[each],
            )
            pieces[largest] += 1
    return [piece for each in ranges for piece in _pieces(each, pieces[each])]


def _pieces(whole: SpoolRange, count: int) -> list[SpoolRange]:
    bounds = [whole.start + whole.count * n // count for n in range(count + 1)]
    return [attrs.evolve(whole, start=start, stop=stop) for start, stop in pairwise(bounds)]


def share(available: Mapping[str, int], limit: int) -> dict[str, int]:
    """Share a limit fairly over what is available.

    No spool gets more than it has, and what one does not use goes to the others. Each gets one
    event at least, also beyond the limit, so that none of them waits for ever.

    Args:
        available: How much each spool has.
        limit: How much all of them get, at most.
    """
    shares: dict[str, int] = {}
    left = limit
    # The smallest first: what they leave is shared by those that have more.
    waiting = sorted(available, key=lambda name: (available[name], name))
    for index, name in enumerate(waiting):
        part = min(available[name], max(1, left // (len(waiting) - index)))
        shares[name] = part
        left -= part
    return shares
