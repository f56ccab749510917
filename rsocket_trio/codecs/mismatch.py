"""The errors of a value and of an annotation, with their place: `Mismatch`, `Unconvertible`.

Both name places and types, never values: values come from a peer, and may be long or secret.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Callable, Iterable
from types import AsyncGeneratorType, CoroutineType
from typing import Any, Final, NoReturn

from ..errors import StreamError

__all__ = [
    "LIKE_TEXT",
    "UNAWAITED",
    "Mismatch",
    "OutOfBounds",
    "Unconvertible",
    "kind_of",
    "looks_like_text",
    "raise_missing",
    "unawaited",
]

LIKE_TEXT: Final = ", but it looks like plain text"
"""What is said of data that `looks_like_text`."""

UNAWAITED: Final = (CoroutineType, AsyncGeneratorType)
"""Types of what an async function gives where an ``await`` or an ``async for`` is missing."""

_MAX_MISTAKES: Final = 16
"""Mistakes in one value that are named: enough for a form, and a text that can be read."""
_MAX_STEPS: Final = 12
"""Steps of a place that are named: half of them outermost, half innermost. Data may be deep."""


_SEEN: Final = 64
"""Bytes of data that are looked at."""


def kind_of(value: object) -> str:
    """Return the name of the type of a value, for messages."""
    return "None" if value is None else type(value).__name__


def unawaited(value: Any) -> str:
    """Say what a coroutine or an async generator is, and what to do with it."""
    if isinstance(value, CoroutineType):
        return f"a coroutine: an `await` is missing before the call of {value.__qualname__}"
    return f"an async generator: take the items of {value.__qualname__} with `async for`"


def looks_like_text(data: bytes) -> bool:
    """Whether data begin like text for people, which some programs send under any MIME type."""
    try:
        return utf_8_decode(data[:_SEEN], "strict", len(data) <= _SEEN)[0].isprintable()
    except UnicodeDecodeError:
        return False


class _Located(Exception):
    """An error with a place: each level that it leaves adds a step."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []

    def within(self, step: str) -> None:
        """Add the step from one level up to here, for example ``.name`` or ``[2]``."""
        self.steps.append(step)

    def at(self, root: str) -> str:
        """Return place and reason; the place begins with ``root``."""
        steps = self.steps[::-1]
        if len(steps) > _MAX_STEPS:
            half = _MAX_STEPS // 2
            steps = [*steps[:half], "...", *steps[-half:]]
        place = root + "".join(steps)
        return f"{place.removeprefix('.')}: {self.reason}" if place else self.reason

    def __str__(self) -> str:
        return self.at("")


class Mismatch(_Located):
    """A value that is not what its annotation says.

    Attributes:
        others: Further mistakes in the same value, from the same level on.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.others: list[Mismatch] = []

    def within(self, step: str) -> None:
        """See `_Located.within`: it holds for the further mistakes, too."""
        super().within(step)
        for other in self.others:
            other.steps.append(step)

    def gather(self, parts: Iterable[tuple[str, Callable[[Any], Any], Any]]) -> None:
        """Read the parts behind that of the mistake, to find further ones.

        This costs no more than reading the value without a mistake.

        Args:
            parts: For each, its step, its reader and its value.
        """
        for step, read, value in parts:
            try:
                read(value)
            except Mismatch as other:
                other.within(step)
                self.others += [other, *other.others]
                other.others = []
                if len(self.others) >= _MAX_MISTAKES - 1:
                    del self.others[_MAX_MISTAKES - 1 :]
                    return
            except StreamError:
                return  # of a class of the application, which has seen enough

    def at(self, root: str) -> str:
        """Return places and reasons of all mistakes, separated by ``; ``."""
        return "; ".join([super(Mismatch, each).at(root) for each in (self, *self.others)])

    @classmethod
    def of(cls, expected: str, value: object) -> Mismatch:
        """Return the error for a value of a wrong type."""
        got = unawaited(value) if isinstance(value, UNAWAITED) else kind_of(value)
        return cls(f"expected {expected}, got {got}")

    @classmethod
    def another(cls, expected: str, value: object) -> Mismatch:
        """Return the error for a value of a right type that is not one of those allowed."""
        return cls(f"expected {expected}, got another {kind_of(value)}")

    @classmethod
    def refused(cls, expected: str, error: Exception) -> Mismatch:
        """Return the error for a value that code of the application does not take."""
        return cls(f"expected {expected}, got a value that it refuses ({kind_of(error)})")


class OutOfBounds(Mismatch):
    """A value of the right type that `msgspec.Meta` excludes."""


class Unconvertible(_Located, TypeError):
    """An annotation that values cannot be converted by."""


def raise_missing(expected: str) -> NoReturn:
    """Refuse a value without a required field.

    Raises:
        Mismatch: Always.
    """
    raise Mismatch(f"expected {expected}, got nothing")
