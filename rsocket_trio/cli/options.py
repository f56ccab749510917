"""Options that several commands share, and the types of arguments.

A type is a function from the text of an argument to its value. argparse prints its errors.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from keyword import iskeyword
from math import inf
from typing import Final

from rsocket_trio.sizes import parse_size
from rsocket_trio.wires import wire_of

from .command_parser import CommandParser

__all__ = [
    "above_zero",
    "add_allow",
    "add_client_tls",
    "add_connection_options",
    "add_deployment",
    "add_json",
    "add_observation",
    "add_payload_options",
    "add_prefetch",
    "add_repeats",
    "add_server_tls",
    "add_stream_options",
    "add_tls",
    "add_uri",
    "add_verbosity",
    "add_verification",
    "add_wiretap",
    "address",
    "age",
    "any_address",
    "class_name",
    "collector_address",
    "header",
    "lumberjack_address",
    "moment",
    "offset",
    "origin",
    "pages_address",
    "port",
    "positive",
    "rate",
    "rsio_address",
    "seconds",
    "server_name",
    "size",
    "subscription",
    "target_or_address",
    "ttrpc_address",
    "who",
]

_NOBODY: Final = 2**32 - 1  # what the kernel takes for "no id"
_UNITS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_CBOR: Final = "application/cbor"
_COMPOSITE: Final = "message/x.rsocket.composite-metadata.v0"


def add_uri(parser: argparse.ArgumentParser) -> None:
    """Add URI, the address of the peer."""
    parser.add_argument(
        "uri",
        metavar="URI",
        type=address,
        help="address of the peer: tcp://, tls://, unix://, ws:// or wss://",
    )


def add_payload_options(parser: CommandParser, *, many: bool = False) -> None:
    """Add URI, DATA, and the options of a request."""
    add_uri(parser)
    if many:
        parser.add_argument(
            "data",
            metavar="DATA",
            nargs="*",
            help="payloads: each DATA is JSON, text or 0xHEX, or @FILE for one payload per line, or"
            " - for one payload per line of standard input (default: -)",
        )
    else:
        parser.add_argument(
            "data",
            metavar="DATA",
            nargs="?",
            help="data of the request: JSON, text, 0xHEX, @FILE, or - for standard input (default:"
            " none)",
        )
    parser.last_positional = "data"
    parser.add_argument("--route", help="route of the request")
    parser.add_argument(
        "--tag",
        metavar="TEXT",
        dest="tags",
        action="append",
        default=[],
        help="routing tag behind the route; may be repeated",
    )
    parser.add_argument(
        "--metadata",
        metavar="VALUE",
        action="append",
        default=[],
        help="MIME=VALUE: one entry of composite metadata, may be repeated; or text, 0xHEX or"
        " @FILE: raw metadata, sent unchanged",
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="start a sampled trace and print its id on standard error",
    )


def add_prefetch(parser: argparse.ArgumentParser) -> None:
    """Add ``--prefetch``, the window of a stream."""
    parser.add_argument(
        "--prefetch",
        metavar="N",
        type=positive,
        help="number of items that the peer may send in advance (default 256)",
    )


def add_stream_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that limit a stream."""
    add_prefetch(parser)
    parser.add_argument(
        "--take", metavar="N", type=positive, help="cancel the stream after N items"
    )


