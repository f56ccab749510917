"""Connected sockets for the tests of readiness."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio.sockets.direct import DirectStream

needs_epoll = pytest.mark.skipif(
    not hasattr(select, "epoll"), reason="this system has no epoll: waits are trio's own"
)


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[DirectStream, trio.SocketStream]]:
    """Our end of a TCP connection, and the peer's."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        host, port = listener.socket.getsockname()[:2]
        async with DirectStream(await trio.open_tcp_stream(host, port)) as ours:
            async with await listener.accept() as theirs:
                yield ours, theirs


async def receive_x(stream: DirectStream) -> None:
    assert await stream.receive_some() == b"x"
