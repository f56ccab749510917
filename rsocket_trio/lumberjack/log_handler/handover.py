"""The buffer between the threads that log and the thread that sends: `Handover`.

The lock is held for some microseconds at a time, and never while a thread does I/O. The sending
thread is woken only if it has asked for it, once for each time. So a flood of records does not
become a flood of wake-ups.

A signal handler, or a finalizer that the garbage collector runs, may log in the middle of a change,
in the thread that holds the lock. Such an event is put aside until the change is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from threading import Condition, RLock
from time import monotonic
from typing import Any, Final

import attrs

from .buffer import Buffer, Taken

__all__ = ["Counts", "Handover"]


@attrs.frozen
class Counts:
    """The counters of a buffer, all at one moment."""

    offered: int
    acknowledged: int
    acknowledged_size: int
    pending: int
    pending_size: int
    waiting: int
    dropped: dict[str, int]


class Handover:
    """A `Buffer` for several threads.

    Args:
        buffer: The buffer. No one else uses it.
        block_timeout: `put` waits this long for room, in seconds; ``None``: it does not wait.
        wake: Wakes the sending thread; called without the lock.
    """

    def __init__(
        self, buffer: Buffer, *, block_timeout: float | None, wake: Callable[[], None]
    ) -> None:
        self._buffer: Final = buffer
        self._block_timeout: Final = block_timeout
        self._wake: Final = wake
        self._changed: Final = Condition(RLock())
        self._changing = False
        self._aside: Final[deque[tuple[Callable[[Any], None], Any]]] = deque()
        # The sending thread wants to be woken by so many events or bytes that wait, and by drops.
        self._wake_count = self._wake_size = inf
        self._wake_drops = inf
        self._hurry = 0
        self._closing = False

    # The threads that log.

    @property
    def refuses(self) -> bool:
        """Whether `put` would drop any event, as far as one can tell without the lock."""
        return self._closing or (self._block_timeout is None and self._buffer.is_full)

    def put(self, event: bytes) -> None:
        """Add an event, or count it as dropped."""
        if self._block_timeout is not None and not self._buffer.has_room(event):
            # Otherwise the sending thread might wait for more events while this one waits for it.
            self._hurry_up()
        with self._changed:
            if self._changing:
                self._aside.append((self._buffer.offer, event))
                return
            if self._block_timeout is not None:
                self._changed.wait_for(
                    lambda: self._closing or self._buffer.has_room(event), self._block_timeout
                )
            drops = self._buffer.drops
            if self._closing:
                self._change(self._buffer.drop, "closed")
            else:
                self._change(self._buffer.offer, event)
            if self._buffer.drops != drops:
                self._changed.notify_all()  # An event that was dropped is settled.
            wake = self._is_wake_due()
        if wake:
            self._wake()

    def drop(self, reason: str | None = None) -> None:
        """Count an event as dropped.

        Args:
            reason: The reason; ``None``: the buffer is full or closed.
        """
        with self._changed:
            if reason is None:
                reason = "closed" if self._closing else "full"
            if self._changing:
                self._aside.append((self._buffer.drop, reason))
                return
            self._change(self._buffer.drop, reason)
            wake = self._is_wake_due()
        if wake:
            self._wake()

    def _hurry_up(self) -> int:
        """Have all events that wait sent soon; return the ordinal behind them."""
        with self._changed:
            target = self._buffer.next_ordinal
            self._hurry = max(self._hurry, target)
            wake = self._is_wake_due()
        if wake:
            self._wake()
        return target

    def _change(self, change: Callable[[Any], None], argument: Any) -> None:
        """Change the buffer, and make the changes that were put aside meanwhile."""
        try:
            self._changing = True
            change(argument)
        finally:
            self._changing = False
        while self._aside:
            try:
                change, argument = self._aside.popleft()
            except IndexError:  # a signal handler came in between, and has made it
                return
            self._change(change, argument)

    def _is_wake_due(self) -> bool:
        buffer = self._buffer
        if self._wake_count < inf and (
            buffer.waiting >= self._wake_count
            or buffer.waiting_size >= self._wake_size
            or self._hurried
        ):
            due = True
        else:
            due = buffer.drops > self._wake_drops
        if due:
            # One call wakes both tasks that may wait.
            self._wake_count = self._wake_size = self._wake_drops = inf
        return due

    # Those that wait for the end.

    def wait_settled(self, timeout: float) -> bool:
        """Wait until all events of before are acknowledged or dropped; return whether they are."""
        deadline = monotonic() + timeout
        target = self._hurry_up()
        with self._changed:
            if self._changing:
                return False  # in a signal handler, in the middle of a change
            return self._changed.wait_for(
                lambda: self._buffer.oldest >= target, deadline - monotonic()
            )

    def close(self) -> None:
        """Admit no more events, and let the sending thread end when it has sent those that wait."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._wake()

    def abandon(self, reason: str) -> None:
        """Drop all pending events."""
        with self._changed:
            if self._changing:  # in a signal handler, in the middle of a change
                self._aside.append((self._buffer.abandon, reason))
                return
            self._change(self._buffer.abandon, reason)
            self._changed.notify_all()

    def counts(self) -> Counts:
        """Return the counters."""
        with self._changed:
            buffer = self._buffer
            return Counts(
                offered=buffer.offered,
                acknowledged=buffer.acknowledged,
                acknowledged_size=buffer.acknowledged_size,
                pending=buffer.pending,
                pending_size=buffer.pending_size,
                waiting=buffer.waiting,
                dropped=dict(buffer.dropped),
            )

    # The sending thread.

    @property
    def closing(self) -> bool:
        """Whether no more events are admitted."""
        return self._closing

    @property
    def waiting(self) -> int:
        """The events that wait to be sent."""
        return self._buffer.waiting

    @property
    def drops(self) -> int:
        """The events that were dropped."""
        return self._buffer.drops

    @property
    def _hurried(self) -> bool:
        return self._closing or self._buffer.waits_from_before(self._hurry)

    def arm(self, count: int, size: float = inf) -> bool:
        """Ask to be woken when so much waits, or when the waiting events are to be sent soon.

        Args:
            count: Events.
            size: Bytes.

        Returns:
            Whether to wait. Otherwise this is so already.
        """
        with self._changed:
            buffer = self._buffer
            if buffer.waiting >= count or buffer.waiting_size >= size or self._hurried:
                return False
            self._wake_count, self._wake_size = count, size
            return True

    def arm_drops(self, known: int) -> bool:
        """Ask to be woken when more than ``known`` events are dropped; return whether to wait."""
        with self._changed:
            if self._buffer.drops > known:
                return False
            self._wake_drops = known
            return True

    def take(self, max_records: int, max_size: int) -> Taken | None:
        """See `Buffer.take`."""
        with self._changed:
            return self._buffer.take(max_records, max_size)

    def settle(self, taken: Taken, acknowledged: int, lost: str | None = None) -> None:
        """See `Buffer.settle`."""
        with self._changed:
            self._buffer.settle(taken, acknowledged, lost)
            self._changed.notify_all()
