"""The grammar of ``conformance``: its options, defaults, help."""

from __future__ import annotations

import argparse
from urllib.parse import urlsplit

from ..uri import shown
from .commands import Commands, add_command
from .options import above_zero, add_client_tls, add_verbosity, add_wiretap, positive

__all__ = ["add_conformance"]

_SCHEMES = ("rsio", "rsios")


def add_conformance(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "conformance",
        "conformance",
        "test an implementation of rsio, rule by rule, over raw connections",
        "The implementation publishes the fixtures of rsocket_trio.testing.rsio_peer, which the\n"
        "documentation lists. For each rule there is a line: passed, failed or skipped, with the\n"
        "reason, and for failed ones with the last octets of the connection. The exit status is 1\n"
        "if a rule failed.\n\n"
        "With URI the implementation is a server. With --listen it is a client, which connects to\n"
        "this command again and again, and publishes the fixtures.",
        "rsio://127.0.0.1:7980",
        "rsio://127.0.0.1:7980 --only RSIO-07,RSIO-20 --only B12 --json",
        "rsio://127.0.0.1:7980 --pid 4711",
        "rsios://localhost:7981 --ca ca.pem",
        "--listen rsio://127.0.0.1:7980",
        "--list",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "uri",
        metavar="URI",
        type=_address,
        nargs="?",
        help="address of a server: rsio://HOST:PORT, or rsios://HOST:PORT for TLS",
    )
    where.add_argument(
        "--listen",
        metavar="URI",
        type=_plain_address,
        help="address to listen on for a client, e.g. rsio://127.0.0.1:0 for any free port",
    )
    where.add_argument("--list", action="store_true", help="print the rules, and test nothing")
    parser.add_argument(
        "--only",
        metavar="RULE,...",
        action="append",
        default=[],
        help="test only these rules; may be repeated",
    )
    parser.add_argument(
        "--pid",
        metavar="N",
        type=positive,
        help="number of the process of the implementation: its memory and open files are looked"
        " at; else the rules about memory are skipped",
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=above_zero,
        default=10.0,
        help="how long to wait for anything that has to happen (default 10)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per rule")
    add_client_tls(parser, "rsios://")
    add_wiretap(parser)
    add_verbosity(parser)


def _address(text: str) -> str:
    """An argument type: the address of a server, unchanged."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in _SCHEMES and parts.hostname and parts.port is not None
    except ValueError:
        valid = False
    if not valid:
        raise argparse.ArgumentTypeError(
            f"{shown(text)!r} is neither rsio://HOST:PORT nor rsios://HOST:PORT"
        )
    return text


def _plain_address(text: str) -> str:
    """An argument type: the address to listen on, unchanged."""
    if not text.startswith("rsio:"):
        raise argparse.ArgumentTypeError(f"{shown(text)!r} is not rsio://HOST:PORT")
    return _address(text)
