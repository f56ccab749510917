"""Connections inside one process: two real ends, or one real end and a script of frames.

::

    async with connected_pair(my_responder) as requester:
        assert await requester.request_response(Payload(b"ping")) == Payload(b"pong")

    async with frame_peer_client(my_responder) as peer:         # you write the client's frames
        await peer.send(RequestResponseFrame(1, data=b"ping"))

    async with frame_peer_server() as (peer, requester):        # you write the server's frames
        ...

They leave nothing behind: each ends its connection and waits for the tasks of both ends. What
the block raises arrives as itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from ..client import connect
from ..config import ConnectionConfig
from ..interactions.block import Block
from ..lease import AnyLeaseSource, LeaseOptions
from ..metadata.mime_types import MIME
from ..payload import Payload
from ..requester import Requester
from ..responder import Acceptor, Responder
from ..server import serve_transport
from ..transports.memory import memory_transport_pair
from .frame_peer import FramePeer

__all__ = ["connected_pair", "frame_peer_client", "frame_peer_server"]

_NO_SETUP: Final = Payload()
_DEFAULTS: Final = ConnectionConfig()


@asynccontextmanager
async def connected_pair(
    responder: Responder | Acceptor,
    *,
    client_responder: Responder | Acceptor | None = None,
    setup: Payload = _NO_SETUP,
    data_mime_type: str = MIME.CBOR,
    metadata_mime_type: str = MIME.COMPOSITE_METADATA,
    config: ConnectionConfig = _DEFAULTS,
    lease: LeaseOptions | AnyLeaseSource | None = None,
    client_lease: LeaseOptions | AnyLeaseSource | None = None,
) -> AsyncIterator[Requester]:
    """Connect a client to a responder, over memory.

    Args:
        responder: What the server's end answers with.
        client_responder: What the client's end answers with; nothing by default.
        setup: The setup payload.
        data_mime_type: MIME type of the data, as for `rsocket_trio.connect`.
        metadata_mime_type: Likewise of the metadata.
        config: Of both ends.
        lease: What the server's end grants leases with.
        client_lease: Likewise of the client's end, which asks for leases if this is given.

    Yields:
        The client's requester.

    Raises:
        SetupError: ``responder`` refused the connection.

    Checkpoint: on entering and on leaving.
    If cancelled: the connection ends, as after any other exception of the block.
    """
    client_end, server_end = memory_transport_pair()
    serving = partial(serve_transport, responder, server_end, config=config, lease=lease)
    async with _running(serving):
        async with connect(
            client_end,
            responder=client_responder,
            setup=setup,
            data_mime_type=data_mime_type,
            metadata_mime_type=metadata_mime_type,
            config=config,
            lease=client_lease,
        ) as requester:
            yield requester


@asynccontextmanager
async def frame_peer_client(
    responder: Responder | Acceptor,
    *,
    setup: bool = True,
    config: ConnectionConfig = _DEFAULTS,
    lease: LeaseOptions | AnyLeaseSource | None = None,
) -> AsyncIterator[FramePeer]:
    """Serve a scripted client, over memory.

    Args:
        responder: What the server's end answers with.
        setup: Send a good SETUP and wait until a KEEPALIVE is answered; False leaves the first
            frame to the script.
        config: Of the server's end.
        lease: What the server's end grants leases with. The SETUP sent asks for leases then, and
            its answer, a LEASE, is left to the script.

    Yields:
        The client's script. At the end of the block its transport is closed.

    Checkpoint: on entering and on leaving.
    If cancelled: the connection ends, as after any other exception of the block.
    """
    client_end, server_end = memory_transport_pair()
    serving = partial(serve_transport, responder, server_end, config=config, lease=lease)
    async with _running(serving):
        async with FramePeer(client_end) as peer:
            if setup and lease is not None:
                await peer.setup(lease=True)
            elif setup:
                await peer.setup()
                await peer.expect_alive()
            yield peer


@asynccontextmanager
async def frame_peer_server(
    responder: Responder | Acceptor | None = None,
    *,
    setup: Payload = _NO_SETUP,
    config: ConnectionConfig = _DEFAULTS,
    lease: LeaseOptions | AnyLeaseSource | None = None,
) -> AsyncIterator[tuple[FramePeer, Requester]]:
    """Connect a client to a scripted server, over memory.

    Args:
        responder: What the client's end answers with; nothing by default.
        setup: The setup payload.
        config: Of the client's end.
        lease: What the client's end asks for leases with; the LEASE it sends is the first frame
            the script receives.

    Yields:
        The server's script, which has accepted the SETUP (it is ``peer.received[0]``), and the
        client's requester.

    Checkpoint: on entering and on leaving.
    If cancelled: the connection ends, as after any other exception of the block.
    """
    client_end, server_end = memory_transport_pair()
    accepted = trio.Event()

    async def accept(peer: FramePeer) -> None:
        await peer.accept(keepalive=config.confirm_setup)
        accepted.set()

    async with FramePeer(server_end) as peer:
        async with _running(partial(accept, peer)):
            async with connect(
                client_end, responder=responder, setup=setup, config=config, lease=lease
            ) as requester:
                # Without confirmation the client does not wait for this by itself.
                await accepted.wait()
                try:
                    yield peer, requester
                finally:
                    # The script is over, so nobody would answer the client's goodbye.
                    server_end.close()


@asynccontextmanager
async def _running(task: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run a task beside the block and wait for its end; cancel it if the block fails."""
    block = Block()
    with block.around():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task)
            with block.body():
                yield
            if block.error is not None:
                nursery.cancel_scope.cancel(reason="the block beside it failed")
