"""The events of one call of `send`: `Delivery`, and a range of them on the way: `Piece`."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from typing import Final

from rsocket_trio.errors import RSocketError

__all__ = ["Delivery", "Piece", "ShipError"]


class ShipError(RSocketError):
    """`send` gave up: not all of its events are acknowledged. ``__cause__`` says why.

    Attributes:
        acknowledged: How many events are acknowledged, from the first of the call on. Send
            ``events[error.acknowledged:]`` again.
    """

    def __init__(self, message: str, acknowledged: int) -> None:
        super().__init__(message, acknowledged)
        self.acknowledged = acknowledged

    def __str__(self) -> str:
        return str(self.args[0])


class Piece:
    """Consecutive events of a delivery that were taken to be sent.

    Attributes:
        delivery: Whose events they are.
        start: The first one that is not acknowledged.
        stop: The one behind the last.
    """

    __slots__ = ("delivery", "start", "stop")

    def __init__(self, delivery: Delivery, start: int, stop: int) -> None:
        self.delivery: Final = delivery
        self.start = start
        self.stop = stop

    def __len__(self) -> int:
        return self.stop - self.start


class Delivery:
    """The events of one call, and which of them are not sent, on the way, or acknowledged.

    Args:
        number: Of the call. Calls are sent in the order of their numbers.
        events: The caller's events.
        finished: Called when it is over: all events are acknowledged, or it failed.

    Attributes:
        encoded: The bytes of the first events, maybe of all: they need not be encoded again.
        encoded_size: The size of these.
        left: How many events are not acknowledged.
        over: Whether nothing of it is to be sent any more.
        failure: Why it failed.
    """

    __slots__ = (
        "_finished", "_flying", "_unsent", "encoded", "encoded_size", "events", "failure", "left",
        "number", "over",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        events: Sequence[object],
        finished: Callable[[], None],
    ) -> None:
        self.number: Final = number
        self.events: Final = events
        self.encoded: list[bytes] = []
        self.encoded_size = 0
        self.left = len(events)
        self.over = False
        self.failure: Exception | None = None
        self._unsent = [(0, len(events))]
        self._flying: set[Piece] = set()
        self._finished: Final = finished

    @property
    def unsent(self) -> int:
        """How many events are not sent yet, or have to be sent again."""
        return sum(stop - start for start, stop in self._unsent)

    @property
    def acknowledged(self) -> int:
        """How many events are acknowledged, from the first on."""
        starts = [start for start, _ in self._unsent[:1]] + [each.start for each in self._flying]
        return min(starts, default=len(self.events))

    def take(self, count: int) -> Piece:
        """Take the first unsent events, at most ``count`` and without a gap between them."""
        start, stop = self._unsent.pop(0)
        if stop - start > count:
            self._unsent.insert(0, (start + count, stop))
            stop = start + count
        piece = Piece(self, start, stop)
        self._flying.add(piece)
        return piece

    def split(self, piece: Piece, position: int) -> Piece:
        """Cut a piece before the event at ``position``, and return the part behind the cut."""
        rest = Piece(self, position, piece.stop)
        piece.stop = position
        self._flying.add(rest)
        return rest

    def give_back(self, piece: Piece) -> bool:
        """Take note that a piece is lost; return whether its events are to be sent again."""
        self._flying.discard(piece)
        if self.over or not piece:
            return False
        insort(self._unsent, (piece.start, piece.stop))
        return True

    def acknowledge(self, piece: Piece, count: int) -> None:
        """Take note that the first ``count`` events of a piece are acknowledged."""
        piece.start += count
        self.left -= count
        if not piece:
            self._flying.discard(piece)
        if not self.left and not self.over:
            self.over = True
            self._finished()

    def fail(self, error: Exception | None) -> None:
        """Send nothing more of it; ``None``: the caller was cancelled, and does not wait."""
        if not self.over:
            self.over = True
            self.failure = error
            self._finished()
