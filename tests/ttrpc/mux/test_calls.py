"""ttrpc over a trunk: a server on one of its connections, a client on the other.

Modules: rsocket_trio.ttrpc.mux, rsocket_trio.sockets.departure.
"""

from __future__ import annotations

import socket

import pytest
import trio

from rsocket_trio import os_support
from rsocket_trio.errors import ConnectionClosed
from rsocket_trio.ttrpc import MethodKind, TtrpcConfig, connect, serve_stream
from rsocket_trio.ttrpc.mux import PLUGIN_SERVICE, RUNTIME_SERVICE, multiplexed
from rsocket_trio.ttrpc.wire.trunk import encode_piece
from tests.ttrpc.scenes import ECHO, one, request

PATIENT = TtrpcConfig(half_close_timeout=600)


@pytest.mark.skipif(not os_support.UNIX_SOCKETS, reason="this system has no Unix sockets")
async def test_handlers_are_cancelled_when_the_peer_of_the_trunk_is_gone() -> None:
    """As on a Unix socket without a trunk: nobody waits for their answers."""
    running, cancelled = trio.Event(), trio.Event()

    async def wait(_request: bytes) -> bytes:
        running.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    ours, theirs = socket.socketpair()
    peer = trio.socket.from_stdlib_socket(theirs)
    with trio.fail_after(60):
        async with multiplexed(ours) as trunk, trio.open_nursery() as nursery:
            plugin, runtime = trunk.open(PLUGIN_SERVICE), trunk.open(RUNTIME_SERVICE)

            async def serve() -> None:
                await serve_stream(one(MethodKind.UNARY, wait), plugin, config=PATIENT)

            nursery.start_soon(serve)
            async with connect(runtime) as client:
                await peer.send(encode_piece(PLUGIN_SERVICE, request(1)))
                await running.wait()
                peer.close()
                assert isinstance(await client.wait_closed(), ConnectionClosed)
                with pytest.raises(ConnectionClosed):
                    await client.unary(ECHO, b"")
            await cancelled.wait()
