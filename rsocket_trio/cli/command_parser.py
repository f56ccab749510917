"""A parser that takes options anywhere: `CommandParser`.

In ``request URI --route greet hello``, argparse gives an empty DATA to the command when it reads
URI, and then reports ``hello`` as unknown. Its own remedy, ``parse_intermixed_args``, does not work
with subcommands.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from .exits import USAGE
from .settings import SettingsError, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CommandParser"]


class CommandParser(argparse.ArgumentParser):
    """The parser of one command.

    Attributes:
        last_positional: The name of the argument that takes the values argparse left over. It
            has one text (``nargs="?"``) or a list of texts.
    """

    last_positional: str | None = None

    def error(self, message: str) -> NoReturn:
        """Print the error, and where the options are: the usage has dozens, and hides the error."""
        self.exit(USAGE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    # The parameter names and the loose types are those of the method of argparse.
    def parse_known_args(  # type: ignore[override]  # the stub has overloads with the same types
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, then give the values left over to `last_positional`.

        Options that are not among the arguments come from the environment, or from a file.

        Raises:
            SystemExit: There are unknown options, or too many values. The error is printed.
        """
        if args is not None and self._subparsers is None:  # a command, and no group
            try:
                args = [
                    *settings(
                        self.prog.split()[1:], self._actions, self._mutually_exclusive_groups, args
                    ),
                    *args,
                ]
            except SettingsError as error:
                self.error(str(error))
        parsed, extras = super().parse_known_args(args, namespace)
        if self.last_positional is None:
            return parsed, extras
        values, unknown = _values_and_unknown_options(extras)
        given = getattr(parsed, self.last_positional)
        if isinstance(given, list):
            setattr(parsed, self.last_positional, [*given, *values])
        elif given is None and values:
            setattr(parsed, self.last_positional, values.pop(0))
            unknown += values
        else:
            unknown += values
        if unknown:
            # Here and not in the parser of all commands, which would name its own help.
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, []


def _values_and_unknown_options(extras: list[str]) -> tuple[list[str], list[str]]:
    # After "--" everything is a value.
    values: list[str] = []
    unknown: list[str] = []
    for index, extra in enumerate(extras):
        if extra == "--":
            return values + extras[index + 1 :], unknown
        (unknown if extra.startswith("-") and extra != "-" else values).append(extra)
    return values, unknown
