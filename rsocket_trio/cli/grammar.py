"""The grammar of the command line: commands, options, defaults, help.

The parser checks everything about the arguments that needs no connection and no file. This module
is light on purpose: nothing here imports trio.
"""

from __future__ import annotations

import argparse

from rsocket_trio._version import __version__

from .collect_grammar import add_collect
from .command_parser import CommandParser
from .commands import DASH_HINT, STATUSES, Commands, add_command
from .conformance_grammar import add_conformance
from .lumberjack_grammar import add_lumberjack
from .options import (
    above_zero,
    add_allow,
    add_connection_options,
    add_deployment,
    add_json,
    add_observation,
    add_payload_options,
    add_prefetch,
    add_repeats,
    add_server_tls,
    add_stream_options,
    add_uri,
    add_verbosity,
    add_wiretap,
    any_address,
    class_name,
    origin,
    port,
    positive,
    rate,
    seconds,
    target_or_address,
)
from .rsio_grammar import add_rsio
from .spool_grammar import add_spool
from .ttrpc_grammar import add_ttrpc
from .wire_formats import summaries

__all__ = ["build_parser", "subcommands"]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line.

    A parsed namespace has the name of the command (``command``) and of its module (``module``).
    """
    parser = argparse.ArgumentParser(
        prog="rsocket-trio",
        description="RSocket from the command line: serve, send requests, measure, decode frames;"
        " log events by Lumberjack; calls by ttrpc; publishers by rsio.",
        epilog="examples:\n"
        "  rsocket-trio serve app.py --listen tcp://127.0.0.1:7878\n"
        "  rsocket-trio request tcp://127.0.0.1:7878 hello --route greet\n"
        '  rsocket-trio decode "00000001 1000 70696e67"\n'
        "  rsocket-trio lumberjack serve --listen lumberjack://127.0.0.1:5044\n"
        "  rsocket-trio lumberjack ship app.log --to lumberjack://127.0.0.1:5044\n"
        "  rsocket-trio collect --spool events --listen lumberjack://127.0.0.1:5044\n"
        "  rsocket-trio ttrpc list --proto orders.proto\n\n"
        f"{STATUSES}{DASH_HINT}",
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
    _add_routes(commands)
    _add_client(commands)
    _add_decode(commands)
    _add_bench(commands)
    add_lumberjack(commands)
    add_collect(commands)
    add_spool(commands)
    add_ttrpc(commands)
    add_rsio(commands)
    add_conformance(commands)
    _add_completion(commands)
    return parser


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands of a parser of `build_parser`, or of one of its groups, by name."""
    found = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001  argparse has no public way
    return dict(found[0].choices) if found else {}


def _add_serve(commands: Commands) -> None:
    parser = add_command(
        commands,
        "serve",
        "serve",
        "serve a Responder, a Router or an acceptor function",
        'The server prints "listening on URI" for each address when it accepts connections.\n\n'
        "With --workers the connections are spread over several processes. SIGHUP starts new\n"
        "ones, which read the code and the certificates again, and lets the others end.\n\n"
        "SIGTERM or Ctrl-C stops the server: after --stop-delay it accepts no new connections,\n"
        "clients are told within --stop-spread, and running streams have --grace seconds to\n"
        "finish. A second signal stops it at once. The exit status is 0 after one signal, 130\n"
        "(Ctrl-C) or 143 (SIGTERM) after two.",
        "app.py --listen tcp://127.0.0.1:7878",
        "package.module:router --listen ws://127.0.0.1:0/rsocket --listen unix:///run/app.sock",
        "app.py:app --listen tls://0.0.0.0:7879 --cert cert.pem --key key.pem --ca clients.pem",
        "app.py --listen tcp://127.0.0.1:7878 --listen rsio://127.0.0.1:7980",
        "app.py --listen tcp://127.0.0.1:7878 --workers 4",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help='package.module[:name] or path/file.py[:name]; the default name is "app", or "router"'
        ' if there is no "app"',
    )
    parser.add_argument(
        "--listen",
        metavar="URI",
        type=any_address,
        action="append",
        required=True,
        help="address to listen on, of RSocket or rsio; port 0 means any free port; fd://3 and"
        " systemd://NAME are sockets that are open already; may be repeated",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=positive,
        help="serve by N processes: this one accepts, and hands each connection to the worker with"
        " the fewest (Linux)",
    )
    parser.add_argument(
        "--start-timeout",
        metavar="SECONDS",
        type=above_zero,
        default=30.0,
        help="with --workers: how long a worker may take until it is ready (default 30)",
    )
    add_deployment(
        parser,
        "how long running streams may continue after that (default 5)",
    )
    parser.add_argument(
        "--lease",
        metavar="N/SECONDS",
        type=rate,
        help="grant leases: a client that asks for leases may send N requests every SECONDS;"
        " other clients have no limit, unless --lease-required or --lease-enforced is given",
    )
    parser.add_argument(
        "--lease-required",
        action="store_true",
        help="with --lease: refuse clients that do not ask for leases",
    )
    parser.add_argument(
        "--lease-enforced",
        action="store_true",
        help="with --lease: serve clients that do not ask for leases, and reject what is beyond N",
    )
    parser.add_argument(
        "--resume",
        metavar="SECONDS",
        type=above_zero,
        help="let clients resume a session up to SECONDS after they lose the connection",
    )
    parser.add_argument(
        "--sole-process",
        action="store_true",
        help="with --resume on a socket that another program has opened (fd://, systemd://), or"
        " with --reuse-port: no other process accepts connections there",
    )
    parser.add_argument(
        "--reuse-port",
        action="store_true",
        help="let other processes listen on the same ports of TCP; connections are not spread"
        " evenly, and those that wait when a process stops are reset",
    )
    parser.add_argument(
        "--max-connections",
        metavar="N",
        type=positive,
        help="accept at most N connections at the same time; the server closes further ones"
        " (WebSocket: status 503)",
    )
    parser.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        type=origin,
        action="append",
        help="accept web pages of this origin, for example https://example.org, or '*' for all;"
        " may be repeated; without it, only pages of the server's own host may connect over"
        " WebSocket",
    )
    add_observation(parser, "; the target has to be a Router")
    add_allow(parser, "Unix sockets")
    add_server_tls(parser, "tls://, wss://, rsios:// and rsio+wss://")
    add_wiretap(parser)
    add_verbosity(parser)


