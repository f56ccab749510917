"""One policy for the log: what a stranger can cause is limited in rate, and counted: `logger`.

A line costs little and a disk is finite: a peer that makes us log for each connection, or for each
frame, fills it. So of each *kind* of event the first few are logged as they come, and the rest of
that time is one line that says how many there were. The rest goes out at the level DEBUG, for those
who want all of it.

    WARNING  ws://...: the handshake with 10.0.0.7:4711 failed: no end of it in 10 s
    ... four more of them
    WARNING  1994 more lines of this kind in 10 s, the first of which was: ws://...: the ...

A kind is the text of the message before its arguments are put in, and for an exception its type and
the line that raised it: so a flood of one fault does not hide another. Peers have no part in it,
and nothing is kept for each of them.

Every module of this package logs by `logger`; a test holds them to it.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Hashable
from contextlib import suppress
from types import TracebackType
from typing import Final

import attrs
import trio

__all__ = ["PeerLog", "RateLimit", "Suppressed", "logger"]

BURST: Final = 5
"""Lines of a kind that are logged as they come, in each interval: enough to see what goes on."""

INTERVAL: Final = 10.0
"""Seconds. With `BURST` it makes at most 36 lines per minute of each kind."""

MAX_KINDS: Final = 256
"""Kinds that are told apart at a time. There are as many as places that log or raise, some dozens;
past this the rest count as one kind, so that memory has a bound."""

MAX_TEXT: Final = 300
"""Of the line that a summary repeats, so many characters."""

_REST: Final = "one of many kinds"

_ExcInfo = bool | BaseException | None


@attrs.define
class _Window:
    """The interval that began with an event of a kind."""

    began: float
    level: int
    text: str
    logged: int = 1
    suppressed: int = 0


@attrs.frozen
class Suppressed:
    """What was not logged of one kind in one interval.

    Attributes:
        count: How many lines.
        level: Of the first line of that kind that was logged.
        text: That line.
    """

    count: int
    level: int
    text: str


class RateLimit:
    """Counts the events of each kind, and says which are to be logged.

    Args:
        clock: The time, in seconds; it only has to go forward.
        burst: As `BURST`.
        interval: As `INTERVAL`.
        max_kinds: As `MAX_KINDS`.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        burst: int = BURST,
        interval: float = INTERVAL,
        max_kinds: int = MAX_KINDS,
    ) -> None:
        self._clock = clock
        self._burst = burst
        self._interval = interval
        self._max_kinds = max_kinds
        self._windows: dict[Hashable, _Window] = {}
        self._next_end = 0.0  # No window ends before this.

    def admits(self, kind: Hashable, level: int, text: Callable[[], str]) -> bool:
        """Count an event; whether it is to be logged.

        Args:
            kind: What is limited together. Call `overdue` before: an interval that is over is
                begun anew there.
            level: For the summary.
            text: Makes the line that the summary repeats; called for the first of an interval.
        """
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= self._max_kinds:
                kind = _REST
                window = self._windows.get(kind)
            if window is None:
                began = self._clock()
                if not self._windows:
                    self._next_end = began + self._interval
                self._windows[kind] = _Window(began, level, text()[:MAX_TEXT])
                return True
        if window.logged < self._burst:
            window.logged += 1
            return True
        window.suppressed += 1
        return False

    def overdue(self, *, all_of_it: bool = False) -> list[Suppressed]:
        """End the intervals whose time is over; what was suppressed in them.

        Args:
            all_of_it: End those whose time is not over, too.
        """
        now = self._clock()
        if not self._windows or (now < self._next_end and not all_of_it):
            return []
        over = [
            kind
            for kind, window in self._windows.items()
            if all_of_it or now >= window.began + self._interval
        ]
        ended = [self._windows.pop(kind) for kind in over]
        began = (window.began for window in self._windows.values())
        self._next_end = min(began, default=now) + self._interval
        return [
            Suppressed(window.suppressed, window.level, window.text)
            for window in ended
            if window.suppressed
        ]


