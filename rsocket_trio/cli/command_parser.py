"""A parser that takes options anywhere: `CommandParser`.

argparse fills every positional argument from the first run of them, an optional one with nothing,
so in ``request URI --route greet hello`` it does not know what ``hello`` is for.
(``parse_intermixed_args`` is its own remedy, and does not work under subcommands.)
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CommandParser"]


class CommandParser(argparse.ArgumentParser):
    """The parser of one command.

    Attributes:
        last_positional: The name of an argument that takes what is left over. Its values are
            texts, and it has one (``nargs="?"``) or is a list of them.
    """

    last_positional: str | None = None

    # The names and the looseness of the types are those of the method this extends.
    def parse_known_args(  # type: ignore[override]  # the overloads of the stub say no more
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the original, and what is left over belongs to `last_positional`."""
        parsed, extras = super().parse_known_args(args, namespace)
        if self.last_positional is None:
            return parsed, extras
        values, unknown = _sort_out(extras)
        given = getattr(parsed, self.last_positional)
        if isinstance(given, list):
            setattr(parsed, self.last_positional, [*given, *values])
        elif given is None and values:
            setattr(parsed, self.last_positional, values.pop(0))
            unknown += values
        else:
            unknown += values
        return parsed, unknown


def _sort_out(extras: list[str]) -> tuple[list[str], list[str]]:
    # Values, and options that nobody knows. Behind "--" everything is a value.
    values: list[str] = []
    unknown: list[str] = []
    for index, extra in enumerate(extras):
        if extra == "--":
            return values + extras[index + 1 :], unknown
        (unknown if extra.startswith("-") and extra != "-" else values).append(extra)
    return values, unknown
