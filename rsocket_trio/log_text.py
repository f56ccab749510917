"""Texts of peers in lines of the log: escaped and cut. `log_policy` uses this for every line.

A text from a peer may contain line ends, which forge further lines, and escape sequences, which a
terminal obeys; and it may be megabytes long. Errors have such texts as well: a handler's
``float(text)`` raises a `ValueError` with the whole text.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from traceback import TracebackException
from typing import Any, Final

from .escapes import cut, escaped

__all__ = ["Block", "SafeTracebacks", "safe", "safe_traceback"]

MAX_ARGUMENT: Final = 1000
"""Characters of one argument of a message."""
MAX_BLOCK: Final = 20_000
"""Characters of a traceback, or of a `Block`."""
_MAX_ERROR: Final = 4000
"""Characters of the text of one exception, or of one of its notes."""

_TEXTS: Final = ("_str", "msg", "text")
"""Where `TracebackException` has the text of an exception, and those of a `SyntaxError`."""
_PLAIN: Final = (int, float, bool, type(None))


class Block(str):
    """A text of our own that has several lines. It contains no text of a peer."""

    __slots__ = ()


class _Safe:
    """An argument of a message, whose text is made when the line is written."""

    __slots__ = ("_argument",)

    def __init__(self, argument: object) -> None:
        self._argument = argument

    def __str__(self) -> str:
        text = str(self._argument)
        if isinstance(self._argument, Block):
            return cut(text, MAX_BLOCK)
        return escaped(cut(text, MAX_ARGUMENT))

    def __repr__(self) -> str:
        return escaped(cut(repr(self._argument), MAX_ARGUMENT))


def safe(arguments: tuple[object, ...]) -> tuple[object, ...]:
    """Return arguments of a message whose texts are escaped and cut."""
    return tuple([each if type(each) in _PLAIN else _Safe(each) for each in arguments])


class SafeTracebacks(logging.Filter):
    """Makes the texts of exceptions in tracebacks safe. A traceback without such texts stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter.filter`."""
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            try:
                text, usual = safe_traceback(record.exc_info[1])
            except Exception:  # an exception of the application that cannot be formatted
                return True  # `logging` reports it
            if not usual:
                # `logging.Formatter` uses this in place of a text of its own.
                record.exc_text = text
        return True


def safe_traceback(error: BaseException) -> tuple[str, bool]:
    """Return the text of a traceback, and whether it is the usual text."""
    captured = TracebackException.from_exception(error, compact=True)
    changed = False
    for each in _all_of(captured):
        changed |= _clean(each)
    text = "".join(captured.format()).rstrip("\n")
    return cut(text, MAX_BLOCK), not changed and len(text) <= MAX_BLOCK


def _all_of(captured: TracebackException) -> Iterator[TracebackException]:
    waiting = [captured]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
        waiting += each.exceptions or ()


def _clean(captured: TracebackException) -> bool:
    """Make the texts of one exception safe; return whether one of them was not."""
    values = vars(captured)
    before: dict[str, Any] = {name: values.get(name) for name in _TEXTS}
    after: dict[str, Any] = {n: _indented(text) for n, text in before.items() if type(text) is str}
    notes = values.get("__notes__")
    if isinstance(notes, list):
        before["__notes__"] = notes
        after["__notes__"] = [_indented(note) if isinstance(note, str) else note for note in notes]
    values.update(after)
    return any(before[name] != text for name, text in after.items())


def _indented(text: str) -> str:
    """Return a text whose further lines are indented, so that they are no lines of the log."""
    text = text.removesuffix("\n")
    return "\n    ".join(map(escaped, cut(text, _MAX_ERROR).split("\n")))