def _add_request(commands: Commands) -> None:
    parser = add_command(
        commands,
        "request",
        "request",
        "send one request and print the response (request_response)",
        "",
        "tcp://127.0.0.1:7878 hello --route greet",
        "ws://127.0.0.1:7879/rsocket @body.json --data-mime application/json --json",
        "tcp://127.0.0.1:7878 tea --route price --retry 5 --idempotent",
    )
    add_payload_options(parser)
    add_repeats(parser)
    add_json(parser)
    add_connection_options(parser)


def _add_fnf(commands: Commands) -> None:
    parser = add_command(
        commands,
        "fnf",
        "request",
        "send one message that has no response (fire_and_forget)",
        "",
        "tcp://127.0.0.1:7878 'it rained' --route log",
        "tcp://127.0.0.1:7878 - --route log < event.json",
    )
    add_payload_options(parser)
    add_connection_options(parser)


def _add_stream(commands: Commands) -> None:
    parser = add_command(
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
    add_repeats(parser)
    add_json(parser)
    add_connection_options(parser)


def _add_channel(commands: Commands) -> None:
    parser = add_command(
        commands,
        "channel",
        "stream",
        "send a stream of payloads and print the items of the answer as they arrive"
        " (request_channel)",
        "Without DATA, or with -, each line of standard input is a payload. The command sends it\n"
        "as soon as it has read the line.",
        "tcp://127.0.0.1:7878 one two three --route echo",
        "tcp://127.0.0.1:7878 --route echo < lines.txt",
        "tcp://127.0.0.1:7878 @lines.txt --route echo",
    )
    add_payload_options(parser, many=True)
    add_stream_options(parser)
    add_json(parser)
    add_connection_options(parser)


def _add_push(commands: Commands) -> None:
    parser = add_command(
        commands,
        "push",
        "request",
        "send metadata about the connection (metadata_push)",
        "DATA is the metadata. 0x and hexadecimal digits stand for bytes.",
        "tcp://127.0.0.1:7878 --metadata-mime text/plain reload",
        "tcp://127.0.0.1:7878 0xfe00000504676f",
    )
    add_uri(parser)
    parser.add_argument(
        "data", metavar="DATA", nargs="?", help="text, 0xHEX, @FILE or - (default: empty)"
    )
    parser.last_positional = "data"
    parser.add_argument("--metadata", metavar="VALUE", help="the same as DATA; give only one")
    add_connection_options(parser)


def _add_routes(commands: Commands) -> None:
    parser = add_command(
        commands,
        "routes",
        "routes",
        "print what a router answers: routes, interactions, arguments and results",
        "A server tells it if its router includes Router.introspection, to those whom the router\n"
        "knows.",
        "app.py",
        "package.module:router --json",
        "tls://127.0.0.1:7879 --auth-bearer @token --html routes.html",
    )
    parser.add_argument(
        "uri",
        metavar="TARGET|URI",
        type=target_or_address,
        help="package.module[:name] or path/file.py[:name], as for serve; or the address of a"
        " server",
    )
    parser.add_argument(
        "--prefix",
        default="introspection.",
        help="the prefix under which the server has included its introspection (default"
        " introspection.)",
    )
    shown = parser.add_mutually_exclusive_group()
    add_json(shown)
    shown.add_argument("--html", metavar="FILE", help="write a page that needs nothing else")
    add_connection_options(parser)


def _add_client(commands: Commands) -> None:
    parser = add_command(
        commands,
        "client",
        "client_module",
        "write a Python module for clients of a router",
        "The module has a class for Caller.of, with a method for each route, and the classes of\n"
        "the arguments and results. It needs nothing of the server's code.",
        "app.py > app_client.py",
        "package.module:router --name Shop > shop_client.py",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="package.module[:name] or path/file.py[:name], as for serve",
    )
    parser.add_argument(
        "--name",
        default="Client",
        type=class_name,
        help="the name of the class (default Client)",
    )
    add_verbosity(parser)


def _add_decode(commands: Commands) -> None:
    parser = add_command(
        commands,
        "decode",
        "decode",
        "decode frames and print one line for each",
        "Each argument is one frame, and so is each line of a file or of standard input. Spaces\n"
        "inside a frame are ignored. A file may also be a dump of xxd or hexdump -C, what\n"
        "--wiretap-file has written, or a capture of packets (pcap and pcapng). For malformed\n"
        'input the command prints a line that begins with "error:", goes on with the next frame,\n'
        "and ends with exit status 1.",
        "00000001100070696e67",
        "--tcp --json 00000a00000001100070696e67",
        "- < frames.txt",
        "@capture.pcapng --port 7878",
        "--protocol lumberjack 324100000001",
    )
    parser.add_argument(
        "frames",
        metavar="HEX",
        nargs="+",
        help="a frame in hexadecimal, @FILE, or - for standard input",
    )
    parser.last_positional = "frames"
    protocols = summaries()
    parser.add_argument(
        "--protocol",
        choices=list(protocols),
        default=next(iter(protocols)),
        help="protocol of the frames: "
        + ", ".join(f"{name} ({summary})" for name, summary in protocols.items()),
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        help="of a capture, only the connections to this port of a server",
    )
    parser.add_argument(
        "--wrapped",
        action="store_true",
        help="the digits of a frame go on in the next line, until a blank line",
    )
    parser.add_argument(
        "--tcp",
        action="store_true",
        help="each frame begins with the length prefix of TCP (3 bytes; reactivesocket: 4 bytes,"
        " and the length includes them); an argument may hold several frames",
    )
    add_json(parser)


def _add_completion(commands: Commands) -> None:
    parser = add_command(
        commands,
        "completion",
        "completion",
        "print what a shell needs to complete commands and options",
        "",
        "bash > ~/.local/share/bash-completion/completions/rsocket-trio",
        'zsh > "${fpath[1]}/_rsocket-trio"',
        "fish > ~/.config/fish/completions/rsocket-trio.fish",
    )
    parser.add_argument("shell", metavar="SHELL", choices=["bash", "zsh", "fish"], help="the shell")


def _add_bench(commands: Commands) -> None:
    parser = add_command(
        commands,
        "bench",
        "bench",
        "measure a peer: requests and items per second, latency percentiles",
        "Latency is the time from a request to its response, or to the first item of a stream.\n"
        "For fire_and_forget it is the time until the message is queued for sending.\n\n"
        "With --rate a request counts from the time at which it should begin, also if it waits\n"
        "because --concurrency requests are open: so a peer that stalls shows in the latency of\n"
        "all requests of that time. If the connection is lost, or at Ctrl-C, what was measured\n"
        "until then is printed.\n\n"
        "The exit status is 1 if the peer answered any request with an error.",
        "tcp://127.0.0.1:7878 --route echo --concurrency 64 --duration 10",
        "tcp://127.0.0.1:7878 --interaction request_stream --prefetch 256 --json",
        "tcp://127.0.0.1:7878 --route echo --rate 2000 --concurrency 256 --ramp 5",
    )
    add_uri(parser)
    parser.add_argument(
        "--interaction",
        choices=["request_response", "request_stream", "request_channel", "fire_and_forget"],
        default="request_response",
        help="kind of request to measure (default request_response)",
    )
    parser.add_argument(
        "--concurrency",
        default=1,
        help="number of requests or streams that are open at the same time (default 1)",
        type=positive,
        metavar="N",
    )
    parser.add_argument(
        "--rate",
        metavar="N",
        type=positive,
        help="begin N requests each second, whatever the peer does, as far as --concurrency allows"
        " (default: each begins when one has ended)",
    )
    parser.add_argument(
        "--ramp",
        metavar="SECONDS",
        type=seconds,
        default=0.0,
        help="time in which --rate, or without it the number of open requests, grows from 0, before"
        " the warm-up (default 0)",
    )
    payload = parser.add_mutually_exclusive_group()
    payload.add_argument(
        "--size",
        default=128,
        help="length of the data of a payload, a text in CBOR and JSON (default 128)",
        type=positive,
        metavar="N",
    )
    payload.add_argument(
        "--data",
        metavar="DATA",
        help="data of each payload: JSON, text, 0xHEX, @FILE, or - for standard input",
    )
    parser.add_argument("--route", help="route of the requests")
    add_prefetch(parser)
    parser.add_argument(
        "--items",
        default=1000,
        type=positive,
        metavar="N",
        help="number of payloads that each request_channel sends (default 1000)",
    )
    parser.add_argument(
        "--duration",
        metavar="SECONDS",
        type=above_zero,
        default=5.0,
        help="length of the measurement (default 5)",
    )
    parser.add_argument(
        "--warmup",
        metavar="SECONDS",
        type=seconds,
        default=1.0,
        help="time during which requests run but do not count (default 1)",
    )
    add_json(parser)
    add_connection_options(parser)
