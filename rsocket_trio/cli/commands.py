"""Add commands and groups of commands to the grammar, with their help texts."""

from __future__ import annotations

import argparse
from typing import Final, TypeAlias

from .command_parser import CommandParser
from .settings import CONFIG

__all__ = ["DASH_HINT", "STATUSES", "Commands", "add_command", "add_group"]

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # noqa: SLF001  no public name
"""What commands are added to."""

STATUSES: Final = """\
exit status:
  0    success
  1    the peer answered with an error; decode, spool read: some input is malformed;
       conformance: a rule failed
  2    wrong usage: an argument, or a file or target that it names
  3    the connection failed, was refused or was lost; serve: cannot listen; lumberjack
       ship: nothing was acknowledged for --timeout
  4    standard input, standard output, a file or the spool failed
  124  request, fnf, stream, channel, push, routes, bench: the time of --timeout was over
  130  stopped by Ctrl-C (143: by SIGTERM)
  141  the program that reads the output has closed the pipe
"""
DASH_HINT: Final = """
Put a value that begins with "-" after "--":  rsocket-trio request URI -- -5
"""


def add_command(
    commands: Commands,
    name: str,
    module: str,
    summary: str,
    details: str,
    *examples: str,
) -> CommandParser:
    """Add one command, and return its parser.

    Args:
        commands: Where to add it.
        name: Its name; that of a command in a group begins with the name of the group.
        module: The module of this package that runs it.
        summary: A line about it.
        details: More about it, for its own help.
        examples: Its arguments, as in a shell.
    """
    parser = _add(commands, name, summary, details, *examples, grouped=" " in name)
    parser.set_defaults(module=module)
    parser.add_argument(
        CONFIG,
        metavar="FILE",
        help=f"TOML file whose table [{name.replace(' ', '.')}] has options of this command, under"
        " their names without the dashes",
    )
    return parser


def add_group(
    commands: Commands, name: str, summary: str, details: str, *examples: str
) -> Commands:
    """Add a group of commands, and return what its commands are added to.

    A parsed namespace has the name of the command in the group as ``subcommand``.

    Args:
        commands: Where to add it.
        name: Its name.
        summary: A line about it.
        details: More about it, for its own help.
        examples: Commands and their arguments, as in a shell.
    """
    parser = _add(commands, name, summary, details, *examples, grouped=True)
    return parser.add_subparsers(
        dest="subcommand", metavar="COMMAND", required=True, parser_class=CommandParser
    )


def _add(
    commands: Commands, name: str, summary: str, details: str, *examples: str, grouped: bool
) -> CommandParser:
    lines = "".join(f"  rsocket-trio {name} {example}\n" for example in examples)
    # The commands of groups take no values that could begin with "-".
    hint = "" if grouped else DASH_HINT
    return commands.add_parser(
        name.rpartition(" ")[2],
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}".rstrip(),
        epilog=f"examples:\n{lines}\n{STATUSES}{hint}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
