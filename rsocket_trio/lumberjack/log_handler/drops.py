"""What is said about dropped events: to the receiver by an event, and on standard error.

A line on standard error goes through `logging.lastResort`, as the loggers may lead back here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import attrs

from .handover import Handover

__all__ = ["FIRST_DELAY", "INTERVAL", "DropReports", "Notice", "last_resort"]

FIRST_DELAY: Final = 1.0
"""Seconds from the first drop to its report: more are likely to follow."""
INTERVAL: Final = 10.0
"""Seconds between reports."""


@attrs.frozen
class Notice:
    """An event that tells the receiver of drops, and their numbers."""

    event: bytes
    counts: Counter[str]


class DropReports:
    """Knows which drops have been reported.

    Args:
        name: The handler, for standard error.
        encode: Makes an event of a message and numbers.
    """

    def __init__(self, name: str, encode: Callable[[str, Mapping[str, int]], bytes | None]) -> None:
        self._name: Final = name
        self._encode: Final = encode
        self._known: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()

    @property
    def known(self) -> int:
        """The drops up to the last report."""
        return self._known.total()

    def collect(self, handover: Handover) -> None:
        """Report the drops since the last call."""
        found = Counter(handover.counts().dropped)
        new = found - self._known
        self._known = found
        if new:
            self._untold += new
            self.complain(_sentence(new))

    @property
    def has_notice(self) -> bool:
        """Whether the receiver is to be told of drops."""
        return bool(self._untold)

    def take_notice(self) -> Notice | None:
        """Return the event for the receiver, if there is one."""
        if not self._untold:
            return None
        counts, self._untold = self._untold, Counter()
        event = self._encode(_sentence(counts), counts)
        return None if event is None else Notice(event, counts)

    def give_back(self, notice: Notice) -> None:
        """Tell the receiver later: the notice has not arrived."""
        self._untold += notice.counts

    def complain(self, text: str, error: BaseException | None = None) -> None:
        """Write a line to standard error, and the traceback of an error."""
        info = None if error is None else (type(error), error, error.__traceback__)
        text = f"{self._name}: {text}"
        last_resort(
            logging.LogRecord("rsocket_trio", logging.WARNING, __file__, 0, text, None, info)
        )


def last_resort(record: logging.LogRecord) -> None:
    """Write a record to standard error, unless the application has switched this off.

    A program may have closed standard error, and runs on.
    """
    handler = logging.lastResort
    if handler is not None and record.levelno >= handler.level:
        with suppress(Exception):  # `logging` lets some errors of a closed stream pass
            handler.handle(record)


def _sentence(counts: Counter[str]) -> str:
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))
    return f"{counts.total()} log records were dropped ({reasons})"
