"""The grammar of the command line: commands, options, defaults, help.

Everything that can be said about the arguments without connecting is checked while parsing, or in
`rsocket_trio.cli.payloads`. Light on purpose: nothing here imports trio.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from rsocket_trio._version import __version__

from .command_parser import CommandParser
from .options import (
    above_zero,
    add_connection_options,
    add_json,
    add_payload_options,
    add_stream_options,
    add_uri,
    add_verbosity,
    address,
    origin,
    positive,
    rate,
    seconds,
)

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[CommandParser]  # noqa: SLF001  its only name

__all__ = ["build_parser"]

_STATUSES: Final = """\
exit status:
  0 done                      1 the peer answered an error
  2 wrong usage               3 no connection, refused or lost
  4 stdin or stdout failed    130 Ctrl-C    141 the reader of the output has gone

A value that begins with "-" goes behind "--":  rsocket-trio request URI -- -5
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line.

    A parsed namespace names the module that runs it (``module``) and the command (``command``).
    """
    parser = argparse.ArgumentParser(
        prog="rsocket-trio",
        description="RSocket from the command line: serve, request, measure, look into frames.",
        epilog="examples:\n"
        "  rsocket-trio serve app.py --listen tcp://127.0.0.1:7878\n"
        "  rsocket-trio request tcp://127.0.0.1:7878 hello --route greet\n"
        '  rsocket-trio decode "00000001 1000 70696e67"\n\n' + _STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    _add_serve(commands)
    _add_request(commands)
    _add_fnf(commands)
    _add_stream(commands)
    _add_channel(commands)
    _add_push(commands)
    _add_decode(commands)
    _add_bench(commands)
    return parser


def _add(
    commands: Commands, name: str, module: str, summary: str, details: str, *examples: str
) -> CommandParser:
    lines = "".join(f"  rsocket-trio {name} {example}\n" for example in examples)
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {details}".rstrip(),
        epilog=f"examples:\n{lines}\n{_STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(module=module)
    return parser


def _add_serve(commands: Commands) -> None:
    parser = _add(
        commands,
        "serve",
        "serve",
        "serve a Responder, a Router or an acceptor function",
        'Prints "listening on URI" for each address once it accepts.\n\n'
        "SIGTERM and Ctrl-C stop it: no new connections, running streams may finish within\n"
        "--grace seconds, then they are cancelled; a second signal ends it at once.",
        "app.py --listen tcp://127.0.0.1:7878",
        "package.module:router --listen ws://127.0.0.1:0/rsocket --listen unix:///run/app.sock",
        "app.py:app --listen tls://0.0.0.0:7879 --tls-cert cert.pem --tls-key key.pem",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help='package.module[:name] or path/file.py[:name]; without a name "app", then "router"',
    )
    parser.add_argument(
        "--listen",
        metavar="URI",
        type=address,
        action="append",
        required=True,
        help="where to listen; port 0 takes a free one; may be repeated",
    )
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        type=seconds,
        default=5.0,
        help="how long running streams may take to finish when stopped (default 5)",
    )
    parser.add_argument(
        "--lease",
        metavar="N/SECONDS",
        type=rate,
        help="offer leases: each connection that asks for them gets N requests every SECONDS",
    )
    parser.add_argument(
        "--resume",
        metavar="SECONDS",
        type=above_zero,
        help="keep sessions of clients that ask for it so long after their connection is lost",
    )
    parser.add_argument(
        "--max-connections",
        metavar="N",
        type=positive,
        help="so many connections may be open at once; one more is closed, on WebSocket with 503",
    )
    parser.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        type=origin,
        action="append",
        help="let in web pages of this origin (https://example.org) and no other; may be repeated;"
        " without it pages of any site may connect by WebSocket",
    )
    tls = parser.add_argument_group("TLS (tls:// and wss://)")
    tls.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    tls.add_argument("--tls-key", metavar="FILE", help="its key, PEM, if not in the same file")
    add_verbosity(parser)


def _add_request(commands: Commands) -> None:
    parser = _add(
        commands,
        "request",
        "request",
        "send one request and print its one response (request_response)",
        "",
        "tcp://127.0.0.1:7878 hello --route greet",
        "ws://127.0.0.1:7879/rsocket @body.json --data-mime application/json --json",
    )
    add_payload_options(parser)
    add_json(parser)
    add_connection_options(parser)


def _add_fnf(commands: Commands) -> None:
    parser = _add(
        commands,
        "fnf",
        "request",
        "send one message that is not answered (fire_and_forget)",
        "",
        "tcp://127.0.0.1:7878 'it rained' --route log",
        "tcp://127.0.0.1:7878 - --route log < event.json",
    )
    add_payload_options(parser)
    add_connection_options(parser)


def _add_stream(commands: Commands) -> None:
    parser = _add(
        commands,
        "stream",
        "stream",
        "send one request and print the items of its stream as they arrive (request_stream)",
        "",
        "tcp://127.0.0.1:7878 --route ticks --take 10",
        "tcp://127.0.0.1:7878 100 --route range --json | jq .data",
    )
    add_payload_options(parser)
    add_stream_options(parser)
    add_json(parser)
    add_connection_options(parser)


def _add_channel(commands: Commands) -> None:
    parser = _add(
        commands,
        "channel",
        "stream",
        "send a stream of payloads and print the answers as they arrive (request_channel)",
        "With no DATA, or -, each line of standard input is a payload, sent when it is read.",
        "tcp://127.0.0.1:7878 one two three --route echo",
        "tcp://127.0.0.1:7878 --route echo < lines.txt",
        "tcp://127.0.0.1:7878 @lines.txt --route echo",
    )
    add_payload_options(parser, many=True)
    add_stream_options(parser)
    add_json(parser)
    add_connection_options(parser)


def _add_push(commands: Commands) -> None:
    parser = _add(
        commands,
        "push",
        "request",
        "send metadata about the connection (metadata_push)",
        "DATA is that metadata and may also be written 0x and hexadecimal digits.",
        "tcp://127.0.0.1:7878 --metadata-mime text/plain reload",
        "tcp://127.0.0.1:7878 0xfe00000504676f",
    )
    add_uri(parser)
    parser.add_argument(
        "data", metavar="DATA", nargs="?", help="text, 0xHEX, @FILE or - (default: empty)"
    )
    parser.last_positional = "data"
    parser.add_argument("--metadata", metavar="VALUE", help="another way to give DATA")
    add_connection_options(parser)


def _add_decode(commands: Commands) -> None:
    parser = _add(
        commands,
        "decode",
        "decode",
        "show what frames say",
        "A frame per argument, or with - a frame per line of standard input. Spaces within a\n"
        "frame are skipped. Malformed input gets a line that says so, and exit status 1.",
        "00000001100070696e67",
        "--tcp --json 00000a00000001100070696e67",
        "- < frames.txt",
    )
    parser.add_argument(
        "frames", metavar="HEX", nargs="+", help="a frame in hexadecimal, or - for standard input"
    )
    parser.last_positional = "frames"
    parser.add_argument(
        "--protocol",
        choices=["rsocket", "reactivesocket"],
        default="rsocket",
        help="default: rsocket (1.0); reactivesocket is the draft of 2015",
    )
    parser.add_argument(
        "--tcp",
        action="store_true",
        help="frames carry the length prefix of TCP (3 bytes; reactivesocket: 4, themselves"
        " counted); several may follow one another",
    )
    add_json(parser)


def _add_bench(commands: Commands) -> None:
    parser = _add(
        commands,
        "bench",
        "bench",
        "measure a peer: requests and items per second, latency percentiles",
        "Latency is the time to the answer, of a stream to its first item, of fire_and_forget\n"
        "until it is on its way out.",
        "tcp://127.0.0.1:7878 --route echo --concurrency 64 --duration 10",
        "tcp://127.0.0.1:7878 --interaction request_stream --prefetch 256 --json",
    )
    add_uri(parser)
    parser.add_argument(
        "--interaction",
        choices=["request_response", "request_stream", "request_channel", "fire_and_forget"],
        default="request_response",
        help="default: request_response",
    )
    parser.add_argument(
        "--concurrency",
        default=1,
        help="requests or streams open at once (default 1)",
        type=positive,
        metavar="N",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--size",
        default=128,
        help="bytes of data per payload (default 128)",
        type=positive,
        metavar="N",
    )
    what.add_argument("--data", metavar="DATA", help="the data: text, @FILE, or - for stdin")
    parser.add_argument("--route", help="route of the requests")
    parser.add_argument(
        "--prefetch", help="window of a stream's demand, in items", type=positive, metavar="N"
    )
    parser.add_argument(
        "--items",
        default=1000,
        type=positive,
        metavar="N",
        help="payloads that one request_channel sends (default 1000)",
    )
    parser.add_argument(
        "--duration", metavar="SECONDS", type=above_zero, default=5.0, help="default 5"
    )
    parser.add_argument(
        "--warmup",
        metavar="SECONDS",
        type=seconds,
        default=1.0,
        help="time before the measurement begins (default 1)",
    )
    add_json(parser)
    add_connection_options(parser)
