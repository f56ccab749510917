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
    "Limit",
    "SpoolRange",
    "cut",
    "ranges_between",
    "share",
    "usual_partitions",
]

FEWEST_EVENTS: Final = 100_000
"""Events of a task, about: decoding them takes 0.3 s. A task costs 0.075 s of a core more, also one
of a source that does nothing, so with fewer events it costs Spark more than it spares anyone."""

MANY_EVENTS: Final = 250_000
"""Events of a task, if nobody knows the cores: of its time, a tenth is what each task costs."""

MOST_EVENTS: Final = 2_000_000
"""Events of a task, about: decoding them takes 6 s, and so does a second attempt."""

UNKNOWN_CORES: Final = 8
"""If nobody knows the cores, so many tasks have fewer than `MANY_EVENTS`."""

MAX_TASKS: Final = 64
"""Tasks for each spool at once. Each asks its collector, which has 256 places for readers
(`CollectorLimits.max_reads`)."""


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


def usual_partitions(ranges: list[SpoolRange], cores: int | None) -> int:
    """Return into how many pieces a batch is cut, if the user does not say it.

    Small batches are not cut. Larger ones use more cores, until there is a task for each of them;
    and very large ones have several for each.

    Args:
        ranges: What the batch reads.
        cores: How many tasks Spark can run at once, if that is known.
    """
    total = sum(each.count for each in ranges)
    small, most = total // FEWEST_EVENTS, MAX_TASKS * len(ranges)
    if cores is None:
        wanted = max(min(small, UNKNOWN_CORES), min(total // MANY_EVENTS, most))
    else:
        at_once = min(cores, most)
        wanted = max(min(small, at_once), at_once * (total // (at_once * MOST_EVENTS)))
    return max(1, wanted)


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
