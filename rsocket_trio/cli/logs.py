"""Logging of the command line, on standard error. ``--verbose`` and ``--quiet`` set the level."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from rsocket_trio.escapes import escaped

from .log_thread import ThreadedHandler
from .output import json_line, utc
from .progress import CLEAR_LINE

if TYPE_CHECKING:
    import argparse

__all__ = ["flush_log", "log_to_stderr", "logger", "wiretap_logger"]

logger: Final = logging.getLogger("rsocket_trio.cli")
"""What a command tells its user while it runs."""

wiretap_logger: Final = logging.getLogger("rsocket_trio.cli.wiretap")
"""The frames that ``--wiretap`` shows."""

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TEXT_OF_WORKER: Final = "%(asctime)s %(levelname)s [worker {}] %(name)s: %(message)s"


def flush_log() -> None:
    """Wait until the log is written, for a second at most."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def log_to_stderr(
    args: argparse.Namespace,
    *,
    normally: int = logging.WARNING,
    as_json: bool = False,
    expected: tuple[type[Exception], ...] = (),
    over_progress: bool = False,
    worker: int | None = None,
) -> None:
    """Send the log of the whole process to standard error.

    Args:
        args: ``verbose`` logs everything, ``quiet`` only errors.
        normally: The level without these options.
        as_json: Print each message as a JSON object on one line.
        expected: Exceptions that are the fault of a peer or of the disk: they are logged without a
            traceback, unless there is ``verbose``.
        worker: The number of this process, if it is one of several workers.
        over_progress: On a terminal, a message takes the place of the line that shows progress.
    """
    level = logging.DEBUG if args.verbose else logging.ERROR if args.quiet else normally
    handler = ThreadedHandler(sys.stderr)
    before = CLEAR_LINE if over_progress and sys.stderr.isatty() else ""
    text = _TEXT if worker is None else _TEXT_OF_WORKER.format(worker)
    handler.setFormatter(_JsonLines() if as_json else logging.Formatter(before + text))
    if expected and not args.verbose:
        handler.addFilter(_Brief(expected))
    logging.basicConfig(level=level, handlers=[handler])


class _Brief(logging.Filter):
    """Puts the text of some exceptions behind the message, in place of a traceback."""

    def __init__(self, expected: tuple[type[Exception], ...]) -> None:
        super().__init__()
        self._expected = expected

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, self._expected):
            record.msg = f"{record.getMessage()}: {escaped(str(error))}"
            record.args = None
            record.exc_info = record.exc_text = None
        return True


class _JsonLines(logging.Formatter):
    """One JSON object for each message, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = record.exc_text or self.formatException(record.exc_info)
        return json_line(fields).decode().rstrip("\n")
