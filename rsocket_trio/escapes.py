"""Texts of peers where people read them: `escaped`, `cut`, `printable`.

A text from a peer may contain line ends, which forge further lines, and escape sequences, which a
terminal obeys; and it may be megabytes long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["Escapes", "cut", "escaped", "names_only", "printable", "size_only"]

_REMEMBERED: Final = 4096
"""Characters in a table of escapes."""

_MAX_TEXT: Final = 1000
"""Characters of a text of the peer in the text of an error."""


def cut(text: str, at_most: int) -> str:
    """Return a text without its middle, if it is longer than ``at_most`` characters."""
    size = len(text)
    if size <= at_most:
        return text
    half = at_most // 2
    return f"{text[:half]}... ({size} characters) ...{text[size - half :]}"


def size_only(secret: object) -> str:
    """Return what the ``repr`` of an object shows of a field that may be a secret.

    The size of bytes, and the type of everything else.
    """
    if isinstance(secret, bytes | bytearray):
        return f"<{len(secret)} bytes>"
    return "None" if secret is None else f"<{type(secret).__name__}>"


def names_only(pairs: Iterable[tuple[str, object]]) -> str:
    """Return what the ``repr`` of an object shows of headers or metadata: their names."""
    return f"<{', '.join(name for name, _ in pairs)}>"


class Escapes(dict[int, str]):
    """A table for `str.translate` that escapes the characters that cannot be printed.

    A text of a peer may be megabytes long, and consist of such characters. A table takes less than
    a tenth of the time and of the memory of a list of characters.

    Args:
        escape: Returns the text for such a character.
    """

    __slots__ = ("_escape",)

    def __init__(self, escape: Callable[[str], str]) -> None:
        super().__init__()
        self._escape: Final = escape

    def __missing__(self, code: int) -> str:
        character = chr(code)
        text = character if character.isprintable() else self._escape(character)
        if len(self) < _REMEMBERED:  # A peer could send all characters that there are.
            self[code] = text
        return text


_ESCAPES: Final = Escapes(lambda c: c.encode("unicode_escape").decode("ascii"))


def escaped(text: str) -> str:
    """Return a text without line ends and other characters that cannot be printed."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def printable(text: str) -> str:
    """Return a text of the peer as a part of the text of an error: escaped and cut.

    An error is printed, and its traceback is, by programs that do not know that a part of it was
    written by the peer.
    """
    return escaped(cut(text, _MAX_TEXT))
