"""The peers' stacks, how to run their programs, and what they cannot do."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from .driver import Client
from .installed import JS, PY, require
from .processes import Peer, java, running


@attrs.frozen
class Stack:
    """A peer's stack in one role over one transport, and what it cannot do.

    Attributes:
        package: The package to install for it.
        left_out: Cases that are left out because of a fault of the peer, and the fault.
            Tests name them in ``@pytest.mark.needs(case)``.
    """

    package: str
    transport: str
    server_argv: Callable[..., Sequence[str]]
    client_argv: Callable[..., Sequence[str]]
    left_out: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.package}-{self.transport}"

    @asynccontextmanager
    async def serve(self, *arguments: object) -> AsyncIterator[tuple[str, Peer]]:
        """Run the server program; yield the URI it listens on, and the program."""
        require(self.package)
        async with running(self.server_argv(*map(str, arguments))) as peer:
            line = await peer.line()
            yield line.removeprefix("listening on "), peer

    @asynccontextmanager
    async def connect(self, uri: str, *arguments: object) -> AsyncIterator[Client]:
        """Run the client program, connected to ``uri``."""
        require(self.package)
        async with (
            running(self.client_argv(uri, *map(str, arguments))) as peer,
            trio.open_nursery() as nursery,
        ):
            client = Client(peer)
            nursery.start_soon(client.read_events)
            event = await client.event()
            assert event["event"] == "connected", event
            yield client
            nursery.cancel_scope.cancel(reason="the test is over")


JS_FAULTS = {
    "metadata in answers": "what it answers never has the METADATA flag",
    "to complete without a value": "its request_response always answers with NEXT",
    "to be completed without a value": "its request_response waits for NEXT without end",
    "to send fragments": "it reassembles, but never fragments",
}
PY_FAULTS = {
    "to complete without a value": "its request_response always answers with NEXT",
    "to be completed without a value": "it takes completion for an empty payload",
    "items without data": "it sends them without NEXT",
}


def _node(program: str, *arguments: str) -> list[str]:
    return ["node", str(JS / program), *arguments]


def _python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(PY / program), *arguments]


def stacks() -> Iterator[Stack]:
    """Every stack over each transport that it is tested on."""
    for transport in "tcp", "ws":
        yield Stack(
            "rsocket-js",
            transport,
            lambda *arguments, transport=transport: _node("server.js", transport, *arguments),
            lambda *arguments: _node("client.js", *arguments),
            JS_FAULTS,
        )
    for transport in "tcp", "ws":
        yield Stack(
            "rsocket-java",
            transport,
            lambda *arguments, transport=transport: java("Server", transport, *arguments),
            lambda *arguments: java("Client", *arguments),
            {},
        )
    yield Stack(
        "rsocket-py",
        "tcp",
        lambda *arguments: _python("server.py", *arguments),
        lambda *arguments: _python("client.py", *arguments),
        PY_FAULTS,
    )
