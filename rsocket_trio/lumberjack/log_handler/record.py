"""A `logging.LogRecord` as an event, with the field names of the Elastic Common Schema (ECS).

The fields are objects in objects, ``{"log": {"level": "info"}}``, as Beats send them. Logstash then
finds them as ``[log][level]``.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from os import getpid
from time import gmtime, strftime
from typing import Any, Final

from .json_text import as_text
from .worker import MARK

__all__ = ["OWN_FIELDS", "EventMaker", "timestamp"]

ECS_VERSION: Final = "1.6.0"
"""The version of ECS that the logging libraries of Elastic name."""

OWN_FIELDS: Final = frozenset({"@timestamp", "message", "log", "process", "error", "extra"})
"""The fields that come from a record. ``extra`` has values of ``extra=`` whose names are in use."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "asctime",
    "message",
    "taskName",
    MARK,
}
_TRACEBACKS: Final = logging.Formatter()


class EventMaker:
    """Makes events of records.

    Args:
        fields: Fields that each event gets. They replace ``host`` and ``ecs``.
    """

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._constant: Final = {
            "ecs": {"version": ECS_VERSION},
            "host": {"name": socket.gethostname()},
            **fields,
        }

    def event(self, record: logging.LogRecord, message: str) -> dict[str, object]:
        """Return the event of a record.

        Args:
            record: The record.
            message: Its text.
        """
        event: dict[str, object] = {
            "@timestamp": timestamp(record.created),
            "message": message,
            "log": {
                "level": record.levelname.lower(),
                "logger": record.name,
                "origin": {
                    "file": {"name": record.filename, "line": record.lineno},
                    "function": record.funcName,
                },
            },
            "process": {
                "pid": record.process,
                "name": record.processName,
                "thread": {"id": record.thread, "name": record.threadName},
            },
            **self._constant,
        }
        if record.exc_info or record.exc_text or record.stack_info:
            error = _error(record)
            if error:
                event["error"] = error
        others: dict[str, object] = {}
        for name, value in vars(record).items():
            if name in _STANDARD:
                continue
            if name in event or name in OWN_FIELDS:
                others[name] = value
            else:
                event[name] = value
        if others:
            event["extra"] = others
        return event

    def notice(self, now: float, message: str, drops: Mapping[str, int]) -> dict[str, object]:
        """Return an event of the handler itself."""
        return {
            "@timestamp": timestamp(now),
            "message": message,
            "log": {
                "level": "warning",
                "logger": "rsocket_trio.lumberjack",
                "dropped": dict(drops),
            },
            "process": {"pid": getpid()},
            **self._constant,
        }


def timestamp(seconds: float) -> str:
    """Return a time in UTC, with milliseconds."""
    # The float is just below the number of milliseconds as often as above it.
    whole, milliseconds = divmod(round(seconds * 1_000_000) // 1000, 1000)
    return f"{_second(whole)}.{milliseconds:03d}Z"


def _make_second() -> Callable[[int], str]:
    """Return a function that formats seconds, and keeps the last one: most records share it."""
    last = (0, "1970-01-01T00:00:00")

    def second(whole: int) -> str:
        nonlocal last
        number, text = last  # one step, as threads share it
        if number != whole:
            text = strftime("%Y-%m-%dT%H:%M:%S", gmtime(whole))
            last = whole, text
        return text

    return second


_second: Final = _make_second()


def _error(record: logging.LogRecord) -> dict[str, object]:
    found: dict[str, object] = {}
    info = record.exc_info
    if isinstance(info, tuple) and info[0] is not None:
        kind = info[0]
        plain = kind.__module__ in {"builtins", "__main__"}
        found["type"] = kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"
        found["message"] = _text_of(info[1])
    stack = record.exc_text or ""
    if "type" in found and not stack:
        stack = _traceback(info)
    if record.stack_info:
        stack = f"{stack}\n{record.stack_info}" if stack else record.stack_info
    if stack:
        found["stack_trace"] = stack
    return found


def _text_of(error: object) -> str:
    try:
        return str(error)
    except Exception:  # `str` runs code of the application, which may raise anything
        return as_text(error)


def _traceback(info: Any) -> str:
    try:
        return _TRACEBACKS.formatException(info)
    except Exception as error:  # as above
        return f"<a traceback that cannot be formatted: {type(error).__name__}>"
