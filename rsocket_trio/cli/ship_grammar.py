"""The grammar of ``lumberjack ship``: its options, defaults, help."""

from __future__ import annotations

import argparse
import re

from .commands import Commands, add_command
from .options import (
    above_zero,
    add_client_tls,
    add_verbosity,
    add_wiretap,
    lumberjack_address,
    positive,
    seconds,
    size,
)

__all__ = ["add_ship", "field", "pattern"]


def add_ship(group: Commands) -> None:
    """Add the command to its group."""
    parser = add_command(
        group,
        "lumberjack ship",
        "lumberjack_ship",
        "ship the lines of log files",
        "Each line becomes an event. The command remembers in its registry how much of each file\n"
        "is acknowledged, so the next run ships only what is new. After a crash it begins at the\n"
        "last acknowledged line: each line arrives at least once.\n\n"
        "Without --follow the command ends when everything is acknowledged. With --follow it\n"
        "ships new lines until SIGTERM or Ctrl-C, also when files are rotated. Then it reads\n"
        "nothing more, waits for acknowledgements, and ends with status 0 if everything that was\n"
        "read is acknowledged. A second signal, or the end of --grace, stops it at once.",
        "app.log --to lumberjack://127.0.0.1:5044 --no-registry",
        "--follow '/var/log/app/*.log' --to lumberjack://logs1 --to lumberjack://logs2",
        "--follow app.log --to lumberjacks://logs --ca ca.pem --multiline-start '^[0-9]{4}-'",
        "--follow app.json --json --to lumberjack://logs",
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a log file; or a pattern in quotes, such as '/var/log/*.log': with --follow, files"
        " that match it later are shipped too. Patterns leave out compressed files (.gz, ...)"
        " and links",
    )
    parser.last_positional = "files"
    parser.add_argument(
        "--to",
        metavar="URI",
        type=lumberjack_address,
        action="append",
        required=True,
        help="address of a server, lumberjack://HOST[:PORT], or with TLS lumberjacks://HOST[:PORT];"
        " the default port is 5044; may be repeated: the others are used when one fails",
    )
    parser.add_argument(
        "--follow", action="store_true", help="wait for new lines, as tail -F does, until a signal"
    )
    parser.add_argument(
        "--status-json",
        action="store_true",
        help="print the state as JSON on standard output, one object each second and at the end",
    )
    _add_reading(parser)
    _add_events(parser)
    _add_delivery(parser)
    add_client_tls(parser, "lumberjacks://")
    add_wiretap(parser)
    add_verbosity(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading")
    registry = group.add_mutually_exclusive_group()
    registry.add_argument(
        "--registry",
        metavar="FILE",
        help="file that remembers how much of each log file is acknowledged (default"
        " rsocket-trio/ship.json in $XDG_STATE_HOME or ~/.local/state); only one process can use it"
        " at a time",
    )
    registry.add_argument(
        "--no-registry",
        action="store_true",
        help="ship each file from its beginning, and remember nothing",
    )
    group.add_argument(
        "--follow-links",
        action="store_true",
        help="patterns follow symbolic links to files and directories (default: only a path that is"
        " named, and the directories before the first wildcard, may be links)",
    )
    group.add_argument(
        "--poll",
        metavar="SECONDS",
        type=above_zero,
        default=0.5,
        help="with --follow: time between two looks at the files (default 0.5); rotate less often",
    )
    group.add_argument(
        "--close-after",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="with --follow: read a file that was renamed or deleted until it has not grown for"
        " this time (default 60); its writer may still have it open",
    )
    group.add_argument(
        "--max-line",
        metavar="SIZE",
        type=size,
        default=2**20,
        help="bytes of a line, or of several lines that are joined (default 1M, at most 2M); a"
        " longer line is cut, and its event has the flag 'truncated'",
    )
    group.add_argument(
        "--multiline-start",
        metavar="REGEX",
        type=pattern,
        help="join lines: a line that matches begins an event, the others continue it",
    )
    group.add_argument(
        "--multiline-continue",
        metavar="REGEX",
        type=pattern,
        help="join lines: a line that matches continues an event, the others begin one",
    )
    group.add_argument(
        "--multiline-max-lines",
        metavar="N",
        type=positive,
        default=500,
        help="lines of one event (default 500); further ones begin a new event",
    )
    group.add_argument(
        "--multiline-timeout",
        metavar="SECONDS",
        type=above_zero,
        default=5.0,
        help="with --follow: ship an event if no line continues it for this time (default 5)",
    )


def _add_events(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("events")
    group.add_argument(
        "--field",
        metavar="NAME=VALUE",
        dest="fields",
        type=field,
        action="append",
        default=[],
        help="add a field to each event, as fields.NAME; may be repeated",
    )
    group.add_argument(
        "--json",
        action="store_true",
        help="lines are JSON objects: their members become fields of the event, those with names of"
        " ours below 'json'; another line is the field 'message', beside the field 'error'",
    )
    group.add_argument(
        "--json-key",
        metavar="NAME",
        help="with --json: put the members below the field NAME",
    )
    group.add_argument("--host", help="host.name of the events (default: the name of this host)")
    group.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of the files, whose lines must end with the byte 0x0A (default utf-8; then"
        " files that seem to be UTF-16 or UTF-32 are refused)",
    )
    group.add_argument(
        "--invalid-bytes",
        choices=["replace", "escape"],
        default="replace",
        help="bytes that the encoding does not allow become U+FFFD (replace, the default), or"
        r" \xNN (escape)",
    )


def _add_delivery(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("delivery")
    group.add_argument(
        "--load-balance",
        action="store_true",
        help="send to all servers at the same time",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=above_zero,
        help="give up, with status 3, if nothing is acknowledged for this time (default: try on)",
    )
    group.add_argument(
        "--grace",
        metavar="SECONDS",
        type=seconds,
        default=5.0,
        help="time after the first signal for the last acknowledgements (default 5)",
    )
    group.add_argument(
        "--window",
        metavar="N",
        type=positive,
        default=2048,
        help="the largest number of events in one window (default 2048)",
    )
    group.add_argument(
        "--compression-level",
        metavar="N",
        type=int,
        choices=range(10),
        default=3,
        help="1 (fast) to 9 (small), 0: not compressed (default 3)",
    )
    group.add_argument(
        "--lumberjack-version",
        type=int,
        choices=[1, 2],
        default=2,
        help="version of the protocol (default 2); with 1, an event has the keys line, file,"
        " file_id, offset and host",
    )


def pattern(text: str) -> re.Pattern[str]:
    """An argument type: a regular expression of Python."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def field(text: str) -> tuple[str, str]:
    """An argument type: ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
