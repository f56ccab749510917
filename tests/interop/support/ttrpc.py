"""Peers that speak ttrpc: their servers and clients, and this package as the server under test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from rsocket_trio import ttrpc
from rsocket_trio.testing.ttrpc_peer import SERVICE, EchoPayload, Part, Sum, app
from rsocket_trio.ttrpc import Method, MethodKind, TtrpcServer, codec_for

from .installed import TTRPC_GO, TTRPC_RUST
from .processes import Peer, running

PROGRAMS: dict[str, Path] = {"ttrpc (Go)": TTRPC_GO, "ttrpc (Rust)": TTRPC_RUST}


def _method(name: str, kind: MethodKind, request: Any, response: Any) -> Method[Any, Any]:
    return Method(SERVICE, name, kind, codec_for(request), codec_for(response))


ECHO = _method("Echo", MethodKind.UNARY, EchoPayload, EchoPayload)
ECHO_STREAM = _method("EchoStream", MethodKind.BIDI_STREAM, EchoPayload, EchoPayload)
SUM_STREAM = _method("SumStream", MethodKind.CLIENT_STREAM, Part, Sum)
DIVIDE_STREAM = _method("DivideStream", MethodKind.SERVER_STREAM, Sum, Part)
ECHO_NULL = _method("EchoNull", MethodKind.CLIENT_STREAM, EchoPayload, None)
ECHO_NULL_STREAM = _method("EchoNullStream", MethodKind.BIDI_STREAM, EchoPayload, None)
EMPTY_PAYLOAD_STREAM = _method("EmptyPayloadStream", MethodKind.SERVER_STREAM, None, EchoPayload)


class Serving:
    """A server of a peer, which runs.

    Attributes:
        uri: Where it listens.
    """

    def __init__(self, peer: Peer, uri: str) -> None:
        self.peer = peer
        self.uri = uri

    async def ended(self, command: str) -> None:
        """Tell it to end in this way, and wait until it has."""
        await self.peer.tell(command)
        while json.loads(await self.peer.line()) != {"ended": command}:
            pass

    async def end_of_handler(self) -> dict[str, str]:
        """Return what the next handler of a stream that ends says."""
        line: dict[str, str] = json.loads(await self.peer.line())
        return line


@asynccontextmanager
async def serving(name: str, uri: str) -> AsyncIterator[Serving]:
    """The server of that peer, for the length of the block."""
    async with running([str(PROGRAMS[name]), "serve", uri]) as peer:
        line = await peer.line()
        yield Serving(peer, line.removeprefix("listening on "))


class Calling:
    """A client of a peer, which runs scenarios one after the other on one connection."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def seen(self) -> dict[str, Any]:
        """Return its next line: a call that has begun, or what a scenario has seen."""
        line: dict[str, Any] = json.loads(await self._peer.line())
        return line

    async def begun(self) -> None:
        """Wait until it has begun a call that takes some time."""
        assert "calling" in await self.seen()


@asynccontextmanager
async def calling(name: str, uri: str, scenarios: Sequence[str]) -> AsyncIterator[Calling]:
    """The client of that peer, for the length of the block."""
    async with running([str(PROGRAMS[name]), "call", uri, *scenarios]) as peer:
        yield Calling(peer)


@asynccontextmanager
async def served(uri: str, services: Any = app, **settings: Any) -> AsyncIterator[TtrpcServer]:
    """Run `ttrpc.serve` with the known answers for the length of the block."""
    async with trio.open_nursery() as nursery:
        server: TtrpcServer = await nursery.start(partial(ttrpc.serve, services, uri, **settings))
        yield server
        nursery.cancel_scope.cancel(reason="the test is over")