def add_repeats(parser: argparse.ArgumentParser) -> None:
    """Add the options that send a request once more."""
    parser.add_argument(
        "--retry",
        metavar="N",
        type=positive,
        help="send it again up to N times, after waits of up to 10 s, while the peer has not"
        " processed it, as it is too busy",
    )
    parser.add_argument(
        "--idempotent",
        action="store_true",
        help="the peer may process it twice, so --retry and --reconnect send it again also if"
        " nobody knows whether it was processed",
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add ``--json``: print JSON instead of text."""
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a connection. All of them have defaults."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--protocol",
        choices=["rsocket", "reactivesocket"],
        default="rsocket",
        help="protocol of the peer: rsocket (1.0, the default) or reactivesocket (draft of 2015)",
    )
    group.add_argument(
        "--data-mime",
        metavar="MIME",
        default=_CBOR,
        help="MIME type of the data: CBOR and JSON are written and printed as JSON, others as they"
        f" are (default {_CBOR})",
    )
    group.add_argument(
        "--raw",
        action="store_true",
        help="send data and print answers as they are, whatever --data-mime says",
    )
    group.add_argument(
        "--metadata-mime",
        metavar="MIME",
        default=_COMPOSITE,
        help=f"MIME type of the metadata (default {_COMPOSITE})",
    )
    group.add_argument(
        "--setup-data",
        help="data of the SETUP frame: JSON or text, 0xHEX or @FILE",
        metavar="VALUE",
    )
    group.add_argument(
        "--setup-metadata",
        help="metadata of the SETUP frame: text, 0xHEX or @FILE",
        metavar="VALUE",
    )
    authentication = group.add_mutually_exclusive_group()
    authentication.add_argument(
        "--auth-simple",
        metavar="USER:PASSWORD",
        help="authenticate with a user name and a password, in SETUP; use @FILE or env:NAME (an"
        " environment variable) to keep the password off the command line",
    )
    authentication.add_argument(
        "--auth-bearer",
        metavar="TOKEN",
        help="authenticate with a token, in SETUP: TOKEN, @FILE or env:NAME",
    )
    group.add_argument(
        "--keepalive",
        help="time between two KEEPALIVE frames (default 20)",
        metavar="SECONDS",
        type=above_zero,
    )
    group.add_argument(
        "--max-lifetime",
        help="time without any frame after which the connection counts as lost (default 90)",
        metavar="SECONDS",
        type=above_zero,
    )
    group.add_argument(
        "--no-confirm-setup",
        action="store_true",
        help="do not wait for the KEEPALIVE that shows that the peer accepted SETUP; for peers that"
        " never send one",
    )
    group.add_argument(
        "--lease",
        action="store_true",
        help="ask the peer for leases; requests wait until a lease allows them",
    )
    group.add_argument(
        "--resume",
        metavar="SECONDS",
        type=above_zero,
        help="if the connection is lost, try for SECONDS to resume the session over a new one",
    )
    group.add_argument(
        "--reconnect",
        action="store_true",
        help="wait for a server that is not there, and for the next one when it stops; print each"
        " change on standard error",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=above_zero,
        default=math.inf,
        help="how long all of it may take, from connecting on; then the request is cancelled, and"
        " the status is 124 (default: no limit)",
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
    add_client_tls(parser)
    add_wiretap(parser)
    add_verbosity(parser)


def add_wiretap(parser: argparse.ArgumentParser) -> None:
    """Add the options that `tapped` reads, of a command with connections."""
    group = parser.add_argument_group("frames")
    group.add_argument(
        "--wiretap",
        action="store_true",
        help="print each frame that is sent (->) or received (<-) on standard error, behind TLS and"
        " without passwords and tokens",
    )
    group.add_argument(
        "--wiretap-file",
        metavar="FILE",
        help="write them into FILE, a JSON object for each, which decode @FILE reads",
    )


def add_client_tls(parser: argparse.ArgumentParser, schemes: str = "tls:// and wss://") -> None:
    """Add the options that `client_context` reads."""
    group = add_tls(parser, "certificate that this client presents", schemes)
    group.add_argument(
        "--ca",
        metavar="FILE",
        help="trust the certificates in FILE, in PEM format, instead of the system's",
    )
    add_verification(group)


def add_verification(group: argparse._ActionsContainer, where: str = "") -> None:
    """Add the options that say which certificate of a server is good; ``where`` begins the help."""
    group.add_argument(
        "--tls-server-name",
        metavar="NAME",
        type=server_name,
        help=f"{where}name that the server's certificate must have (default: the host of the"
        " address)",
    )
    group.add_argument("--insecure", action="store_true", help=f"{where}accept every certificate")


def add_tls(
    parser: argparse.ArgumentParser, certificate: str, schemes: str = "tls:// and wss://"
) -> argparse._ArgumentGroup:
    """Add ``--cert``, which is this ``certificate``, and ``--key``; return their group."""
    group = parser.add_argument_group(f"TLS ({schemes})")
    group.add_argument("--cert", metavar="FILE", help=f"{certificate}, in PEM format")
    group.add_argument(
        "--key",
        metavar="FILE",
        help="private key of --cert, in PEM format, if it is in another file",
    )
    return group


def add_server_tls(parser: argparse.ArgumentParser, schemes: str) -> argparse._ArgumentGroup:
    """Add the options that `server_context` reads; return their group."""
    group = add_tls(parser, "certificate chain of the server", schemes)
    group.add_argument(
        "--ca",
        metavar="FILE",
        help="accept only peers with a certificate that these authorities have issued, in PEM"
        " format",
    )
    group.add_argument(
        "--client-cert",
        choices=["required", "optional"],
        help="with --ca: whether peers need a certificate (default required)",
    )
    return group


def add_allow(parser: argparse._ActionsContainer, where: str) -> None:
    """Add ``--allow``; ``where`` names the addresses whose peers are known."""
    parser.add_argument(
        "--allow",
        metavar="WHO",
        type=who,
        action="append",
        default=[],
        help="who may connect, others are disconnected: same-user, root, uid:N or gid:N on"
        f" {where}; may be repeated (default: everybody)",
    )


def add_deployment(parser: argparse.ArgumentParser, grace: str) -> None:
    """Add the options for the health and the end of a server.

    Args:
        parser: The parser of the command.
        grace: The help of ``--grace``.
    """
    group = parser.add_argument_group("health and end")
    group.add_argument(
        "--health",
        metavar="URL",
        type=pages_address,
        action="append",
        default=[],
        help="answer probes at this address, for example http://127.0.0.1:8080: a GET of /live with"
        " 200, of /ready with 200 or 503; ws:// and wss:// addresses answer these paths anyway",
    )
    group.add_argument(
        "--stop-delay",
        metavar="SECONDS",
        type=seconds,
        default=0.0,
        help="after the first signal only /ready changes, and all is served for so long, until"
        " balancers send no new clients (default 0)",
    )
    group.add_argument(
        "--stop-spread",
        metavar="SECONDS",
        type=seconds,
        default=0.0,
        help="then tell each connection within so long, at a random moment, that the server stops,"
        " so that not all clients connect elsewhere in one moment (default 0)",
    )
    group.add_argument("--grace", metavar="SECONDS", type=seconds, default=5.0, help=grace)
    group.add_argument(
        "--connection-age",
        metavar="SECONDS[/GRACE]",
        type=age,
        help="tell each connection of this age, 10 %% more or less, that it ends; what is open may"
        " go on for GRACE seconds (default: without an end)",
    )


def add_observation(parser: argparse.ArgumentParser, log: str = "") -> None:
    """Add the options that `Deployment.observing` reads; ``log`` ends the help of the access log.

    `add_deployment` adds ``--health``, where the page is.
    """
    group = parser.add_argument_group("observation")
    group.add_argument(
        "--access-log",
        metavar="FILE",
        nargs="?",
        const="-",
        help="write a line for each call that has ended to FILE, or to standard output (-, the"
        f" default){log}",
    )
    group.add_argument(
        "--access-log-format",
        choices=["logfmt", "json"],
        help="what these lines look like (default logfmt)",
    )
    group.add_argument(
        "--metrics",
        action="store_true",
        help="answer a GET of /metrics at the --health addresses with numbers for Prometheus: of"
        " connections and calls",
    )


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Add the options that set the amount of logging."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="log everything on standard error, and print tracebacks of errors",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="log errors only")


def positive(text: str) -> int:
    """An argument type: a whole number from 1 to 2^31-1, the largest request-n."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 1 <= number <= 2**31 - 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {2**31 - 1}")
    return number


