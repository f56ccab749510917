"""The logger of this package, `logger`, limits how often it logs each kind of event.

A peer that makes us log a line for each connection or each frame could fill the disk. So in each
interval the first few events of a *kind* are logged as they come. At the end of the interval one
line gives the number of the others. The others are logged at the level DEBUG.

    WARNING  ws://...: the handshake with 10.0.0.7:4711 failed: not finished within 10 s
    ... four more of them
    WARNING  1994 more lines of this kind in 10 s, the first of which was: ws://...: the ...

A kind is the text of the message before its arguments are put in, and for an exception also its
type and the line that raised it, so a flood of one fault does not hide another. A kind does not
depend on the peer, so no memory is used per peer.

Texts of peers in a line are escaped and cut (`rsocket_trio.log_text`).

Every module of this package logs by `logger`; a test checks this.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final

import attrs
import trio

from .log_text import SafeTracebacks, safe

__all__ = ["PeerLog", "RateLimit", "Suppressed", "logger", "reached_handlers"]

BURST: Final = 5
"""Lines of a kind that are logged as they come, in each interval: enough to see what happens."""

INTERVAL: Final = 10.0
"""The length of an interval in seconds. With `BURST`: at most 36 lines per minute of each kind."""

MAX_KINDS: Final = 256
"""Kinds that are counted separately; all others count as one kind, so that memory is bounded.
There are as many kinds as places that log or raise: some dozens."""

MAX_TEXT: Final = 300
"""Characters of the line that a summary repeats."""

_REST: Final = "one of many kinds"

_ExcInfo = bool | BaseException | None


@attrs.define
class _Window:
    """The interval that began with the first event of a kind."""

    began: float
    level: int
    text: str
    logged: int = 1
    suppressed: int = 0


@attrs.frozen
class Suppressed:
    """The lines of one kind that were not logged in one interval.

    Attributes:
        count: The number of lines.
        level: The level of the first line of the interval, which was logged.
        text: The text of that line.
    """

    count: int
    level: int
    text: str


class RateLimit:
    """Counts the events of each kind, and decides which ones are logged.

    Args:
        clock: Returns the time in seconds; it must not go backward.
        burst: See `BURST`.
        interval: See `INTERVAL`.
        max_kinds: See `MAX_KINDS`.
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
        """Count an event, and return whether to log it.

        Call `overdue` first: it ends the intervals that are over.

        Args:
            kind: Events of the same kind share a limit.
            level: The level of the summary.
            text: Makes the line that the summary repeats; called for the first event of an
                interval.
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
        """End the intervals whose time is over, and return what was suppressed in them.

        Args:
            all_of_it: End all intervals.
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
    """A `logging.Logger` with a `RateLimit` in front of it, for events that peers can cause.

    Each run of trio has one limit, by its clock. Outside of trio there are no peers, and there is
    no limit.

    Args:
        name: The name of the `logging.Logger`.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        if not any(isinstance(each, SafeTracebacks) for each in self._logger.filters):
            self._logger.addFilter(SafeTracebacks())

    def add_filter(self, see: Callable[[logging.LogRecord], bool]) -> None:
        """Have a function see each record where it is made, in the thread that logs."""
        self._logger.addFilter(see)

    def enabled_for(self, level: int) -> bool:
        """Return whether lines of this level are logged at all."""
        return self._logger.isEnabledFor(level)

    def remember_levels(self) -> None:
        """Have the logger remember which levels are enabled.

        Otherwise it takes a lock of `logging` when a level is used for the first time. The thread
        that closes the handlers may hold this lock (`logging.config` does), and wait for another
        thread that logs.
        """
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            self._logger.isEnabledFor(level)

    def debug(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log at the level DEBUG, without a limit."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, message, args, exc_info, 3)

    def info(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log a normal event, within the limit."""
        self._log(logging.INFO, message, args, exc_info)

    def warning(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log an event that an operator should know of, within the limit."""
        self._log(logging.WARNING, message, args, exc_info)

    def error(self, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log a fault, within the limit."""
        self._log(logging.ERROR, message, args, exc_info)

    def exception(self, message: str, *args: object, exc_info: _ExcInfo = True) -> None:
        """Log the exception that is being handled, with its traceback, within the limit."""
        self._log(logging.ERROR, message, args, exc_info)

    def log(self, level: int, message: str, *args: object, exc_info: _ExcInfo = None) -> None:
        """Log at any level; above DEBUG within the limit."""
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
            if not limit.admits(kind, level, lambda: _text(message, safe(args))):
                level = logging.DEBUG
        self._write(level, message, args, exc_info, 4)

    def _write(
        self, level: int, message: str, args: tuple[object, ...], exc_info: _ExcInfo, depth: int
    ) -> None:
        try:
            self._logger.log(level, message, *safe(args), exc_info=exc_info, stacklevel=depth)
        except Exception as error:  # of the application, see below
            # A filter or a handler of the application's. Many of these lines are about one request,
            # which must not end a connection.
            _complain(error)

    def settle(self, *, all_of_it: bool = False) -> None:
        """Log the summaries of the intervals that are over.

        Logging a line does this too. A server also does it when a connection comes, so that the
        summary of a flood does not wait for the next fault.

        Args:
            all_of_it: Log the summaries of all intervals, as the server is ending.
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


def reached_handlers(name: str) -> Iterator[logging.Handler]:
    """Iterate over the handlers that records of a logger reach. This takes no lock of `logging`."""
    found = logging.Logger.manager.loggerDict.get(name)
    at: logging.Logger | None = found if isinstance(found, logging.Logger) else logging.root
    while at is not None:
        yield from at.handlers
        at = at.parent if at.propagate else None


def _complain(error: Exception) -> None:
    """What `logging` does where it catches an error of a handler: `logging.raiseExceptions`."""
    if logging.raiseExceptions and sys.stderr is not None:
        with suppress(Exception):  # there may be nothing to write to any more
            traceback.print_exception(error)


def _text(message: str, args: tuple[object, ...]) -> str:
    try:
        return message % args
    except Exception:  # the `str` of an argument may raise anything, which must not end a task
        return message


def _origin(error: BaseException) -> tuple[str, int]:
    """Return file and line that raised the error; for a group, those of its first exception."""
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
"""The logger of all modules of this package."""
