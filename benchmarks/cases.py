"""What is measured: the cases and their parameters."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

LARGE = 16 * 2**20


@attrs.frozen(kw_only=True)
class Case:
    """One figure for each stack.

    Attributes:
        name: What ``--only`` selects by.
        title: What the report calls it.
        group: The table it stands in: a key of `GROUPS`.
        operation: What the client programs call it.
        parameters: What goes with the command.
        unit: What is counted.
        scale: One completion in that unit.
        only: The stacks it is for; all of them if empty.
        server_args: Further arguments of a stack's server.
        client_args: Further arguments of a stack's client.
    """

    name: str
    title: str
    group: str
    operation: str
    parameters: Mapping[str, object] = attrs.field(factory=dict)
    unit: str = "/s"
    scale: float = 1.0
    only: tuple[str, ...] = ()
    server_args: dict[str, list[str]] = attrs.field(factory=dict)
    client_args: dict[str, list[str]] = attrs.field(factory=dict)


GROUPS = {
    "tcp": "Client and server, a process each, over TCP",
    "ws": "Client and server, a process each, over WebSocket",
    "server": "The server alone, against a neutral raw client, over TCP",
}
WINDOW = {"window": 256}


def _request_response(group: str, in_flight: int) -> Case:
    return Case(
        name=f"{group}/request_response-{in_flight}",
        title=f"request_response, {in_flight} in flight",
        group=group,
        operation="request_response",
        parameters={"in_flight": in_flight},
    )


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
            name=f"{group}/request_stream",
            title="request_stream, window 256, items",
            group=group,
            operation="request_stream",
            parameters=WINDOW,
        ),
        Case(
            name=f"{group}/request_channel",
            title="request_channel, echo, window 256, items",
            group=group,
            operation="request_channel",
            parameters=WINDOW,
        ),
        Case(
            name=f"{group}/fire_and_forget",
            title="fire_and_forget, until the server has seen them",
            group=group,
            operation="fire_and_forget",
        ),
    ]


NO_DELAY = ["--no-delay"]
GENERATOR = ["--generator"]
FRAGMENTS = ["--fragment-size", "65536"]

CASES = [
    *_interactions("tcp"),
    Case(
        name="tcp/request_stream-nodelay",
        title="request_stream as above, rsocket-js given TCP_NODELAY by hand",
        group="tcp",
        operation="request_stream",
        parameters=WINDOW,
        only=("ours", "js"),
        server_args={"js": NO_DELAY},
        client_args={"js": NO_DELAY},
    ),
    Case(
        name="tcp/request_stream-generator",
        title="request_stream as above, rsocket-py by a generator, as its manual has it",
        group="tcp",
        operation="request_stream",
        parameters=WINDOW,
        only=("ours", "py"),
        server_args={"py": GENERATOR},
    ),
    Case(
        name="tcp/router-64",
        title="request_response through a Router and a route, 64 in flight",
        group="tcp",
        operation="request_response",
        parameters={"in_flight": 64, "route": "echo"},
        only=("ours",),
        server_args={"ours": ["--router"]},
    ),
    Case(
        name="tcp/large",
        title="request_response of 16 MiB, in fragments of 64 KiB, each way",
        group="tcp",
        operation="request_response",
        parameters={"in_flight": 1, "size": LARGE},
        unit=" MiB/s",
        scale=LARGE / 2**20,
        server_args={"py": FRAGMENTS},
        client_args={"py": FRAGMENTS},
    ),
    Case(
        name="tcp/streams",
        title="10 000 streams at once on one connection, 4 items each, window 2, items",
        group="tcp",
        operation="many_streams",
        parameters={"streams": 10_000, "items": 4, "window": 2},
    ),
    Case(
        name="tcp/connections",
        title="1000 connections, 1 request_response in flight on each",
        group="tcp",
        operation="many_connections",
        parameters={"connections": 1000},
    ),
    *_interactions("ws"),
    _request_response("server", 64),
    _request_response("server", 1000),
    Case(
        name="server/request_stream",
        title="request_stream, window 256, items",
        group="server",
        operation="request_stream",
        parameters=WINDOW,
    ),
]
