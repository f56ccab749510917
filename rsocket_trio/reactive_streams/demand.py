"""`Demand`: the elements that are requested and not yet sent."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_DEMAND", "Demand"]

MAX_DEMAND: Final = 2**63 - 1
"""A demand of this many elements, or more, has no limit (rule 3.17)."""


class Demand:
    """The outstanding demand of one subscription.

    Attributes:
        outstanding: The number of elements that may be sent; at most `MAX_DEMAND`.
    """

    __slots__ = ("outstanding",)

    def __init__(self) -> None:
        self.outstanding = 0

    @property
    def unbounded(self) -> bool:
        """Whether it has no limit: it stays so, however many elements are sent."""
        return self.outstanding == MAX_DEMAND

    def add(self, n: int) -> None:
        """Add ``n``, a positive number. The sum stays at `MAX_DEMAND` if it would be larger."""
        total = self.outstanding + n
        self.outstanding = min(MAX_DEMAND, total)

    def take(self, k: int = 1) -> None:
        """Use the demand for ``k`` elements, at most `outstanding`. One without a limit stays."""
        if self.outstanding != MAX_DEMAND:
            self.outstanding -= k
