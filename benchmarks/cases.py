"""The cases to measure, and their parameters."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .lumberjack.ends import LUMBERJACK_CASES, LUMBERJACK_GROUPS
from .model import Case
from .reactive_streams import TITLE as IN_PROCESS_TITLE
from .rsio.ends import RSIO_CASES, RSIO_GROUPS
from .spark.cases import SPARK_CASES
from .ttrpc.ends import TTRPC_CASES, TTRPC_GROUPS
from .values.ends import VALUES_CASES, VALUES_GROUPS

LARGE = 16 * 2**20


GROUPS = {
    "tcp": "Client and server over TCP, each in its own process",
    "ws": "Client and server over WebSocket, each in its own process",
    "server": "The server alone, over TCP, with the same raw client for all",
    **VALUES_GROUPS,
    **LUMBERJACK_GROUPS,
    **TTRPC_GROUPS,
    **RSIO_GROUPS,
    "reactive_streams": IN_PROCESS_TITLE,
}
WINDOW = {"window": 256}


def _request_response(group: str, in_flight: int) -> Case:
    return Case(
        name=f"{group}/request_response-{in_flight}",
        title="request_response, {in_flight} in flight",
        group=group,
        operation="request_response",
        parameters={"in_flight": in_flight},
    )


def _yields(in_flight: int) -> Case:
    return Case(
        name=f"server/yield-{in_flight}",
        title="request_response, {in_flight} in flight, each handler waits once",
        group="server",
        operation="request_response",
        parameters={"in_flight": in_flight},
        only=("ours", "py", "js"),
        server_args={name: ["--yield"] for name in ("ours", "py", "js")},
    )


def _many(group: str) -> list[Case]:
    return [
        Case(
            name=f"{group}/streams",
            title="{streams} concurrent streams of {items} items, window {window}, items",
            group=group,
            operation="many_streams",
            parameters={"streams": 10_000, "items": 4, "window": 2},
        ),
        Case(
            name=f"{group}/connections",
            title="{connections} connections, 1 request_response in flight on each",
            group=group,
            operation="many_connections",
            parameters={"connections": 1000},
        ),
    ]


def _sequential(group: str) -> Case:
    return Case(
        name=f"{group}/request_response-1",
        title="request_response, 1 in flight",
        group=group,
        operation="sequential",
    )


def _interactions(group: str) -> list[Case]:
    return [
        _sequential(group),
        _request_response(group, 64),
        _request_response(group, 1000),
        Case(
            name=f"{group}/pool",
            title="request_response, {in_flight} in flight, a pool of {targets} connections",
            group=group,
            operation="pooled",
            parameters={"in_flight": 64, "targets": 4},
            only=("ours",),
        ),
        Case(
            name=f"{group}/request_stream",
            title="request_stream, window {window}, items",
            group=group,
            operation="request_stream",
            parameters=WINDOW,
        ),
        Case(
            name=f"{group}/request_channel",
            title="request_channel, echo, window {window}, items",
            group=group,
            operation="request_channel",
            parameters=WINDOW,
        ),
        Case(
            name=f"{group}/fire_and_forget",
            title="fire_and_forget, until the server has received them",
            group=group,
            operation="fire_and_forget",
        ),
    ]


NO_DELAY = ["--no-delay"]
GENERATOR = ["--generator"]
FRAGMENTS = {
    "py": ["--fragment-size", "65536"],
    "java": ["65536"],
    "go": ["-fragment", "65536"],
}

CASES = [
    *_interactions("tcp"),
    Case(
        name="tcp/request_stream-nodelay",
        title="request_stream as above, with TCP_NODELAY set for rsocket-js",
        group="tcp",
        operation="request_stream",
        parameters=WINDOW,
        only=("ours", "js"),
        server_args={"js": NO_DELAY},
        client_args={"js": NO_DELAY},
    ),
    Case(
        name="tcp/request_stream-generator",
        title="request_stream as above, rsocket-py with a generator, as in its manual",
        group="tcp",
        operation="request_stream",
        parameters=WINDOW,
        only=("ours", "py"),
        server_args={"py": GENERATOR},
    ),
    Case(
        name="tcp/router-64",
        title="request_response with a Router and a route, {in_flight} in flight",
        group="tcp",
        operation="request_response",
        parameters={"in_flight": 64, "route": "echo"},
        only=("ours",),
        server_args={"ours": ["--router"]},
    ),
    Case(
        name="tcp/large",
        title="request_response of 16 MiB in fragments of 64 KiB, in both directions",
        group="tcp",
        operation="request_response",
        parameters={"in_flight": 1, "size": LARGE},
        unit=" MiB/s",
        scale=LARGE / 2**20,
        server_args=FRAGMENTS,
        client_args=FRAGMENTS,
    ),
    *_many("tcp"),
    *(attrs.evolve(case, scheme="ws") for case in _interactions("ws")),
    _sequential("server"),
    _request_response("server", 64),
    _request_response("server", 1000),
    _yields(64),
    _yields(1000),
    Case(
        name="server/request_stream",
        title="request_stream, window {window}, items",
        group="server",
        operation="request_stream",
        parameters=WINDOW,
    ),
    *_many("server"),
    *VALUES_CASES,
    *LUMBERJACK_CASES,
    *TTRPC_CASES,
    *RSIO_CASES,
]


def is_wanted(name: str, words: Sequence[str]) -> bool:
    """Return whether ``--only`` selects a case.

    Args:
        name: The name of the case.
        words: The values of ``--only``. The full name of a case selects only this case; any other
            word selects all cases whose name contains it. Without words all cases are selected.
    """
    names = {"memory", *(case.name for case in (*CASES, *SPARK_CASES))}
    return not words or any(name == word if word in names else word in name for word in words)
