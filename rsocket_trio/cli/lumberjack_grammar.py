"""The grammar of the group ``lumberjack``: its commands, options, defaults, help."""

from __future__ import annotations

from .commands import Commands, add_command, add_group
from .options import (
    above_zero,
    add_deployment,
    add_observation,
    add_server_tls,
    add_verbosity,
    add_wiretap,
    lumberjack_address,
    positive,
    size,
)
from .ship_grammar import add_ship
from .spool_options import add_spool_options

__all__ = ["add_lumberjack"]


def add_lumberjack(commands: Commands) -> None:
    """Add the group and its commands."""
    group = add_group(
        commands,
        "lumberjack",
        "receive or ship log events by Lumberjack, the protocol of Beats and Logstash",
        "",
        "serve --listen lumberjack://127.0.0.1:5044",
        "serve --listen lumberjack://127.0.0.1:5044 --spool /var/spool/events",
        "ship app.log --to lumberjack://127.0.0.1:5044",
    )
    _add_serve(group)
    add_ship(group)


def _add_serve(group: Commands) -> None:
    parser = add_command(
        group,
        "lumberjack serve",
        "lumberjack_serve",
        "receive events, and print them or keep them in a spool",
        'The command prints "listening on URI" for each address when it accepts connections.\n'
        "Then it prints each event as JSON, one per line. A batch is acknowledged when its events\n"
        "are printed; with --spool, when it is on the disk. If the reader of the output is slow,\n"
        "or the spool is full, the senders wait.\n\n"
        "SIGTERM or Ctrl-C stops the command: it reads nothing more, prints or stores what it has\n"
        "read, acknowledges it, and ends with status 0. A second signal, or the end of --grace,\n"
        "stops it at once. The senders send events that are not acknowledged again.",
        "--listen lumberjack://127.0.0.1:5044",
        "--listen lumberjack://127.0.0.1:5044 | jq -R 'fromjson? | .message'",
        "--listen lumberjack://127.0.0.1:5044 --json > events.jsonl 2> messages.jsonl",
        "--listen lumberjack://127.0.0.1:5044 --spool events --spool-size 20G --keep-age 86400",
        "--listen lumberjacks://0.0.0.0:5044 --cert cert.pem --key key.pem --ca senders.pem",
    )
    parser.add_argument(
        "--listen",
        metavar="URI",
        type=lumberjack_address,
        action="append",
        required=True,
        help="address to listen on, lumberjack://HOST:PORT, or with TLS lumberjacks://HOST:PORT;"
        " port 0 means any free port, and the default is 5044; may be repeated",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print log messages and invalid events on standard error as JSON, one object per line;"
        " the events on standard output are JSON in any case",
    )
    parser.add_argument(
        "--invalid",
        choices=["print", "close"],
        help="what to do with an event that is not valid JSON: print it on standard error and"
        " acknowledge it (print, the default), or close the connection (close): the sender then"
        " sends it again, without end; a spool keeps such events, so not with --spool",
    )
    parser.add_argument(
        "--take",
        metavar="N",
        type=positive,
        help="end after N events; the senders keep the others; not with --spool",
    )
    add_deployment(
        parser,
        "time after that to print or store the events that have been read, and to"
        " acknowledge them (default 5)",
    )
    add_observation(
        parser, ", which has to be free: with --spool; here a call is a batch, of a sender"
    )
    spool = parser.add_argument_group("spool")
    spool.add_argument(
        "--spool",
        metavar="DIR",
        help="keep the events in the spool in this directory and print none; it is made if there is"
        " none. rsocket-trio spool read DIR prints them",
    )
    add_spool_options(spool, "--spool-size", "--max-size")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-connections",
        metavar="N",
        type=positive,
        help="accept at most N connections at the same time; further ones are closed",
    )
    limits.add_argument(
        "--max-event-size",
        metavar="SIZE",
        type=size,
        help="bytes of one event (default 16M); a larger one closes its connection",
    )
    limits.add_argument(
        "--max-batch-size",
        metavar="SIZE",
        type=size,
        help="bytes of the events of one batch (default 64M); a larger one closes its connection",
    )
    limits.add_argument(
        "--idle-timeout",
        metavar="SECONDS",
        type=above_zero,
        help="close connections that send nothing for this time (default: no limit)",
    )
    add_server_tls(parser, "lumberjacks://")
    add_wiretap(parser)
    add_verbosity(parser)
