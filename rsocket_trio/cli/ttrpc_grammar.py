"""The grammar of the group ``ttrpc``: its commands, options, defaults, help."""

from __future__ import annotations

import argparse

from .commands import Commands, add_command, add_group
from .options import (
    above_zero,
    add_allow,
    add_deployment,
    add_observation,
    add_verbosity,
    add_wiretap,
    positive,
    ttrpc_address,
)

__all__ = ["add_ttrpc"]


_MESSAGES = (
    "Messages are JSON, as protobuf defines it. Their types come from --proto or\n"
    "--descriptor-set. Without these, --hex sends and prints bytes in hexadecimal.\n\n"
    'An error of the peer is a line such as "error: NOT_FOUND: no such task" on standard error,\n'
    "and a line for each of its details; with --json it is one JSON object."
)


def add_ttrpc(commands: Commands) -> None:
    """Add the group and its commands."""
    group = add_group(
        commands,
        "ttrpc",
        "call or serve services by ttrpc, the protocol of containerd and its shims",
        "",
        "list --proto task.proto",
        'call unix:///run/app.sock shop.v1.Orders/GetOrder \'{"id": "7"}\' --proto orders.proto',
        "serve app.py --listen unix:///run/app.sock",
    )
    _add_generate(group)
    _add_list(group)
    _add_describe(group)
    _add_call(group)
    _add_stream(group)
    _add_serve(group)


def _add_generate(group: Commands) -> None:
    parser = add_command(
        group,
        "ttrpc generate",
        "ttrpc_generate",
        "write the Python modules of .proto files: messages, clients, base classes",
        "For x.proto these are x_pb2.py and, if it has services, x_ttrpc.py, and their types. It\n"
        "prints the paths of the latter. It needs grpcio-tools (pip install grpcio-tools) or\n"
        "protoc, and the extra ttrpc.",
        "orders.proto",
        "shop/v1/orders.proto -I . --out src",
    )
    parser.add_argument("files", metavar="FILE.proto", nargs="+", help="a .proto file")
    parser.last_positional = "files"
    parser.add_argument(
        "--out", metavar="DIR", default=".", help="where to write (default: the current directory)"
    )
    parser.add_argument(
        "-I",
        "--proto-path",
        metavar="DIR",
        action="append",
        default=[],
        help="where imports are found, and what the names of modules are relative to (default: the"
        " directory of FILE); may be repeated",
    )
    parser.add_argument(
        "--relative-imports",
        action="store_true",
        help="import the modules of messages relative to the generated module",
    )
    add_verbosity(parser)


def _add_list(group: Commands) -> None:
    parser = add_command(
        group,
        "ttrpc list",
        "ttrpc_list",
        "print the services and methods of .proto files",
        "Each line has the full name of a method, and its kind: unary, server_stream,\n"
        "client_stream or bidi_stream.",
        "--proto orders.proto",
        "--proto shop/v1/orders.proto -I protos --json",
        "--descriptor-set shop.binpb",
    )
    _add_schema(parser, required=True)
    parser.add_argument("--json", action="store_true", help="print one JSON object per method")
    add_verbosity(parser)


def _add_describe(group: Commands) -> None:
    parser = add_command(
        group,
        "ttrpc describe",
        "ttrpc_describe",
        "print a service, a method, a message or an enum of .proto files",
        "",
        "shop.v1.Orders --proto orders.proto",
        "shop.v1.Orders/GetOrder --proto orders.proto",
        "shop.v1.Order --descriptor-set shop.binpb --json",
    )
    parser.add_argument("name", metavar="NAME", help="the full name, e.g. package.Service/Method")
    parser.last_positional = "name"
    _add_schema(parser, required=True)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    add_verbosity(parser)


def _add_call(group: Commands) -> None:
    parser = add_command(
        group,
        "ttrpc call",
        "ttrpc_call",
        "send one request and print the response (unary)",
        _MESSAGES,
        'unix:///run/app.sock shop.v1.Orders/GetOrder \'{"id": "7"}\' --proto orders.proto',
        "unix:///run/app.sock shop.v1.Orders/GetOrder @order.json --proto orders.proto"
        " --deadline 2",
        "/run/containerd/s/1a2b containerd.task.v2.Task/Connect --descriptor-set task.binpb"
        " --metadata containerd-namespace-ttrpc=default",
        "tcp://127.0.0.1:7878 shop.v1.Orders/GetOrder 0a0137 --hex",
    )
    _add_peer(parser)
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?",
        help="the request: JSON, @FILE, or - for standard input (default: an empty message)",
    )
    parser.add_argument(
        "--data", metavar="DATA", dest="data_option", help="the same as DATA; give only one"
    )
    parser.last_positional = "data"
    _add_call_options(parser)


