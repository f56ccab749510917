"""The adapter of trio-websocket: frames it refuses, and its ends and closes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
import trio_websocket

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.transports import TransportInfo, TrioWebSocketTransport


@asynccontextmanager
async def connected(
    **options: int,
) -> AsyncIterator[tuple[TrioWebSocketTransport, trio_websocket.WebSocketConnection]]:
    """A transport on the server's side, and trio-websocket's own connection to it."""
    send, receive = trio.open_memory_channel[TrioWebSocketTransport](1)
    done = trio.Event()

    async def handle(request: trio_websocket.WebSocketRequest) -> None:
        await send.send(TrioWebSocketTransport(await request.accept(), **options))
        await done.wait()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(trio_websocket.serve_websocket, handle, "127.0.0.1", 0, ssl_context=None)
        )
        with send, receive:
            url = f"ws://127.0.0.1:{server.port}/path?query"
            async with trio_websocket.open_websocket_url(
                url, extra_headers=[(b"X-Name", b"value")]
            ) as ws:
                yield await receive.receive(), ws
            await trio.aclose_forcefully(ws._stream)  # It may leave that open.
            done.set()
            nursery.cancel_scope.cancel()


async def test_facts_come_from_the_connection() -> None:
    """Path and addresses are filled in, unless they are given."""
    async with connected() as (transport, ws):
        assert transport.info.scheme == "ws"
        assert transport.info.path == "/path?query"
        assert transport.info.peer.startswith("127.0.0.1:")
        mine = TransportInfo(scheme="ws", peer="a proxy says")
        assert TrioWebSocketTransport(ws, info=mine).info is mine


@pytest.mark.parametrize(
    ("message", "why", "code"), [("text", "text", 1003), (bytes(101), "101 bytes", 1009)]
)
async def test_a_malformed_message_is_refused_with_a_code(
    message: str | bytes, why: str, code: int
) -> None:
    """A text message, or one over the limit, is an error on each call, and a close code."""
    async with connected(max_frame_size=100) as (transport, ws):
        await ws.send_message(message)
        for _ in range(2):
            with pytest.raises(RemoteProtocolError, match=why):
                await transport.receive_frames()
        await transport.aclose()
        with pytest.raises(trio_websocket.ConnectionClosed) as caught:
            await ws.get_message()
        assert caught.value.reason.code == code


@pytest.mark.parametrize("code", [1000, 1001])
async def test_a_clean_close(code: int) -> None:
    """Codes "normal" and "going away" are the end; sending then is an error."""
    async with connected() as (transport, ws):
        await ws.aclose(code)
        assert await transport.receive_frames() == []
        with pytest.raises(trio.BrokenResourceError, match=str(code)):
            await transport.send_frames([b"late"])


async def test_an_unclean_close() -> None:
    """Other codes are errors that name code and reason."""
    async with connected() as (transport, ws):
        await ws.aclose(1011, "why")
        with pytest.raises(trio.BrokenResourceError, match="1011 INTERNAL_ERROR: why"):
            await transport.receive_frames()


async def test_closing_stops_a_waiting_sender() -> None:
    """A sender whose peer does not read is woken when another task closes the transport."""
    async with connected() as (transport, _):

        async def send_on() -> None:
            while True:
                await transport.send_frames([bytes(100_000)])

        async def expect_the_close() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await send_on()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_the_close)
            await trio.testing.wait_all_tasks_blocked(0.05)
            with trio.CancelScope() as scope:
                scope.cancel()
                await transport.aclose()
