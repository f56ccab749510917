"""Connections inside one process: two real ends, or one real end and a scripted peer.

::

    async with connected_pair(my_responder) as requester:
        assert await requester.request_response(Payload(b"ping")) == Payload(b"pong")

    async with served(my_responder) as dial:                    # several clients of one application
        async with connect(dial) as first, connect(dial) as second:
            ...

    async with frame_peer_client(my_responder) as peer:         # you write the client's frames
        await peer.send(RequestResponseFrame(1, data=b"ping"))

    async with frame_peer_server() as (peer, requester):        # you write the server's frames
        ...

Each one ends its connection and waits for the tasks of both ends. It does not wrap an exception of
the block in a group.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from ..client import SetupSource, connect
from ..config import ConnectionConfig
from ..connection.dialling import Dial
from ..connection.reconnect import Reconnect
from ..connection.resume_options import ClientResume, ServerResume
from ..interactions.block import Block, ungrouped
from ..lease import LeaseOptions, LeaseSource
from ..metadata.builder import Metadata
from ..metadata.mime_types import MIME
from ..payload import Payload
from ..reactivesocket.opening import PROTOCOLS
from ..requester import Requester
from ..responder import Acceptor, Responder, check_responder, lifespan_of
from ..routing.outgoing import OutgoingMiddleware
from ..server import serve_transport
from ..tracing import Tracing
from ..transports.base import FrameTransport
from ..transports.memory import memory_transport_pair
from .frame_peer import FramePeer

__all__ = ["connected_pair", "frame_peer_client", "frame_peer_server", "running", "served"]

_NO_SETUP: Final = Payload()
_DEFAULTS: Final = ConnectionConfig()


@asynccontextmanager
async def served(
    responder: Responder | Acceptor,
    *,
    config: ConnectionConfig = _DEFAULTS,
    resume: ServerResume | None = None,
    lease: LeaseOptions | LeaseSource | None = None,
    protocols: Collection[str] = PROTOCOLS,
) -> AsyncIterator[Dial]:
    """Serve any number of clients of one application, over memory.

    ``async with served(router) as dial, connect(dial) as ada, connect(dial) as bob: ...``

    Args:
        responder: Answers the requests of all clients. Its `Responder.lifespan` is around the
            block.
        config: The configuration of the server.
        resume: As for `rsocket_trio.serve`.
        lease: Source of the leases that the server grants.
        protocols: As for `rsocket_trio.serve`.

    Yields:
        The function that dials, for `rsocket_trio.connect`.

    Raises:
        TypeError: The responder is of a wrong type.

    Checkpoint: on entering and on leaving, which waits until all clients are gone.
    If cancelled: all connections end, as after any other exception of the block.
    """
    check_responder(responder)
    accept = responder.accept if isinstance(responder, Responder) else responder
    serve = partial(
        serve_transport, accept, config=config, resume=resume, lease=lease, protocols=protocols
    )
    async with lifespan_of(responder), running() as nursery:

        @asynccontextmanager
        async def dial() -> AsyncIterator[FrameTransport]:
            client_end, server_end = memory_transport_pair()
            nursery.start_soon(serve, server_end)
            try:
                yield client_end
            finally:
                client_end.close()

        await trio.lowlevel.checkpoint()
        yield dial
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def connected_pair(
    responder: Responder | Acceptor,
    *,
    client_responder: Responder | Acceptor | None = None,
    setup: Payload | SetupSource[Payload] = _NO_SETUP,
    data_mime_type: str = MIME.CBOR,
    metadata_mime_type: str = MIME.COMPOSITE_METADATA,
    config: ConnectionConfig = _DEFAULTS,
    lease: LeaseOptions | LeaseSource | None = None,
    client_lease: LeaseOptions | LeaseSource | None = None,
    resume: ServerResume | None = None,
    client_resume: ClientResume | None = None,
    reconnect: Reconnect | None = None,
    setup_metadata: Metadata | SetupSource[Metadata] | None = None,
    middleware: Iterable[OutgoingMiddleware] = (),
    tracing: Tracing | None = None,
    protocol: str = "rsocket",
    protocols: Collection[str] = PROTOCOLS,
) -> AsyncIterator[Requester]:
    """Connect a client to a responder, over memory.

    Args:
        responder: Answers the requests of the client.
        client_responder: Answers the requests of the server; by default the client refuses them.
        setup: The setup payload.
        data_mime_type: MIME type of the data, as for `rsocket_trio.connect`.
        metadata_mime_type: MIME type of the metadata.
        config: The configuration of both ends.
        lease: Source of the leases that the server grants.
        client_lease: Source of the leases that the client grants. With it, the client asks the
            server for leases.
        resume: The resumption of the server.
        client_resume: The resumption of the client.
        reconnect: As for `rsocket_trio.connect`; so are the next four.
        setup_metadata: Added in front of the metadata of ``setup``.
        middleware: Blocks around each request of the client.
        tracing: The traces of its requests.
        protocol: The protocol that the client speaks.
        protocols: The protocols that the server speaks.

    Yields:
        The client's requester.

    Raises:
        SetupError: ``responder`` refused the connection.

    Checkpoint: on entering and on leaving.
    If cancelled: the connection ends, as after any other exception of the block.
    """
    server = served(responder, config=config, lease=lease, resume=resume, protocols=protocols)
    async with server as dial:
        async with connect(
            dial,
            responder=client_responder,
            setup=setup,
            setup_metadata=setup_metadata,
            resume=client_resume,
            reconnect=reconnect,
            middleware=middleware,
            tracing=tracing,
            protocol=protocol,
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
    lease: LeaseOptions | LeaseSource | None = None,
) -> AsyncIterator[FramePeer]:
    """Serve a scripted client, over memory.

    Args:
        responder: Answers the requests of the script.
        setup: Send a valid SETUP and wait for the answer to a KEEPALIVE. With False the script
            sends the first frame itself.
        config: The configuration of the server.
        lease: Source of the leases that the server grants. With it, the SETUP asks for leases,
            and the script must receive the LEASE itself.

    Yields:
        The scripted client. Its transport is closed at the end of the block.

    Checkpoint: on entering and on leaving.
    If cancelled: the connection ends, as after any other exception of the block.
    """
    client_end, server_end = memory_transport_pair()
    serving = partial(serve_transport, responder, server_end, config=config, lease=lease)
    async with running() as nursery:
        nursery.start_soon(serving)
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
    lease: LeaseOptions | LeaseSource | None = None,
) -> AsyncIterator[tuple[FramePeer, Requester]]:
    """Connect a client to a scripted server, over memory.

    Args:
        responder: Answers the requests of the script; by default the client refuses them.
        setup: The setup payload.
        config: The configuration of the client.
        lease: Source of the leases that the client grants. With it, the client asks for leases,
            and the first frame that the script receives after SETUP is a LEASE.

    Yields:
        The scripted server and the requester of the client. The server has accepted the SETUP,
        which is ``peer.received[0]``.

    Checkpoint: on entering and on leaving.
    If cancelled: the connection ends, as after any other exception of the block.
    """
    client_end, server_end = memory_transport_pair()
    accepted = trio.Event()

    async def accept(peer: FramePeer) -> None:
        await peer.accept(keepalive=config.confirm_setup)
        accepted.set()

    async with FramePeer(server_end) as peer:
        async with running() as nursery:
            nursery.start_soon(accept, peer)
            async with connect(
                client_end, responder=responder, setup=setup, config=config, lease=lease
            ) as requester:
                # Without confirm_setup the client does not wait for this.
                await accepted.wait()
                try:
                    yield peer, requester
                finally:
                    # The script has ended and cannot answer when the client closes.
                    server_end.close()


@asynccontextmanager
async def running() -> AsyncIterator[trio.Nursery]:
    """Give a nursery and wait for its tasks; cancel them if the block fails, whose error is raised.

    Checkpoint: if there are tasks, at the end of the block.
    If cancelled: the tasks are cancelled.
    """
    block, own = Block(), list[BaseException]()
    with ungrouped(own), block.around():
        async with trio.open_nursery() as nursery:
            with block.body():
                yield nursery
            if block.error is not None:
                own.append(block.error)
                nursery.cancel_scope.cancel(reason="the block beside it failed")
