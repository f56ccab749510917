"""The errors of a spool: `SpoolError` and the classes that derive from it."""

from __future__ import annotations

from ..errors import RSocketError

__all__ = [
    "BatchTooLarge",
    "NotASpool",
    "OffsetNotStored",
    "OffsetTrimmed",
    "SpoolClosed",
    "SpoolError",
    "SpoolFailed",
    "SpoolLocked",
    "SpoolRestored",
    "SpoolTooNew",
    "WrongSpool",
]


class SpoolError(RSocketError):
    """The base class of the errors of a spool."""


class SpoolLocked(SpoolError):
    """Another block has the spool open for writing: a spool has one writer."""


class NotASpool(SpoolError):
    """The directory, or the database in it, is not a spool."""


class SpoolTooNew(SpoolError):
    """A newer version of this package has made the spool, with a format that is not known here."""


class WrongSpool(SpoolError):
    """The directory has another spool than the caller expects."""


class SpoolRestored(WrongSpool):
    """The spool was restored from an older copy and written on: its history is another one.

    What the caller has read, or wants to read, is not what it has at these offsets.

    Attributes:
        offset: The offset up to which the caller knows the history.
        end: The offset up to which the spool has the epoch that the caller knows. ``None``: it does
            not have it.
    """

    def __init__(self, offset: int, end: int | None) -> None:
        super().__init__(offset, end)
        self.offset = offset
        self.end = end

    def __str__(self) -> str:
        known = "nothing of it" if self.end is None else f"only the events up to {self.end}"
        if self.end is not None:
            # A caller that pairs an epoch with a later offset is told the same: it cannot be told.
            known += f" (or its reader has an epoch of before offset {self.offset} was stored)"
        return (
            f"the spool was restored from an older copy, and written on: of the history up to"
            f" offset {self.offset} that its reader knows, it has {known}"
        )


class SpoolClosed(SpoolError):
    """The block of `rsocket_trio.spool.open_spool` has ended.

    If it ended while an append waited, the batch may or may not be stored.
    """


class SpoolFailed(SpoolError):
    """The database failed for good, for example because its file is damaged.

    ``__cause__`` holds the error of the database, if there is one. A full disk is no reason: the
    spool tries again then.
    """


class BatchTooLarge(SpoolError):
    """The batch is larger than the whole spool may be."""


class OffsetTrimmed(SpoolError):
    """The events at this offset are not kept any more.

    Attributes:
        offset: The offset that was asked for.
        oldest: The oldest offset that is kept.
    """

    def __init__(self, offset: int, oldest: int) -> None:
        super().__init__(offset, oldest)
        self.offset = offset
        self.oldest = oldest

    def __str__(self) -> str:
        return f"offset {self.offset} is not kept any more: the oldest one is {self.oldest}"


class OffsetNotStored(SpoolError):
    """The offset is beyond the last event of the spool.

    Attributes:
        offset: The offset that was asked for.
        head: The offset that the next event will have.
    """

    def __init__(self, offset: int, head: int) -> None:
        super().__init__(offset, head)
        self.offset = offset
        self.head = head

    def __str__(self) -> str:
        return f"offset {self.offset} is beyond the head of the spool, {self.head}"
