"""Outgoing demand: a producer takes credit from a `CreditGate` for each item.

Credit is counted exactly; 2**31 - 1 is a large number and not infinity (Protocol.md, "Request N").
A producer waits for credit, and for room in the connection's outbox.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ..one_waiter import OneWaiter
from ..protocol.credit import Credit

__all__ = ["CreditGate"]


class CreditGate(Credit, OneWaiter):
    """The credit a peer has granted one of our streams, and the one task that waits for more.

    It is the credit itself, not an object that has it: there is one for each open stream.

    Attributes:
        closed: Whether no item will be sent any more.
        cut: Whether only a part of an item has left, and the rest never will: no item may follow.
    """

    __slots__ = ("_task", "closed", "cut")

    def __init__(self, initial: int) -> None:
        self._task = None  # first: `Credit` calls `add`
        super().__init__(initial)
        self.closed = False
        self.cut = False

    def add(self, n: int) -> None:
        """Add the credit of a REQUEST_N."""
        super().add(n)
        self._wake()

    def close(self) -> None:
        """Wake the waiting task without credit: no item will be sent any more."""
        self.closed = True
        self._wake()

    def change(self) -> Awaitable[Any]:
        """Wait until credit is added or the gate is closed. The caller awaits this at once."""
        return self._until_woken()
