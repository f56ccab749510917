"""Which history a spool has: `Epochs`. An older copy that is written on has another one.

Each time that a spool is opened for writing is an epoch with a random name. The first batch that it
stores writes down where it begins. Somebody who has read up to an offset remembers this offset and
the last epoch at that time. A spool has the same events up to there if it has this epoch up to this
offset. A spool that was restored from a copy has another epoch there, as soon as it is written on.
"""

from __future__ import annotations

import secrets
import sqlite3

import attrs

from .errors import SpoolRestored
from .extent import Extent, typed

__all__ = ["Epochs", "new_epoch", "read_epochs"]


@attrs.frozen
class Epochs:
    """The epochs of a spool, oldest first.

    Attributes:
        chain: For each one, the offset of its first event, and its name.
    """

    chain: tuple[tuple[int, str], ...] = ()

    @property
    def last(self) -> str | None:
        """The name of the last one; ``None`` if nothing was ever stored."""
        return self.chain[-1][1] if self.chain else None

    def end_of(self, epoch: str, head: int) -> int | None:
        """Return the offset up to which the spool has an epoch; ``None``: it does not have it.

        Args:
            epoch: Its name.
            head: The head of the spool.
        """
        end = head
        for first, name in reversed(self.chain):
            if name == epoch:
                return end
            end = first
        return None

    def check(self, epoch: str | None, offset: int, extent: Extent) -> None:
        """Check that the spool has an epoch up to an offset; nothing if it is ``None``.

        Nor if the offset is deleted: its epoch may be forgotten, and whoever wants the events there
        is told that.

        Raises:
            SpoolRestored: It has not.
        """
        if epoch is None or offset < extent.oldest:
            return
        end = self.end_of(epoch, extent.head)
        if end is None or end < offset:
            raise SpoolRestored(offset, end)

    def begun(self, first: int, epoch: str) -> Epochs:
        """Return these and one more, unless it is the last one already."""
        return self if self.last == epoch else Epochs((*self.chain, (first, epoch)))

    def trimmed(self, oldest: int) -> Epochs:
        """Return those that somebody may remember who needs no deleted event.

        The one that ends at the oldest offset is such an epoch too. So there are never more epochs
        than batches, and one.
        """
        kept = self.chain
        while len(kept) > 1 and kept[1][0] < oldest:
            kept = kept[1:]
        return self if kept is self.chain else Epochs(kept)


def new_epoch() -> str:
    """Return a name that no other epoch has."""
    return secrets.token_hex(8)


def read_epochs(connection: sqlite3.Connection) -> Epochs:
    """Read the epochs.

    Raises:
        SpoolFailed: The database is damaged.
    """
    rows = connection.execute("SELECT first, epoch FROM epochs ORDER BY first").fetchall()
    checked = (typed(row, int, str) for row in rows)
    return Epochs(tuple([(first, epoch) for first, epoch in checked]))
