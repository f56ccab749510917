"""The bytes that are held for a peer, taken before they are held: `Account`. No I/O, no trio.

Each wire has accounts for what its peers can make it keep: requests, fragments, unread items,
answers that wait. docs/design.md, "The account of memory", says who takes from which.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ITEM_COST", "Account"]

ITEM_COST: Final = 64
"""What an item counts in addition to its own bytes. A tiny item costs more as an object than its
bytes, and an empty item would cost nothing."""


class Account:
    """The bytes that are held for one purpose, and the most of them.

    Whoever is to hold bytes takes them here first, and gives them back when they are let go. What
    happens to bytes that are not given is for the wire: its own type of error says so.

    Args:
        limit: The most bytes.
        setting: The name of the limit, for the text of errors.
        what: What the bytes are, in the same text: "are unread on this connection".

    Attributes:
        held: The bytes that are taken. Hot paths add to it themselves, after the same comparison.
        limit: The most bytes.
    """

    __slots__ = ("_setting", "_what", "held", "limit")

    def __init__(self, limit: int, setting: str, what: str) -> None:
        self.held = 0
        self.limit = limit
        self._setting = setting
        self._what = what

    def __repr__(self) -> str:
        return f"<Account {self._setting}: {self.held} of {self.limit}>"

    @property
    def refusal(self) -> str:
        """Why bytes are not given, for an error."""
        return f"more than {self.limit} bytes {self._what} ({self._setting})"

    def take(self, size: int) -> bool:
        """Take bytes; return False, and take nothing, if the limit does not allow them."""
        if self.held + size > self.limit:
            return False
        self.held += size
        return True

    def take_first(self, size: int) -> bool:
        """As `take`, but where nothing is held yet, any size is given: it could never go on."""
        if self.held and self.held + size > self.limit:
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        """Undo `take`: the bytes are held no more."""
        self.held -= size
