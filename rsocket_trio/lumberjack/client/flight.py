"""The windows of one connection that are on the way: `Flight`.

Each window begins at sequence number 1, so an ACK belongs to the oldest window that is not wholly
acknowledged. The time is an argument, and no bytes are kept: a lost window is encoded again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf
from typing import Final

from rsocket_trio.errors import RemoteProtocolError

from ..wire.acks import AckProgress
from .deliveries import Piece

__all__ = ["Flight"]

_MAX_USELESS: Final = 1000
"""ACKs in one second that acknowledge nothing new. Servers send a keep-alive every few seconds."""


class _Window:
    __slots__ = ("pieces", "progress")

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = deque(pieces)
        self.progress = AckProgress(sum(map(len, self.pieces)))


class Flight:
    """Matches ACKs with windows, and says how long the server may take for the next one.

    Args:
        limit: How many windows may be on the way.
        ack_timeout: See `ShipperConfig`.
        ack_deadline: See `ShipperConfig`.

    Attributes:
        acknowledged: How many events of this connection were acknowledged.
    """

    def __init__(self, limit: int, ack_timeout: float, ack_deadline: float | None) -> None:
        self.acknowledged = 0
        self._limit: Final = limit
        self._timeout: Final = ack_timeout
        self._total: Final = inf if ack_deadline is None else ack_deadline
        self._windows: deque[_Window] = deque()
        self._heard = -inf
        self._first_since = -inf  # Since when the first window is the next one.
        self._useless: int  # ACKs, of one second
        self._useless_since = -inf

    def __bool__(self) -> bool:
        """Whether windows are on the way."""
        return bool(self._windows)

    @property
    def events(self) -> int:
        """How many events are on the way."""
        return sum(len(piece) for window in self._windows for piece in window.pieces)

    @property
    def has_room(self) -> bool:
        """Whether one more window may be sent."""
        return len(self._windows) < self._limit

    def launch(self, pieces: Iterable[Piece], now: float) -> int:
        """Add a window that is being sent, and return its number of events."""
        if not self._windows:
            self._first_since = self._heard = now
        window = _Window(pieces)
        self._windows.append(window)
        return window.progress.count

    def alive(self, now: float) -> None:
        """Take note of a sign of life: the server reads."""
        self._heard = now

    def acknowledge(self, numbers: Iterable[int], now: float) -> list[int]:
        """Take sequence numbers of ACKs.

        Returns:
            The sizes of the windows that are wholly acknowledged now.

        Raises:
            RemoteProtocolError: An ACK is for events that were not sent, or too many ACKs
                acknowledge nothing. Those before it count.
        """
        self._heard = now
        complete: list[int] = []
        for number in numbers:
            if number and self._windows:
                window = self._windows[0]
                further = window.progress.acknowledge(number)
                if further:
                    self._credit(window.pieces, further)
                    if window.progress.done:
                        self._windows.popleft()
                        self._first_since = now
                        complete.append(window.progress.count)
                    continue
            elif number:
                raise RemoteProtocolError(
                    f"the server sent ACK {number}, but no events are on the way"
                )
            self._count_useless(now)
        return complete

    def _credit(self, pieces: deque[Piece], further: int) -> None:
        self.acknowledged += further
        while further:
            piece = pieces[0]
            count = min(further, len(piece))
            further -= count
            if count == len(piece):
                pieces.popleft()
            piece.delivery.acknowledge(piece, count)

    def _count_useless(self, now: float) -> None:
        if now >= self._useless_since + 1:
            self._useless_since = now
            self._useless = 0
        self._useless += 1
        if self._useless > _MAX_USELESS:
            raise RemoteProtocolError(
                f"the server sent more than {_MAX_USELESS} ACKs in a second that acknowledge"
                " nothing new"
            )

    @property
    def deadline(self) -> float:
        """When the server is overdue; infinity if nothing is on the way."""
        if not self._windows:
            return inf
        return min(self._heard + self._timeout, self._first_since + self._total)

    def overdue(self) -> str:
        """Return what the server has not done, after `deadline`."""
        if self._first_since + self._total <= self._heard + self._timeout:
            return (
                f"it has not acknowledged a window within {self._total:g} s (ack_deadline),"
                " although it may be alive"
            )
        return f"it has sent no ACK and no keep-alive for {self._timeout:g} s (ack_timeout)"

    def land(self) -> list[Piece]:
        """Return what is not acknowledged, in order, as the connection is over."""
        pieces = [piece for window in self._windows for piece in window.pieces]
        self._windows.clear()
        return pieces
