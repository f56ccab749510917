"""The grammar of the group ``spool``: its commands, options, defaults, help."""

from __future__ import annotations

import argparse

from .commands import Commands, add_command, add_group
from .options import add_json, moment, offset, positive

__all__ = ["add_spool"]


def add_spool(commands: Commands) -> None:
    """Add the group and its commands."""
    group = add_group(
        commands,
        "spool",
        "look into a spool, in which collect and lumberjack serve keep events",
        "info and read only read, also while another process writes. The process must be allowed\n"
        "to write to the directory, because the database keeps its locks there.",
        "info events",
        "read events --follow",
        "forget events old-report",
    )
    _add_info(group)
    _add_read(group)
    _add_forget(group)


def _add_info(group: Commands) -> None:
    parser = add_command(
        group,
        "spool info",
        "spool_info",
        "print what a spool holds: offsets, size, consumers",
        "",
        "events",
        "events --json | jq .head",
    )
    _add_directory(parser)
    add_json(parser)


def _add_read(group: Commands) -> None:
    parser = add_command(
        group,
        "spool read",
        "spool_read",
        "print the events of a spool as JSON, one per line",
        "The events stay in the spool. Each event has an offset: 0 for the first one ever, and\n"
        "one more for each that follows.\n\n"
        "A time TIME is one before now (90s, 15min, 2h or 7d; 15m is the same as 15min), or a\n"
        "date and a time as in 2026-11-27T14:00, in the time zone of this host, unless it ends\n"
        "with Z or +01:00. It is compared with the time at which a batch was stored, by the clock\n"
        "of the host. If this clock was set back, events with other times are printed too, and\n"
        "none is left out.\n\n"
        "An event that is not valid JSON is printed on standard error, or with --json like the\n"
        "others, as text or in hexadecimal. The exit status is 1 then.",
        "events",
        "events --from 1000 --take 10",
        "events --since 15min",
        "events --since 2026-11-27T14:00 --until 2026-11-27T14:30",
        "events --last 10 --follow",
        "events --follow --json | jq 'select(.peer) | .event.message'",
    )
    _add_directory(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--from",
        dest="start",
        metavar="OFFSET",
        type=offset,
        help="offset of the first event to print (default: the oldest one that is kept)",
    )
    where.add_argument(
        "--last",
        metavar="N",
        type=positive,
        help="begin N events before the end; with --follow, further events come after them",
    )
    where.add_argument(
        "--since",
        metavar="TIME",
        type=moment,
        help="begin with the first event that was stored at this time, or later",
    )
    parser.add_argument("--take", metavar="N", type=positive, help="end after N events")
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--until",
        metavar="TIME",
        type=moment,
        help="end before the first event that was stored at this time, or later",
    )
    end.add_argument(
        "--follow", action="store_true", help="at the end, wait for more events, until Ctrl-C"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print each event with its facts: an object with offset, stored_at (the time), peer"
        " and event",
    )


def _add_forget(group: Commands) -> None:
    parser = add_command(
        group,
        "spool forget",
        "spool_forget",
        "forget a consumer that does not come back",
        "A spool keeps the events that a consumer has not read, also if that consumer, such as a\n"
        "query of Spark, is gone for ever. spool info shows all consumers and their instances.\n\n"
        "Stop the receiver or collector first; or ask the collector while it runs:\n"
        "rsocket-trio collect --status URI --forget CONSUMER. The next start deletes what is not\n"
        "needed any more. A consumer that comes back after all begins at its own position, if the\n"
        "events are still there.",
        "events old-report",
    )
    _add_directory(parser)
    parser.add_argument("consumer", metavar="CONSUMER", help="name of the consumer")
    parser.add_argument(
        "--instance", metavar="NAME", help="forget only this instance of it, as spool info shows it"
    )


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="directory of the spool")