class PeerLog:
    """A logger for what peers can cause: a `logging.Logger` with a `RateLimit` before it.

    The limit is that of the trio program that runs, by its clock; outside of one there are no
    peers, and no limit.

    Args:
        name: Of the `logging.Logger`.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def enabled_for(self, level: int) -> bool:
        """Whether lines of this level are logged at all."""
        return self._logger.isEnabledFor(level)

    def debug(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log at the level DEBUG, which has no limit: who asks for it wants all of it."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, message, args, exc_info, 3)

    def info(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log what is normal, within the limit."""
        self._log(logging.INFO, message, args, exc_info)

    def warning(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log what somebody should know of, within the limit."""
        self._log(logging.WARNING, message, args, exc_info)

    def error(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log a fault, within the limit."""
        self._log(logging.ERROR, message, args, exc_info)

    def exception(self, message: str, *args: object, exc_info: _ExcInfo = True) -> None:
        """Log the fault that is being handled, with its traceback, within the limit."""
        self._log(logging.ERROR, message, args, exc_info)

    def log(self, level: int, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log at any level; above DEBUG, within the limit."""
        self._log(level, message, args, exc_info)

    def _log(self, level: int, message: str, args: tuple[object, ...], exc_info: _ExcInfo) -> None:
        log = self._logger
        if not log.isEnabledFor(level):
            return
        if exc_info is True:
            exc_info = sys.exception()
        if level > logging.DEBUG and trio.lowlevel.in_trio_run():
            limit = _limit_of_run()
            self._report(limit.overdue())
            fault = exc_info if isinstance(exc_info, BaseException) else None
            kind = message if fault is None else (message, type(fault), _origin(fault))
            if not limit.admits(kind, level, lambda: _text(message, args)):
                level = logging.DEBUG
        self._write(level, message, args, exc_info, 4)

    def _write(
        self, level: int, message: str, args: tuple[object, ...], exc_info: _ExcInfo, depth: int
    ) -> None:
        try:
            self._logger.log(level, message, *args, exc_info=exc_info, stacklevel=depth)
        except Exception as error:
            # A filter or a handler of the application's. Many of these lines are about one request,
            # which must not end a connection.
            _complain(error)

    def settle(self, *, all_of_it: bool = False) -> None:
        """Log how much was not logged, where an interval is over.

        Every line that is logged does this. Whoever serves does it too, when a connection comes:
        the count of a flood should not wait for the next fault.

        Args:
            all_of_it: Also where the interval is not over: whoever serves ends.
        """
        self._report(_limit_of_run().overdue(all_of_it=all_of_it))

    def _report(self, suppressed: list[Suppressed]) -> None:
        for each in suppressed:
            self._write(
                each.level,
                "%d more lines of this kind in %g s, the first of which was: %s",
                (each.count, INTERVAL, each.text),
                None,
                1,
            )


def _complain(error: Exception) -> None:
    """What `logging` does where it catches an error of a handler: `logging.raiseExceptions`."""
    if logging.raiseExceptions and sys.stderr is not None:
        with suppress(Exception):  # there may be nothing to write to any more
            traceback.print_exception(error)


def _text(message: str, args: tuple[object, ...]) -> str:
    try:
        return message % args
    except Exception:  # an argument that cannot be shown must not become a fault here
        return message


def _origin(error: BaseException) -> tuple[str, int]:
    """The line that raised it, of a group that of its first exception."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    place: TracebackType | None = error.__traceback__
    if place is None:
        return "", 0
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code.co_filename, place.tb_lineno


_limit: Final[trio.lowlevel.RunVar[RateLimit | None]] = trio.lowlevel.RunVar(
    "rsocket_trio_log_limit", None
)


def _limit_of_run() -> RateLimit:
    limit = _limit.get()
    if limit is None:
        limit = RateLimit(trio.current_time)
        _limit.set(limit)
    return limit


logger: Final = PeerLog("rsocket_trio")
"""For all of this package."""
