"""The grammar of the command ``collect``: its options, defaults, help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .commands import Commands, add_command
from .options import (
    add_allow,
    add_deployment,
    add_server_tls,
    add_verbosity,
    add_verification,
    add_wiretap,
    address,
    collector_address,
    origin,
    positive,
    subscription,
)
from .spool_options import add_spool_options

__all__ = ["add_collect"]

_ENCRYPTED = "lumberjacks://, tls:// and wss://"


def add_collect(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "collect",
        "collect",
        "receive events into a spool, and give ranges of them to readers such as Spark",
        'The collector prints "listening on URI" for each address when it accepts connections.\n'
        "It receives events by Lumberjack (Beats, Logstash, rsocket-trio lumberjack ship), and by\n"
        "RSocket on the route events. An event is acknowledged when it is on the disk. While the\n"
        "spool is full, the senders wait. Readers read by RSocket.\n\n"
        "SIGTERM or Ctrl-C stops the collector: it takes nothing more, stores what it has taken,\n"
        "acknowledges it, and ends with status 0. A second signal, or the end of --grace, stops\n"
        "it at once. The senders send events that are not acknowledged again. Another start with\n"
        "the same directory goes on where the last one ended.\n\n"
        "With --status the command asks a running collector, and prints what it says.",
        "--spool events --listen lumberjack://127.0.0.1:5044 --listen tcp://127.0.0.1:7878",
        "--spool /var/spool/events --max-size 20G --listen lumberjacks://0.0.0.0:5044"
        " --listen tls://0.0.0.0:7878 --cert cert.pem --key key.pem --ca peers.pem"
        " --auth-bearer read=@token",
        "--spool events --listen tcp://127.0.0.1:7878 --subscribe tcp://sensor:7000/measurements",
        "--spool events --listen tls://0.0.0.0:7878 --cert cert.pem --key key.pem"
        " --auth-bearer send=@senders --auth-bearer read=@spark --auth-bearer admin=@admin",
        "--status tcp://127.0.0.1:7878",
        "--status tcp://127.0.0.1:7878 --json | jq .head",
        "--status tcp://127.0.0.1:7878 --forget old-query",
        "--status tls://collector:7878 --ca ca.pem --auth-bearer @admin",
    )
    parser.add_argument(
        "--spool",
        metavar="DIR",
        help="keep the events in the spool in this directory; it is made if there is none",
    )
    parser.add_argument(
        "--listen",
        metavar="URI",
        type=collector_address,
        action="append",
        help="address to listen on: lumberjack://HOST:PORT or lumberjacks:// for senders of log"
        " events; tcp://, tls://, unix://, ws:// or wss:// for RSocket; port 0 means any free"
        " port; may be repeated",
    )
    parser.add_argument(
        "--subscribe",
        metavar="URI",
        type=subscription,
        action="append",
        help="store the stream of a publisher of RSocket or rsio: tcp://HOST:PORT/ROUTE,"
        " rsio://HOST:PORT/NAME, or with a # before the route, as in ws://HOST:PORT/PATH#ROUTE;"
        " events that a publisher sends while the connection is lost are lost; may be repeated",
    )
    add_deployment(
        parser,
        "time after that to store and acknowledge what has been taken (default 5)",
    )
    parser.add_argument(
        "--status",
        metavar="URI",
        type=address,
        help="print numbers about the collector at this RSocket address, and end",
    )
    parser.add_argument(
        "--forget",
        metavar="CONSUMER",
        help="with --status: first forget this consumer, which does not come back, so that no"
        " events are kept for it; refused while an instance of it is connected",
    )
    parser.add_argument(
        "--instance",
        metavar="NAME",
        help="with --forget: only this instance of the consumer, as --status shows it",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --forget: also while an instance is connected; events that it has not read may"
        " be deleted then",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the status, or the log messages on standard error, as JSON, one object per"
        " line",
    )
    spool = parser.add_argument_group("spool")
    add_spool_options(spool, "--max-size", "--spool-size")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-connections",
        metavar="N",
        type=positive,
        help="accept at most N connections of RSocket at the same time, and N of Lumberjack;"
        " further ones are closed",
    )
    limits.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        type=origin,
        action="append",
        help="accept web pages of this origin, for example https://example.org; may be repeated;"
        " without it, no web page may connect over WebSocket",
    )
    access = parser.add_argument_group("authentication")
    add_allow(access, "Unix sockets of RSocket")
    access.add_argument(
        "--auth-bearer",
        metavar="[ROLES=]TOKEN",
        action="append",
        help="let only clients of RSocket in that have this token in SETUP: TOKEN, @FILE or"
        " env:NAME (an environment variable), which keep it off the command line; with its roles"
        " before a =, as in send=@FILE or read,admin=@FILE: send (events), read (events, positions,"
        " the status) and admin (--forget, the status); without roles it is for send and read; may"
        " be repeated, also with --auth-simple: one of them is enough; with --status: present this"
        " token",
    )
    access.add_argument(
        "--auth-simple",
        metavar="[ROLES=]USER:PASSWORD",
        action="append",
        help="the same with a user name and a password: USER:PASSWORD, @FILE or env:NAME; senders"
        " of Lumberjack have no passwords: use --ca for them",
    )
    for option, metavar, what in (
        ("--subscribe-auth-bearer", "TOKEN", "this token"),
        ("--subscribe-auth-simple", "USER:PASSWORD", "this user name and password"),
    ):
        access.add_argument(
            option,
            metavar=metavar,
            dest="subscribe_auth",
            action=_OfTheLastSubscription,
            default={},
            help=f"present {what} to the publisher of the --subscribe before it, and to no other:"
            f" {metavar}, @FILE or env:NAME",
        )
    tls = add_server_tls(parser, _ENCRYPTED)
    tls.description = (
        "With --status: --cert and --key are the certificate that this client presents, and --ca"
        " names the authorities to trust instead of the system's."
    )
    tls.add_argument(
        "--subscribe-ca",
        metavar="FILE",
        help="trust these authorities for publishers with TLS, in PEM format, instead of the"
        " system's",
    )
    add_verification(tls, "with --status: ")
    add_wiretap(parser)
    add_verbosity(parser)


class _OfTheLastSubscription(argparse.Action):
    """Keeps an option and its argument under the number of the last ``--subscribe``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        number = len(namespace.subscribe or ()) - 1
        if number < 0:
            raise argparse.ArgumentError(self, "name the publisher before it, by --subscribe")
        known = namespace.subscribe_auth
        if number in known:
            raise argparse.ArgumentError(self, "a publisher needs one of them, not several")
        namespace.subscribe_auth = {**known, number: (option_string, values)}
