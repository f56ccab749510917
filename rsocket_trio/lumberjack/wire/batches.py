"""Batches: the events of one window, as a reader delivers them, and how they are collected.

`BatchBuilder` decides where a batch begins and ends. The rules, which the text of the protocol
leaves open:

- A W frame announces how many events follow. If the window before it is short, its events are
  delivered as they are, and the new window counts.
- Events without a W frame form windows of the size announced last (a *sticky* window; some clients
  announce one window for a whole connection), or of 1 if there was none.
- A window of 0 asks for an ACK 0, so it is delivered as a batch without events.
- All frames of a batch have the version and, for events, the type of the first one.

`held_size` says how much memory a batch takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import inf
from typing import Final

import attrs

from rsocket_trio.errors import RemoteProtocolError

from .frames import LONG, SHORT
from .limits import LumberjackLimits
from .sequences import MAX_SEQUENCE, next_sequence

__all__ = ["BatchBuilder", "IncomingBatch", "held_size"]

_BATCH_COST: Final = 512
"""Bytes that a batch takes besides its events: objects, and places in queues."""

_EVENT_COST: Final = 64
"""Bytes that an event takes besides its contents: an object, and its place in a list."""


@attrs.frozen(eq=False, kw_only=True)
class IncomingBatch:
    """The events of one window.

    Attributes:
        version: 1 or 2: the version of its frames, and of the ACK frames to send.
        window: The number of events that the window announced. A batch may have fewer.
        events: The events as they arrived. The text of a J frame, or of a D frame the number of
            pairs and the pairs. `decode_event` decodes one. No event is empty.
        is_json: Whether the events are JSON texts. If not, they are key-value pairs. Both kinds
            occur in version 1, and only JSON in version 2.
        size: The bytes of the events together.
        sequences: The sequence number of each event: a `range` if they are consecutive.
        compressed: The payload of a compressed frame that contains exactly the events of this
            batch, in order, and nothing else. ``None`` if they came in any other way.
    """

    version: int
    window: int
    events: list[bytes]
    size: int
    is_json: bool
    sequences: Sequence[int]
    compressed: bytes | None = None

    def __len__(self) -> int:
        # Not that of the list, which a handler has too, and may change.
        return len(self.sequences)

    def __bool__(self) -> bool:
        # A batch without events needs its ACK too, so no test for "a batch" may miss it.
        return True

    def sequence_of(self, n: int) -> int:
        """Return the sequence number of the n-th event; the first is number 1.

        Raises:
            ValueError: There is no n-th event.
        """
        if not 1 <= n <= len(self):
            raise ValueError(f"there is no event number {n} among {len(self)}")
        return self.sequences[n - 1]

    def acks_for(self, n: int) -> list[int]:
        """Return the sequence numbers of the ACK frames that acknowledge the first n events.

        There is usually one. There is none where nothing may be sent: for no events of many, and
        for a part of a batch of version 1, whose clients take any ACK for the last one. A batch
        without events is acknowledged with 0. In version 2, an ACK 0 for events looks like a
        keep-alive, so the ACK of the event before it goes first.

        Args:
            n: How many events are acknowledged, from the first on.

        Raises:
            ValueError: There are not so many events.
        """
        count = len(self)
        if n == count == 0:
            return [0]
        if n == 0 or (self.version == 1 and n < count):
            return []
        last = self.sequence_of(n)
        if last or n == 1 or self.version == 1:
            return [last]
        return [self.sequences[n - 2], 0]


def held_size(batch: IncomingBatch) -> int:
    """Return the memory of a batch, in bytes."""
    return _memory(len(batch.events), batch.size, batch.compressed) + _BATCH_COST


def _memory(events: int, size: int, compressed: bytes | None) -> int:
    return size + _EVENT_COST * events + (0 if compressed is None else len(compressed))


class BatchBuilder:
    """Collects events until their window is full.

    The decoder appends the events of a long run to `events` itself, and then calls `ran`: a method
    call for each event would cost more than the rest of the work.

    Attributes:
        events: The events of the batch that is being collected.
        version: The version of this batch, or 0 if none has begun.
        done: The batches that are complete and not taken yet. In a compressed frame, those out of
            it, which are delivered if its checksum is right.
        window: The size of the window that was announced last; 0 before.
        expected: The sequence number of the next event, if the numbers go on as they began.
        room: How many events may follow by `ran`: none before the first event.
    """

    __slots__ = (
        "_announced",
        "_before",
        "_began_here",
        "_compressed",
        "_first",
        "_inside_pairs",
        "_is_json",
        "_last_window",
        "_limits",
        "_pairs",
        "_sequences",
        "_size",
        "_unchecked",
        "_windows",
        "_windows_before",
        "done",
        "events",
        "expected",
        "room",
        "version",
        "window",
    )

    def __init__(self, limits: LumberjackLimits) -> None:
        self._limits: Final = limits
        self.done: list[IncomingBatch] = []
        self.window = 0  # As announced last.
        self.expected = self._first = 0  # Set by the first event of each batch.
        self._before: list[IncomingBatch] | None = None  # In a compressed frame: those before it.
        self._unchecked = 0  # The memory of those out of it.
        self._began_here = False  # Whether the batch has begun with this frame.
        self._windows = self._windows_before = 0  # The number of W frames so far, and before it.
        self._last_window: float = inf  # In a compressed frame: the most of them.
        self._inside_pairs = 0  # Pairs since the last compressed frame began.
        self._restart()

    def _restart(self) -> None:
        self.events: list[bytes] = []
        self.version = 0
        self.room = 0
        self._announced = False
        self._compressed: bytes | None = None
        self._is_json = True
        self._sequences: array[int] | None = None  # Only if they are not consecutive.
        self._size = 0  # Of the frames.
        self._pairs = 0

    @property
    def held(self) -> int:
        """The memory of the batch that is being collected, in bytes, and of those not checked."""
        return _memory(len(self.events), self._size, self._compressed) + self._unchecked

    @property
    def waits(self) -> bool:
        """Whether an announced window is not full yet."""
        return self._announced

    @property
    def flushable(self) -> bool:
        """Whether events wait in a window that no W frame announced."""
        return bool(self.events) and not self._announced

    def announce(self, version: int, count: int) -> None:
        """Take a W frame.

        Raises:
            RemoteProtocolError: The window is above the limit.
        """
        if count > self._limits.max_window:
            raise RemoteProtocolError(
                f"a window of {count} events is above the limit of {self._limits.max_window}"
                " (max_window)"
            )
        self.finish()
        self._windows += 1
        if self._windows > self._last_window:
            raise self._too_many_windows()
        self.window = count
        self.version = version
        self._announced = True
        if not count:
            self._deliver()

    def check(self, version: int, size: int, is_json: bool) -> None:
        """Check whether an event frame may come next, by its head.

        Args:
            version: The version of the frame.
            size: The bytes of the frame, as far as they are known.
            is_json: Whether it is a J frame.

        Raises:
            RemoteProtocolError: The frame does not fit to its batch, or makes it too large.
        """
        self.check_version(version)
        if is_json is not self._is_json and self.events:
            raise RemoteProtocolError("one window contains D frames and J frames")
        if self._size + size > self._limits.max_batch_size:
            raise self._too_large()

    def check_version(self, version: int) -> None:
        """Check whether frames of this version may come next.

        Raises:
            RemoteProtocolError: The batch has another version.
        """
        if self.version and version != self.version:
            raise RemoteProtocolError(
                f"a window of version {self.version} contains a frame of version {version}"
            )

    def _too_large(self) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"the event frames of one batch have more than {self._limits.max_batch_size} bytes"
            " (max_batch_size)"
        )

    def _too_many_windows(self) -> RemoteProtocolError:
        return RemoteProtocolError(
            "a compressed frame contains more windows than the limit of"
            f" {self._limits.max_compressed_windows} (max_compressed_windows)"
        )

    def count_pairs(self, count: int, *, inside: bool) -> None:
        """Take note of the key-value pairs of the event that `add` gets next.

        Args:
            count: The number of pairs.
            inside: Whether the event is in a compressed frame.

        Raises:
            RemoteProtocolError: There are too many.
        """
        self._pairs += count
        self._inside_pairs += count
        if max(self._pairs, self._inside_pairs if inside else 0) > self._limits.max_batch_pairs:
            raise RemoteProtocolError(
                "a batch or a compressed frame contains more key-value pairs than the limit of"
                f" {self._limits.max_batch_pairs} (max_batch_pairs)"
            )

    def add(self, version: int, sequence: int, event: bytes, size: int, is_json: bool) -> None:
        """Take one event, after `check`.

        Args:
            version: The version of its frame.
            sequence: The sequence number.
            event: The bytes of the event.
            size: The size of the whole frame.
            is_json: Whether it came in a J frame.
        """
        if not self.events:
            self.version = version
            self.expected = self._first = sequence
            self._is_json = is_json
        self.events.append(event)
        self._size += size
        self._compressed = None
        if self._sequences is not None:
            self._sequences.append(sequence)
        elif sequence != self.expected or sequence < self._first:
            # A range cannot contain the roll-over, so that counts as a gap too.
            before = range(self._first, self._first + len(self.events) - 1)
            self._sequences = array("I", before)
            self._sequences.append(sequence)
        self._progress(next_sequence(sequence))

    def ran(self, count: int, size: int) -> None:
        """Take note of events that are in `events` already, with the numbers from `expected` on.

        Args:
            count: The number of events, at most `room`.
            size: The bytes of all their frames.

        Raises:
            RemoteProtocolError: The batch is too large.
        """
        self._size += size
        if self._size > self._limits.max_batch_size:
            raise self._too_large()
        self._compressed = None
        self._progress((self.expected + count) & MAX_SEQUENCE)

    def _progress(self, expected: int) -> None:
        missing = (self.window or 1) - len(self.events)
        if not missing:
            self._deliver()
            return
        self.expected = expected
        # A run is part of a range, so it ends before a roll-over, and at a gap.
        ranged = self._is_json and self._sequences is None and expected > self._first
        self.room = min(missing, MAX_SEQUENCE + 1 - expected) if ranged else 0

    def finish(self) -> None:
        """Deliver the events so far as a batch, if there are any."""
        if self.events:
            self._deliver()

    def begin_compressed(self) -> None:
        """Take note that the next frames come out of a compressed frame."""
        self._before, self.done = self.done, []
        self._began_here = not self.events
        self._windows_before = self._windows
        # A W frame may follow a W frame.
        self._last_window = self._windows + self._limits.max_compressed_windows
        self._inside_pairs = 0

    def end_compressed(self, payload: bytes) -> None:
        """Take note that the compressed frame was valid, and is over.

        Its payload is kept with the batch whose events it contains, if it contains nothing else.
        """
        found = self.done
        self._leave_compressed()
        if self._began_here and self._windows_before == self._windows:
            if self.events:
                self._compressed = None if found else payload
            elif len(found) == 1:
                found[0] = attrs.evolve(found[0], compressed=payload)
        self.done += found

    def _leave_compressed(self) -> None:
        self.done = self._before or []
        self._before = None
        self._unchecked = 0
        self._last_window = inf

    def take(self) -> list[IncomingBatch]:
        """Return the batches that are complete, once."""
        if self._before is not None:
            done, self._before = self._before, []
        else:
            done, self.done = self.done, []
        return done

    def drop(self) -> None:
        """Forget what is not complete, and the batches out of a frame that is not checked yet."""
        self._restart()
        if self._before is not None:
            self._leave_compressed()

    def _deliver(self) -> None:
        if self._before is not None and len(self.done) >= self._limits.max_compressed_windows:
            raise self._too_many_windows()  # They are kept until the checksum of the frame.
        events, first = self.events, self._first
        # Both heads end where the bytes of the event begin.
        head = LONG.size if self._is_json else SHORT.size
        batch = IncomingBatch(
            version=self.version,
            window=self.window if self.window or not events else 1,
            events=events,
            size=self._size - head * len(events),
            is_json=self._is_json,
            sequences=self._sequences or range(first, first + len(events)),
            compressed=self._compressed,
        )
        self.done.append(batch)
        if self._before is not None:
            self._unchecked += held_size(batch)
        self._restart()
