"""A server that sends every byte back, at any address; and a client that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from rsocket_trio.sockets.connection_limit import ConnectionCounts
from rsocket_trio.sockets.dial import dial
from rsocket_trio.sockets.listen import Arrivals, listen_for
from rsocket_trio.ttrpc.addresses import ttrpc_uri
from rsocket_trio.uri import Uri


async def hold(stream: ByteStream) -> ByteStream:
    """Make nothing else out of a stream."""
    return stream


async def reach(address: str | Uri, timeout: float = 5) -> ByteStream:
    return await dial(ttrpc_uri(address), hold, handshake_timeout=timeout)


class Echo:
    """A server.

    Attributes:
        uri: Where it can be dialled.
        infos: The facts about each of its connections.
    """

    def __init__(self, uri: Uri, infos: list[TransportInfo]) -> None:
        self.uri = uri
        self.infos = infos


@asynccontextmanager
async def echo_server(address: str | Uri, **options: Any) -> AsyncIterator[Echo]:
    infos: list[TransportInfo] = []

    async def handle(stream: ByteStream) -> None:
        infos.append(stream.info)
        while data := await stream.stream.receive_some():
            await stream.stream.send_all(data)

    arrivals = Arrivals(
        shake_hands=hold,
        handle=handle,
        ssl_context=None,
        handshake_timeout=5,
        counts=ConnectionCounts(None),
        **options,
    )
    async with trio.open_nursery() as nursery:
        (uri,) = await nursery.start(partial(listen_for, arrivals, ttrpc_uri(address)))
        yield Echo(uri, infos)
        nursery.cancel_scope.cancel()


async def ask(stream: ByteStream, data: bytes = b"ping") -> bytes:
    """Send bytes and return as many."""
    await stream.stream.send_all(data)
    answer = b""
    while len(answer) < len(data):
        more = await stream.stream.receive_some()
        assert more, "the stream has ended"
        answer += more
    return answer
