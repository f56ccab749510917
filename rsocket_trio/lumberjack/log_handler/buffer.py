"""The events that wait or are being sent, within limits: `Buffer`. It knows nothing of threads.

Each event has an ordinal. At any time

    events offered = acknowledged + dropped + pending

where pending events wait or are being sent.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

import attrs

__all__ = ["OVERHEAD", "Buffer", "Taken", "cost_of"]

OVERHEAD: Final = 64
"""Bytes that an event takes besides its text."""


def cost_of(event: bytes) -> int:
    """Return the bytes that an event takes in the buffer."""
    return len(event) + OVERHEAD


@attrs.frozen(order=True)
class Taken:
    """Events that are being sent, in their order.

    Attributes:
        first: The ordinal of the first event.
        events: The events.
    """

    first: int
    events: Sequence[bytes] = attrs.field(order=False)


class Buffer:
    """Events that wait to be sent, and those that are being sent.

    Args:
        max_records: The events that may be pending.
        max_size: The bytes that they may take, each as in `cost_of`.
        drop_oldest: When there is no room, make room by dropping the oldest events that wait.
            Otherwise the new event is dropped.
    """

    def __init__(self, max_records: int, max_size: int, *, drop_oldest: bool) -> None:
        self._max_records: Final = max_records
        self._max_size: Final = max_size
        self._drop_oldest: Final = drop_oldest
        self._waiting: Final[deque[bytes]] = deque()
        self._in_flight: Final[dict[int, Taken]] = {}
        self._returned: Final[list[Taken]] = []
        self.waiting_size = 0
        """The bytes of the events that wait for their first sending."""
        self.pending = 0
        """The events that wait or are being sent."""
        self.pending_size = 0
        """Their bytes."""
        self.next_ordinal = 0
        """The ordinal of the next event that is admitted."""
        self.offered = 0
        """All events, also those that were dropped."""
        self.acknowledged = 0
        """The events that a receiver has acknowledged."""
        self.acknowledged_size = 0
        """Their bytes, without `OVERHEAD`."""
        self.dropped: Final[Counter[str]] = Counter()
        """The events that were dropped, by reason."""
        self.drops = 0
        """The sum of these."""

    @property
    def waiting(self) -> int:
        """The events that wait to be sent, for the first time or again."""
        return len(self._waiting) + sum([len(each.events) for each in self._returned])

    @property
    def oldest(self) -> int:
        """The ordinal of the oldest pending event; `next_ordinal` if there is none."""
        oldest = self.next_ordinal - len(self._waiting)
        if self._returned:
            oldest = min(oldest, self._returned[0].first)
        return min([oldest, *self._in_flight])

    def waits_from_before(self, ordinal: int) -> bool:
        """Return whether an event that waits is older than this ordinal, or was given back."""
        if self._returned:
            return True
        return bool(self._waiting) and self.next_ordinal - len(self._waiting) < ordinal

    def has_room(self, event: bytes) -> bool:
        """Return whether the event could be admitted now and drop no other."""
        return (
            self.pending < self._max_records
            and self.pending_size + cost_of(event) <= self._max_size
        )

    @property
    def is_full(self) -> bool:
        """Whether `offer` would drop an event of any size."""
        return self.pending >= self._max_records and not (self._drop_oldest and self._waiting)

    def offer(self, event: bytes) -> None:
        """Add an event, or count it as dropped."""
        cost = cost_of(event)
        if cost > self._max_size:
            self.drop("too_large")
            return
        if not self.has_room(event) and not (self._drop_oldest and self._make_room(cost)):
            self.drop("full")
            return
        self.offered += 1
        self._waiting.append(event)
        self.next_ordinal += 1
        self.waiting_size += cost
        self.pending += 1
        self.pending_size += cost

    def drop(self, reason: str) -> None:
        """Count an event that is not admitted."""
        self.offered += 1
        self._count_drops(reason, 1)

    def _count_drops(self, reason: str, count: int) -> None:
        self.dropped[reason] += count
        self.drops += count

    def _make_room(self, cost: int) -> bool:
        """Drop the oldest events that wait; return False, and drop none, if that is no help."""
        fixed = self.pending_size - self.waiting_size
        if self.pending - len(self._waiting) >= self._max_records or fixed + cost > self._max_size:
            return False
        while self.pending >= self._max_records or self.pending_size + cost > self._max_size:
            freed = cost_of(self._waiting.popleft())
            self.waiting_size -= freed
            self.pending -= 1
            self.pending_size -= freed
            self._count_drops("oldest", 1)
        return True

    def take(self, max_records: int, max_size: int) -> Taken | None:
        """Take the oldest events that wait.

        Args:
            max_records: Take this many at most.
            max_size: Take this many bytes at most, or one event if that is larger.

        Returns:
            The events, which the caller must settle or give back; ``None`` if none waits.
        """
        if self._returned:
            taken = self._returned.pop(0)
        elif self._waiting:
            taken = self._cut(max_records, max_size)
        else:
            return None
        self._in_flight[taken.first] = taken
        return taken

    def _cut(self, max_records: int, max_size: int) -> Taken:
        first = self.next_ordinal - len(self._waiting)
        events: list[bytes] = []
        size = 0
        while self._waiting and len(events) < max_records:
            cost = cost_of(self._waiting[0])
            if events and size + cost > max_size:
                break
            size += cost
            events.append(self._waiting.popleft())
        self.waiting_size -= size
        return Taken(first, events)

    def settle(self, taken: Taken, acknowledged: int, lost: str | None = None) -> None:
        """Account for taken events. Events that were abandoned meanwhile are ignored.

        Args:
            taken: What `take` returned.
            acknowledged: The first so many of them are acknowledged.
            lost: The reason why the others are dropped; ``None``: they are to be sent again.
        """
        if self._in_flight.pop(taken.first, None) is None:
            return
        done, rest = taken.events[:acknowledged], taken.events[acknowledged:]
        self.acknowledged += len(done)
        self.acknowledged_size += sum(map(len, done))
        self._forget(done)
        if rest and lost is None:
            insort(self._returned, Taken(taken.first + len(done), rest))
        elif rest and lost is not None:
            self._forget(rest)
            self._count_drops(lost, len(rest))

    def _forget(self, events: Sequence[bytes]) -> None:
        self.pending -= len(events)
        self.pending_size -= sum(map(cost_of, events))

    def abandon(self, reason: str) -> None:
        """Drop all pending events."""
        if self.pending:
            self._count_drops(reason, self.pending)
        self._waiting.clear()
        self._in_flight.clear()
        self._returned.clear()
        self.waiting_size = self.pending = self.pending_size = 0
