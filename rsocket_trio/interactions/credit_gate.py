"""Outgoing demand: a producer takes credit from a `CreditGate` for each item.

Credit is counted exactly; 2**31 - 1 is a large number and not infinity (Protocol.md, "Request N").
A producer waits for credit, and for room in the connection's outbox.
"""

from __future__ import annotations

from trio.lowlevel import checkpoint

from ..protocol.credit import Credit
from .inbox import OneWaiter

__all__ = ["CreditGate"]


class CreditGate(OneWaiter):
    """The credit a peer has granted one of our streams, and the one task that waits for more.

    Attributes:
        cut: Whether only a part of an item has left, and the rest never will: no item may follow.
    """

    __slots__ = ("_closed", "_credit", "cut")

    def __init__(self, initial: int) -> None:
        self._task = None
        self._credit = Credit(initial)
        self._closed = False
        self.cut = False

    def add(self, n: int) -> None:
        """Add the credit of a REQUEST_N."""
        self._credit.add(n)
        self._wake()

    def close(self) -> None:
        """Wake the waiting task without credit: no item will be sent any more."""
        self._closed = True
        self._wake()

    def try_take(self) -> bool:
        """Take credit for one item, if there is some."""
        return self._credit.take()

    async def take(self) -> bool:
        """Wait for credit and take it.

        Returns:
            False if the gate was closed instead.

        Checkpoint: always.
        If cancelled: nothing is taken.
        """
        if self._closed or self._credit.available:
            await checkpoint()
        while not self._closed:
            if self._credit.take():
                return True
            await self._until_woken()
        return False
