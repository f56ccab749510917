"""The stacks and cases of typed requests.

In the group ``values`` the server is measured, and in ``values-client`` the client. Both ends are
of one stack; that of FastAPI has a client of aiohttp. In ``applications`` the server has a
middleware and a dependency too.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

from ..model import Case, Stack

__all__ = ["VALUES_CASES", "VALUES_GROUPS", "VALUES_STACKS"]

_SERVER: Final = "values"
_CLIENT: Final = "values-client"
_APPLICATIONS: Final = "applications"

VALUES_GROUPS: Final = {
    _SERVER: "Typed requests: the server, with the client of its stack",
    _CLIENT: "Typed requests: the client, with the server of its stack",
    _APPLICATIONS: "Applications: a route, types, a middleware and a dependency; the server",
}


def _stack(
    name: str,
    title: str,
    programs: str,
    *arguments: str,
    needs: tuple[str, ...] = (),
    server: str = "server",
    groups: tuple[str, ...] = (_SERVER, _CLIENT),
) -> Stack:
    """Return a stack.

    Args:
        name: Its name, for ``--stacks``.
        title: Its title in the report.
        programs: How the names of its programs begin.
        arguments: The arguments of its client before the URI.
        needs: The modules that it needs.
        server: How the name of its server ends.
        groups: The groups of its cases.
    """
    python = [sys.executable, "-m"]

    def missing() -> str | None:
        absent = [module for module in needs if find_spec(module) is None]
        return f"not installed: {', '.join(absent)}" if absent else None

    return Stack(
        name=name,
        title=title,
        server=[*python, f"benchmarks.values.{programs}_{server}"],
        client=[*python, f"benchmarks.values.{programs}_client", *arguments],
        groups=frozenset(groups),
        missing=missing,
    )


_JSON: Final = ("ours", "application/json")
_FASTAPI: Final = ("fastapi", "uvicorn", "httptools", "aiohttp")
_GRPC: Final = ("grpc", "grpc_tools")
_FASTAPI_TITLE: Final = "FastAPI 0.165.0, uvicorn 0.54.0 with httptools; aiohttp 3.14.5"
_GRPC_TITLE: Final = "gRPC: grpcio 1.85.1, asyncio, protobuf"
_RSOCKET_PY_TITLE: Final = "rsocket-py 0.4.20, its router, `json`"

_TYPED: Final = [
    _stack("val-json", "rsocket_trio, JSON", *_JSON),
    _stack("val-cbor", "rsocket_trio, CBOR", "ours", "application/cbor"),
    _stack("val-websockets", "websockets 17.4, with msgspec", "websockets", needs=("websockets",)),
    _stack("val-fastapi", _FASTAPI_TITLE, "fastapi", needs=_FASTAPI),
    _stack("val-grpc", _GRPC_TITLE, "grpc", needs=_GRPC),
    _stack("val-rsocket-py", _RSOCKET_PY_TITLE, "rsocket_py", needs=("rsocket",)),
]


def _application(
    name: str,
    title: str,
    *programs: str,
    needs: tuple[str, ...] = (),
    server: str = "application",
) -> Stack:
    return _stack(name, title, *programs, needs=needs, server=server, groups=(_APPLICATIONS,))


VALUES_STACKS: Final = [
    *_TYPED,
    _application("app", "rsocket_trio, JSON", *_JSON),
    _application("app-bare", "the same: only the route and the types", *_JSON, server="server"),
    _application("app-fastapi", _FASTAPI_TITLE, "fastapi", needs=_FASTAPI),
    _application("app-grpc", _GRPC_TITLE, "grpc", needs=_GRPC),
    _application("app-rsocket-py", _RSOCKET_PY_TITLE, "rsocket_py", needs=("rsocket",)),
]

_OURS: Final = ("val-json", "val-cbor")
_ALL: Final = tuple(stack.name for stack in _TYPED)


def _request(
    group: str,
    kind: str,
    title: str,
    *,
    in_flight: int = 64,
    name: str = "",
    only: tuple[str, ...] = _ALL,
    reference: str = "val-json",
) -> Case:
    return Case(
        name=f"{group}/{name or kind}",
        title=f"{title}, {{in_flight}} in flight",
        group=group,
        operation="request",
        parameters={"kind": kind, "in_flight": in_flight},
        only=only,
        reference=reference,
        end="client" if group == _CLIENT else "server",
    )


def _cases(group: str) -> list[Case]:
    return [
        _request(group, "order", "an order of 5 lines"),
        # In its own turns, so that CBOR is the reference.
        _request(
            group,
            "order",
            "the same, CBOR beside the others",
            name="order-cbor",
            only=tuple(name for name in _ALL if name != "val-json"),
            reference="val-cbor",
        ),
        _request(group, "fields", "a class of 20 fields"),
        _request(group, "ints", "a list of 10 000 ints", in_flight=8),
        _request(
            group,
            "blob",
            "64 KiB of bytes in a class",
            in_flight=8,
            # `json` has no bytes.
            only=tuple(name for name in _ALL if name != "val-rsocket-py"),
        ),
        Case(
            name=f"{group}/stream",
            title="streams of {items} small classes, items",
            group=group,
            operation="stream",
            parameters={"items": 5000},
            reference="val-json",
            end="client" if group == _CLIENT else "server",
        ),
    ]


VALUES_CASES: Final = [
    *_cases(_SERVER),
    # For `benchmarks.compare`: msgspec does not get these.
    _request(_SERVER, "checked", "5 classes with converters and validators", only=_OURS),
    _request(_SERVER, "union", "5 of two classes, told apart by their fields", only=_OURS),
    *_cases(_CLIENT),
    _request(
        _APPLICATIONS,
        "order",
        "an order of 5 lines",
        only=(),
        reference="app",
    ),
]
