"""Options that several commands share, and the types of arguments.

A type is a function from the text of an argument to its value; argparse reports what it raises.
"""

from __future__ import annotations

import argparse
import math
from typing import Final

from rsocket_trio.transports.origins import normal_origin
from rsocket_trio.uri import parse_uri

from .command_parser import CommandParser

__all__ = [
    "above_zero",
    "add_connection_options",
    "add_json",
    "add_payload_options",
    "add_stream_options",
    "add_uri",
    "add_verbosity",
    "address",
    "header",
    "origin",
    "positive",
    "rate",
    "seconds",
]

_COMPOSITE: Final = "message/x.rsocket.composite-metadata.v0"


def add_uri(parser: argparse.ArgumentParser) -> None:
    """URI, the peer."""
    parser.add_argument(
        "uri",
        metavar="URI",
        type=address,
        help="tcp://, tls://, unix://, ws:// or wss:// address of the peer",
    )


def add_payload_options(parser: CommandParser, *, many: bool = False) -> None:
    """URI, DATA, and what goes with them."""
    add_uri(parser)
    if many:
        parser.add_argument(
            "data",
            metavar="DATA",
            nargs="*",
            help="payloads: text each, or @FILE or - for one payload a line (default: -)",
        )
    else:
        parser.add_argument(
            "data",
            metavar="DATA",
            nargs="?",
            help="data of the request: text, @FILE, or - for stdin (default: empty)",
        )
    parser.last_positional = "data"
    parser.add_argument("--route", help="route of the request")
    parser.add_argument(
        "--metadata",
        metavar="VALUE",
        action="append",
        default=[],
        help="metadata of the request: text, 0xHEX, or @FILE; or MIME=VALUE for one entry of"
        " composite metadata, which may be repeated",
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="begin a trace, to be sampled; its id is printed on stderr",
    )


def add_stream_options(parser: argparse.ArgumentParser) -> None:
    """How much of a stream is wanted."""
    parser.add_argument(
        "--prefetch", metavar="N", type=positive, help="window of demand, in items (default 256)"
    )
    parser.add_argument(
        "--take", metavar="N", type=positive, help="cancel the stream after that many items"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """JSON instead of text."""
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """How to connect; all of them have defaults."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--protocol",
        choices=["rsocket", "reactivesocket"],
        default="rsocket",
        help="what the peer speaks: rsocket (1.0, the default) or reactivesocket (draft of 2015)",
    )
    group.add_argument(
        "--data-mime", metavar="MIME", default="text/plain", help="default: text/plain"
    )
    group.add_argument(
        "--metadata-mime", metavar="MIME", default=_COMPOSITE, help=f"default: {_COMPOSITE}"
    )
    group.add_argument("--setup-data", help="data of SETUP: text, 0xHEX, or @FILE", metavar="VALUE")
    group.add_argument(
        "--setup-metadata", help="its metadata: text, 0xHEX, or @FILE", metavar="VALUE"
    )
    who = group.add_mutually_exclusive_group()
    who.add_argument(
        "--auth-simple",
        metavar="USER:PASSWORD",
        help="authenticate with SETUP: @FILE, or env:NAME for the content of a variable, keeps the"
        " password off the command line",
    )
    who.add_argument(
        "--auth-bearer", metavar="TOKEN", help="likewise with a token: TOKEN, @FILE or env:NAME"
    )
    group.add_argument(
        "--keepalive", help="interval of KEEPALIVE (default 20)", metavar="SECONDS", type=above_zero
    )
    group.add_argument(
        "--lifetime",
        help="silence after which the peer counts as dead (default 90)",
        metavar="SECONDS",
        type=above_zero,
    )
    group.add_argument(
        "--no-confirm-setup",
        action="store_true",
        help="do not wait for a KEEPALIVE that shows that SETUP was accepted; for peers that"
        " answer none",
    )
    group.add_argument(
        "--lease",
        action="store_true",
        help="ask the peer for leases, and let requests wait for them",
    )
    group.add_argument(
        "--resume",
        metavar="SECONDS",
        type=above_zero,
        help="when the connection is lost, try so long to go on over another one",
    )
    group.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        dest="headers",
        type=header,
        action="append",
        default=[],
        help="header of the WebSocket handshake; may be repeated",
    )
    tls = parser.add_argument_group("TLS (tls:// and wss://)")
    tls.add_argument("--ca", metavar="FILE", help="trust these certificates, PEM")
    tls.add_argument("--insecure", action="store_true", help="trust any certificate")
    tls.add_argument("--cert", metavar="FILE", help="our own certificate, PEM")
    tls.add_argument("--key", metavar="FILE", help="its key, PEM, if not in the same file")
    add_verbosity(parser)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """How much is logged."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-v", "--verbose", action="store_true", help="log more, with tracebacks, on stderr"
    )
    group.add_argument("-q", "--quiet", action="store_true", help="log errors only")


def positive(text: str) -> int:
    """An argument type: a whole number from 1 to 2^31-1, the largest request-n there is."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 1 <= number <= 2**31 - 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {2**31 - 1}")
    return number


def seconds(text: str) -> float:
    """An argument type: a duration in seconds, 0 allowed."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number


def above_zero(text: str) -> float:
    """An argument type: a duration in seconds, greater than 0."""
    number = seconds(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return number


def header(text: str) -> tuple[str, str]:
    """An argument type: ``Name: value``."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not 'Name: value'")
    return name.strip(), value.strip()


def rate(text: str) -> tuple[int, float]:
    """An argument type: ``N/SECONDS``, so many requests in so much time."""
    number, slash, duration = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError(f"{text!r} is not N/SECONDS")
    try:
        return positive(number), above_zero(duration)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not N/SECONDS: {error}") from None


def origin(text: str) -> str:
    """An argument type: the origin of a web page, as browsers write it."""
    try:
        return normal_origin(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def address(text: str) -> str:
    """An argument type: a URI of this package, as it was written."""
    try:
        parse_uri(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text
