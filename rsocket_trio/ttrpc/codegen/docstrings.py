"""Comments of the .proto as docstrings, and literals of Python."""

from __future__ import annotations

import re
import textwrap
from typing import Final

__all__ = ["docstring", "literal"]

_QUOTE: Final = re.compile('"(?="|$)')


def docstring(comment: str, otherwise: str, *, deprecated: bool = False) -> list[str]:
    """Return the lines of a docstring.

    Args:
        comment: The comment in the .proto, as protoc gives it.
        otherwise: The text where there is no comment.
        deprecated: Whether the option ``deprecated`` is set.
    """
    lines = _lines(comment) or [otherwise]
    if deprecated:
        lines += ["", "Deprecated."]
    if len(lines) == 1:
        return [f'"""{lines[0]}"""']
    return [f'"""{lines[0]}', *lines[1:], '"""']


def literal(text: str) -> str:
    """Return a text as a Python literal in double quotes, in ASCII."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return '"' + escaped.replace('"', '\\"') + '"'


def _lines(comment: str) -> list[str]:
    # protoc removes the marks of the comment, and keeps the space after them.
    text = textwrap.dedent("\n".join(line.rstrip() for line in comment.split("\n")))
    lines = [_escaped(line.expandtabs()) for line in text.strip("\n").split("\n")]
    return lines if any(lines) else []


def _escaped(line: str) -> str:
    text = "".join(
        each if each.isprintable() and each != "\\" else each.encode("unicode_escape").decode()
        for each in line
    )
    # So neither three quotes in a row nor one at the end of the line ends the docstring.
    return _QUOTE.sub(r"\"", text)