def _add_stream(group: Commands) -> None:
    parser = add_command(
        group,
        "ttrpc stream",
        "ttrpc_stream",
        "call a streaming method, and print its responses as they arrive",
        "If the method takes a stream, each DATA is a request, and without DATA, or with -, each\n"
        "line of standard input, which is sent as soon as it is read. Else there is one DATA.\n"
        f"{_MESSAGES}",
        'unix:///run/app.sock shop.v1.Orders/ListItems \'{"id": "7"}\' --proto orders.proto',
        "unix:///run/app.sock shop.v1.Orders/Sum --proto orders.proto < items.jsonl",
        "unix:///run/app.sock shop.v1.Orders/ListItems 0a0137 --hex --kind server_stream",
    )
    _add_peer(parser)
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="*",
        help="requests: JSON, or @FILE for one request per line, or - for one request per line of"
        " standard input",
    )
    parser.last_positional = "data"
    parser.add_argument("--take", metavar="N", type=positive, help="end the call after N responses")
    parser.add_argument(
        "--kind",
        choices=["server_stream", "client_stream", "bidi_stream"],
        help="the kind of the method, if there is neither --proto nor --descriptor-set",
    )
    _add_call_options(parser)


def _add_serve(group: Commands) -> None:
    parser = add_command(
        group,
        "ttrpc serve",
        "ttrpc_serve",
        "serve services, or a Router",
        'The server prints "listening on URI" for each address when it accepts connections.\n\n'
        "SIGTERM or Ctrl-C stops the server: after --stop-delay its connections refuse new calls,\n"
        "each from a moment within --stop-spread on, and running calls have --grace seconds to\n"
        "finish. A second signal stops it at once. The exit status is 0 after one signal, 130\n"
        "(Ctrl-C) or 143 (SIGTERM) after two.",
        "app.py --listen unix:///run/app.sock",
        "package.module:services --listen unix:///run/app.sock --listen tcp://127.0.0.1:0",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="package.module[:name] or path/file.py[:name]: a Service, an object of a generated"
        ' base class, a list of these, or a Router; the default name is "app", or "router" if'
        ' there is no "app"',
    )
    parser.add_argument(
        "--listen",
        metavar="URI",
        type=ttrpc_address,
        action="append",
        required=True,
        help="address to listen on: unix:///PATH, unix://@NAME, tcp://HOST:PORT or"
        " vsock://CID:PORT; port 0 of TCP means any free port; may be repeated",
    )
    add_deployment(
        parser,
        "how long running calls may continue after that (default 5)",
    )
    add_observation(parser)
    add_allow(parser, "Unix sockets, cid:N on vsock")
    parser.add_argument(
        "--max-connections",
        metavar="N",
        type=positive,
        help="accept at most N connections at the same time; further ones are closed",
    )
    add_wiretap(parser)
    add_verbosity(parser)


def _add_schema(parser: argparse.ArgumentParser, *, required: bool) -> None:
    group = parser.add_argument_group("services and messages")
    either = group.add_mutually_exclusive_group(required=required)
    either.add_argument(
        "--proto",
        metavar="FILE",
        action="append",
        default=[],
        help="a .proto file; may be repeated; this needs grpcio-tools (pip install grpcio-tools) or"
        " protoc",
    )
    either.add_argument(
        "--descriptor-set",
        metavar="FILE",
        action="append",
        default=[],
        help="a file of protoc --include_imports --descriptor_set_out=FILE; may be repeated",
    )
    group.add_argument(
        "-I",
        "--proto-path",
        metavar="DIR",
        action="append",
        default=[],
        help="where --proto finds imports (default: the directory of FILE); may be repeated",
    )


def _add_peer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "uri",
        metavar="URI",
        type=ttrpc_address,
        help="address of the peer: unix:///PATH, unix://@NAME, tcp://HOST:PORT, vsock://CID:PORT,"
        " or an absolute path",
    )
    parser.add_argument("method", metavar="SERVICE/METHOD", help="e.g. package.Service/Method")


def _add_call_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=above_zero,
        help="end the call after SECONDS; the peer learns how long it has (default: no limit)",
    )
    parser.add_argument(
        "--metadata",
        metavar="KEY=VALUE",
        type=_pair,
        action="append",
        default=[],
        help="metadata of the call; may be repeated, also with the same key",
    )
    parser.add_argument(
        "--hex", action="store_true", help="messages are bytes in hexadecimal, in and out"
    )
    parser.add_argument(
        "--defaults",
        action="store_true",
        help="also print fields that have the value which they have by default",
    )
    parser.add_argument(
        "--json", action="store_true", help="print an error of the peer as a JSON object"
    )
    _add_schema(parser, required=False)
    add_wiretap(parser)
    add_verbosity(parser)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError("an entry is KEY=VALUE, with an equals sign")
    return key, value
