"""The ttrpc stacks and cases.

In the group ``ttrpc`` both ends are of one stack, beside gRPC and RSocket over the same kind of
socket. In ``ttrpc-client`` each client calls the server in Go, and in ``ttrpc-server`` the client
in Go calls each server.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..model import Case, Stack

__all__ = ["TTRPC_CASES", "TTRPC_GROUPS", "TTRPC_STACKS"]

_BOTH: Final = "ttrpc"
_CLIENT: Final = "ttrpc-client"
_SERVER: Final = "ttrpc-server"

TTRPC_GROUPS: Final = {
    _BOTH: "ttrpc: client and server over a Unix socket, each in its own process",
    _CLIENT: "ttrpc: the client, with the server in Go",
    _SERVER: "ttrpc: the server, with the client in Go",
    "ttrpc-memory": "ttrpc: memory",
}

_GO_PEER: Final = Path(__file__).parent / "go" / "peer"
_GO_SERVER: Final = [str(_GO_PEER), "server"]
_GO_CLIENT: Final = [str(_GO_PEER), "client"]


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{name}"]


def _go_missing() -> str | None:
    if _GO_PEER.is_file():
        return None
    return "its program is not built: run benchmarks/setup.sh (it needs Go)"


def _grpc_missing() -> str | None:
    return None if find_spec("grpc") else "the package grpcio is not installed"


TTRPC_STACKS: Final = [
    Stack(
        name="tt-ours",
        title="rsocket_trio",
        server=_module("ttrpc.ours_server"),
        client=_module("ttrpc.ours_client"),
        groups=frozenset({_BOTH, _CLIENT, _SERVER}),
    ),
    Stack(
        name="tt-go",
        title="containerd/ttrpc 1.2.8 (Go)",
        server=_GO_SERVER,
        client=_GO_CLIENT,
        groups=frozenset({_BOTH, _CLIENT, _SERVER}),
        missing=_go_missing,
    ),
    Stack(
        name="tt-grpc",
        title="gRPC: grpcio 1.85.1, asyncio",
        server=_module("ttrpc.grpc_server"),
        client=_module("ttrpc.grpc_client"),
        groups=frozenset({_BOTH}),
        missing=_grpc_missing,
    ),
    Stack(
        name="tt-rsocket",
        title="RSocket: rsocket_trio",
        server=_module("ours_server"),
        client=_module("ours_client"),
        groups=frozenset({_BOTH}),
    ),
]

_OPERATIONS: Final = [
    ("unary-1", "unary, 1 in flight", "sequential", {}),
    ("unary-50", "unary, {in_flight} in flight", "request_response", {"in_flight": 50}),
    ("server_stream", "server stream of {items} messages", "server_stream", {"items": 5000}),
    ("bidi_stream", "bidi stream, bursts of {burst} messages, echo", "bidi_stream", {"burst": 64}),
]
"""The names of cases, their titles, and what they tell the clients. Unary calls are named as in
the clients of RSocket."""


def _cases(group: str, prefix: str = "") -> list[Case]:
    return [
        Case(
            name=f"ttrpc/{prefix}{name}",
            title=title,
            group=group,
            operation=operation,
            parameters=parameters,
            scheme="unix",
            server=_GO_SERVER if group == _CLIENT else None,
            client=_GO_CLIENT if group == _SERVER else None,
            end="client" if group == _CLIENT else "server",
            # RSocket's streams have flow control: they are measured in another way.
            only=() if "unary" in name else ("tt-ours", "tt-go", "tt-grpc"),
            reference="tt-ours",
            missing=_go_missing if group != _BOTH else lambda: None,
        )
        for name, title, operation, parameters in _OPERATIONS
    ]


TTRPC_CASES: Final = [*_cases(_BOTH), *_cases(_CLIENT, "client-"), *_cases(_SERVER, "server-")]
