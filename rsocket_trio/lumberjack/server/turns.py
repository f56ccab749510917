"""How much work all connections of a server do in one turn of trio's loop: `Turns`.

In a turn of its loop, trio runs every task that can go on. If each of a hundred connections decodes
for two milliseconds then, the turn takes 0.2 s, and a connection that needs ten turns for a batch
of one event waits for two seconds. So the connections together do some milliseconds of work in a
turn, and the others wait, in the order of a `FairQueue`. Work that cannot be divided, as of a
handler that begins with a large batch, is followed by as many turns as it is worth, and in these
only small work is done.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from .fair_queue import Account, FairQueue

__all__ = ["ShareOfTurns", "Turns"]

_QUANTUM: Final = 4 * 2**20
"""The work of one turn, in bytes that are inflated, of a nanosecond or two each (see
`rsocket_trio.lumberjack.BatchReader.work`). Waiting for a turn takes some 20 microseconds, so that
is half a percent."""

_SMALL: Final = 64 * 2**10
"""So much work is small. A connection that is new is expected to do as much."""

_SMALL_ONES: Final = 64
"""Small work that is done in a turn in which the quantum is used up already."""


class Turns:
    """Shares the turns of the loop among the connections of a server.

    Attributes:
        closed: Whether the work of this turn is done, so that one has to `wait`.
    """

    def __init__(self) -> None:
        self._left = _QUANTUM  # What may be done in this turn; below 0, that of later ones is used.
        self._queue: Final[FairQueue[trio.Event]] = FairQueue()
        self.closed = False

    @property
    def waiting(self) -> int:
        """The number of connections that wait for their turn."""
        return len(self._queue)

    async def wait(self, account: Account, cost: int) -> None:
        """Wait for a turn, if this one is `closed`; see `ShareOfTurns`."""
        place = self._queue.put(account, cost, trio.Event())
        try:
            await place.item.wait()
        finally:
            if place.waits:
                self._queue.remove(place)

    def spent(self, account: Account, cost: int) -> None:
        """Take note of work that was done."""
        self._queue.charge(account, cost)
        self._left -= cost
        if self._left <= 0 and not self.closed:
            self.closed = True
            self._ask()

    def _ask(self) -> None:
        with suppress(trio.RunFinishedError):  # asked once more while the last run ends
            trio.lowlevel.current_trio_token().run_sync_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._left = min(self._left + _QUANTUM, _QUANTUM)
        room = self._left
        small = _SMALL_ONES
        while (place := self._queue.first()) is not None:
            if room > 0:
                room -= place.cost
            elif small and place.cost <= _SMALL:
                small -= 1
            else:
                break
            self._queue.remove(place)
            place.item.set()
        self.closed = self._left <= 0 or len(self._queue) > 0
        if self.closed:
            self._ask()


class ShareOfTurns:
    """What one connection does.

    Args:
        turns: What all connections share.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns: Final = turns
        self._account: Final = Account()
        self._usual = _SMALL

    @property
    def closed(self) -> bool:
        """Whether the work of this turn is done, so that one would wait."""
        return self._turns.closed

    async def wait(self) -> None:
        """Wait until this connection may do work of which the cost is not known. Then call `spent`.

        Checkpoint: if the work of this turn is done.
        If cancelled: nothing has changed.
        """
        if self._turns.closed:
            await self._turns.wait(self._account, self._usual)

    def spent(self, cost: int) -> None:
        """Take note of what this work was. The next one is expected to cost as much."""
        self._usual = cost
        self._turns.spent(self._account, cost)

    async def take(self, cost: int) -> None:
        """Wait until this connection may do work that costs so much.

        Checkpoint: if the work of this turn is done.
        If cancelled: nothing has changed.
        """
        if self._turns.closed:
            await self._turns.wait(self._account, cost)
        self._turns.spent(self._account, cost)