def port(text: str) -> int:
    """An argument type: a port of TCP."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 1 to 65535")
    return int(text)


def server_name(text: str) -> str:
    """An argument type: a name or an address that a certificate may have."""
    try:
        usable = text.encode("idna")
    except UnicodeError:
        usable = b""
    if not usable:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a host")
    return text


def seconds(text: str) -> float:
    """An argument type: a duration in seconds, 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return number


def above_zero(text: str) -> float:
    """An argument type: a duration in seconds, greater than 0."""
    number = seconds(text)
    if number == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def moment(text: str) -> float:
    """An argument type: a time, or how long ago it was, as seconds since 1970."""
    ago = re.fullmatch(r"([0-9]{1,9}) ?(s|m|min|h|d)( ago)?", text, re.ASCII)
    if ago is not None:
        return max(time.time() - int(ago[1]) * _UNITS[ago[2]], 0.0)  # A spool takes no other time.
    try:
        # Without a time zone, it is the one of this host.
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time, such as 2026-11-27T14:00, 2026-11-27T13:00Z, or 15min (before"
            " now; also s, h, d)"
        ) from None


def header(text: str) -> tuple[str, str]:
    """An argument type: ``Name: value``."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError("a header is 'NAME: VALUE', with a colon")
    return name.strip(), value.strip()


def rate(text: str) -> tuple[int, float]:
    """An argument type: ``N/SECONDS``, a number of requests and a time in seconds."""
    number, slash, duration = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError(f"{text!r} is not N/SECONDS, for example 100/1")
    try:
        return positive(number), above_zero(duration)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not N/SECONDS: {error}") from None


def origin(text: str) -> str:
    """An argument type: the origin of a web page, in the form that browsers send; ``*`` is all."""
    # Importing it takes time, which the other commands do not need.
    from rsocket_trio.transports.origins import EVERY, normal_origin

    if text == EVERY:
        return text
    try:
        return normal_origin(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _taken_by(module: str, function: str, *more: object) -> Callable[[str], str]:
    """Return an argument type: a text that a function of a module takes, unchanged.

    The module is imported when there is such a text: it takes time that other commands do not need.
    """

    def check(text: str) -> str:
        try:
            getattr(import_module(f"rsocket_trio.{module}"), function)(text, *more)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        return text

    return check


address: Final = _taken_by("uri", "parse_uri")
"""An argument type: an address of RSocket."""
pages_address: Final = _taken_by("transports.pages", "as_uri", "http")
"""An argument type: an address where pages are served by HTTP."""
rsio_address: Final = _taken_by("rsio.addresses", "rsio_uri")
"""An argument type: an address of rsio."""
lumberjack_address: Final = _taken_by("lumberjack.addresses", "lumberjack_uri")
"""An argument type: an address of Lumberjack."""
ttrpc_address: Final = _taken_by("ttrpc.addresses", "ttrpc_uri")
"""An argument type: an address of ttrpc."""
subscription: Final = _taken_by("collector", "parse_subscription")
"""An argument type: an address with the route of a stream."""


def any_address(text: str) -> str:
    """An argument type: an address of RSocket or rsio, unchanged."""
    return rsio_address(text) if wire_of([text]) == "rsio" else address(text)


def age(text: str) -> tuple[float, float]:
    """An argument type: an age and its grace, in seconds, as in ``3600/60`` or ``3600``."""
    limit, slash, grace = text.partition("/")
    try:
        return above_zero(limit), seconds(grace) if slash else inf
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not SECONDS/GRACE: {error}") from None


def class_name(text: str) -> str:
    """An argument type: the name of a class."""
    if not text.isidentifier() or iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be the name of a class")
    return text


def target_or_address(text: str) -> str:
    """An argument type: what can be imported, or an address that `parse_uri` accepts."""
    return address(text) if "://" in text else text


def size(text: str) -> int:
    """An argument type: bytes, at least 1, as ``4096``, or in units of 1024 as ``64K``, ``2G``."""
    number = parse_size(text)
    if number is None or not 1 <= number < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in bytes, such as 4096 or 64M")
    return number


def collector_address(text: str) -> str:
    """An argument type: an address of Lumberjack or of RSocket, unchanged."""
    if text.lower().startswith(("lumberjack:", "lumberjacks:")):
        return lumberjack_address(text)
    return address(text)


def offset(text: str) -> int:
    """An argument type: an offset in a spool, a whole number from 0 on."""
    if not re.fullmatch("[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset: a whole number from 0 on")
    return int(text)


def who(text: str) -> tuple[str, int | bool]:
    """An argument type: one part of an `rsocket_trio.Allow`, as an argument and its value."""
    kind, colon, number = text.partition(":")
    if text in {"same-user", "root"}:
        return text.replace("-", "_"), True
    if kind in {"uid", "gid", "cid"} and colon and number.isascii() and number.isdigit():
        if int(number) < _NOBODY:
            return f"{kind}s", int(number)
        raise argparse.ArgumentTypeError(f"{number} is no id of a user, group or machine")
    raise argparse.ArgumentTypeError(
        f"{text!r} is neither same-user, nor root, nor uid:N, gid:N or cid:N"
    )
