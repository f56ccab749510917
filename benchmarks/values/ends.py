"""The stacks and cases of typed requests.

In the group ``values`` the server is measured, and in ``values-client`` the client. Both ends are
of one stack; that of FastAPI has a client of aiohttp.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

from ..model import Case, Stack

__all__ = ["VALUES_CASES", "VALUES_GROUPS", "VALUES_STACKS"]

_SERVER: Final = "values"
_CLIENT: Final = "values-client"

VALUES_GROUPS: Final = {
    _SERVER: "Typed requests: the server, with the client of its stack",
    _CLIENT: "Typed requests: the client, with the server of its stack",
}


def _stack(
    name: str, title: str, programs: str, *arguments: str, needs: tuple[str, ...] = ()
) -> Stack:
    """Return a stack.

    Args:
        name: Its name, for ``--stacks``.
        title: Its title in the report.
        programs: How the names of its programs begin.
        arguments: The arguments of its client before the URI.
        needs: The modules that it needs.
    """
    python = [sys.executable, "-m"]

    def missing() -> str | None:
        absent = [module for module in needs if find_spec(module) is None]
        return f"not installed: {', '.join(absent)}" if absent else None

    return Stack(
        name=name,
        title=title,
        server=[*python, f"benchmarks.values.{programs}_server"],
        client=[*python, f"benchmarks.values.{programs}_client", *arguments],
        groups=frozenset({_SERVER, _CLIENT}),
        missing=missing,
    )


VALUES_STACKS: Final = [
    _stack("val-json", "rsocket_trio, JSON", "ours", "application/json"),
    _stack("val-cbor", "rsocket_trio, CBOR", "ours", "application/cbor"),
    _stack(
        "val-websockets",
        "websockets 17.4, with msgspec",
        "websockets",
        needs=("websockets",),
    ),
    _stack(
        "val-fastapi",
        "FastAPI 0.165.0, uvicorn 0.54.0 with httptools; aiohttp 3.14.5",
        "fastapi",
        needs=("fastapi", "uvicorn", "httptools", "aiohttp"),
    ),
    _stack(
        "val-grpc",
        "gRPC: grpcio 1.85.1, asyncio, protobuf",
        "grpc",
        needs=("grpc", "grpc_tools"),
    ),
    _stack(
        "val-rsocket-py",
        "rsocket-py 0.4.20, its router, `json`",
        "rsocket_py",
        needs=("rsocket",),
    ),
]

_OURS: Final = ("val-json", "val-cbor")
_ALL: Final = tuple(stack.name for stack in VALUES_STACKS)


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
]
