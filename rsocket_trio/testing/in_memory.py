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

import ssl
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from inspect import signature
from typing import Any, Final, Unpack

import attrs
import trio

from ..client import SetupSource, connect
from ..config import ConnectionConfig
from ..connection.dialling import Dial
from ..connection.reconnect import Reconnect
from ..connection.resume_options import ClientResume, ServerResume
from ..lease import LeaseOptions, LeaseSource
from ..metadata.builder import Metadata
from ..payload import Payload
from ..protocol.repeats import Repeats
from ..reactivesocket.opening import PROTOCOLS
from ..requester import Requester
from ..responder import Acceptor, Responder, check_responder, lifespan_of
from ..routing.outgoing import OutgoingMiddleware
from ..server import serve_transport
from ..tracing import Tracing
from ..transports.base import FrameTransport
from ..transports.memory import memory_transport_pair
from ..uri import as_uri
from .frame_peer import FramePeer
from .serving import ServeOptions, running, serving

__all__ = ["PairOptions", "connected_pair", "frame_peer_client", "frame_peer_server", "served"]

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


class PairOptions(ServeOptions, total=False):
    """The options of `rsocket_trio.serve` and, of a client, of `rsocket_trio.connect`."""

    client_responder: Responder | Acceptor | None
    setup: Payload | SetupSource[Payload]
    setup_metadata: Metadata | SetupSource[Metadata] | None
    data_mime_type: str
    metadata_mime_type: str
    client_config: ConnectionConfig
    headers: Mapping[str, str] | Iterable[tuple[str, str]]
    client_ssl_context: ssl.SSLContext | None
    client_resume: ClientResume | None
    reconnect: Reconnect | None
    repeats: Repeats | None
    client_lease: LeaseOptions | LeaseSource | None
    tracing: Tracing | None
    protocol: str
    middleware: Iterable[OutgoingMiddleware]


_IN_MEMORY: Final = frozenset(signature(serve_transport).parameters)
_ADDRESSES: Final = {
    "headers": "ws://127.0.0.1:0",
    "allowed_origins": "ws://127.0.0.1:0",
    "ssl_context": "tls://localhost:0",
    "client_ssl_context": "tls://localhost:0",
}
"""Where an option can be used; others can at every address."""


@asynccontextmanager
async def connected_pair(
    responder: Responder | Acceptor, uri: str | None = None, **options: Unpack[PairOptions]
) -> AsyncIterator[Requester]:
    """Connect a client to a responder, over memory; or at an address.

    Args:
        responder: Answers the requests of the client.
        uri: Where the server listens and the client connects, e.g. ``ws://127.0.0.1:0/path``. It is
            for options that mean nothing in memory, such as ``headers`` and ``ssl_context``.
        options: All of `rsocket_trio.serve` and of `rsocket_trio.connect`. Those of a client that a
            server has too begin with ``client_``: ``client_responder``, ``client_lease``. The
            configuration of the client is that of the server unless there is a ``client_config``.

    Yields:
        The client's requester.

    Raises:
        SetupError: ``responder`` refused the connection.
        TypeError: There is no such option; and as `rsocket_trio.serve` and `rsocket_trio.connect`.
        ValueError: An option needs an address. The text says which; and as these two.

    Checkpoint: on entering and on leaving.
    If cancelled: the connection ends, as after any other exception of the block.
    """
    of_server, of_client = dict[str, Any](), dict[str, Any]()
    for name, value in options.items():
        if name not in PairOptions.__annotations__:
            known = ", ".join(PairOptions.__annotations__)
            raise TypeError(f"neither serve nor connect has the option {name!r}, but {known}")
        is_server = name in ServeOptions.__annotations__
        if uri is None and (name in _ADDRESSES or (is_server and name not in _IN_MEMORY)):
            where = _ADDRESSES.get(name, "tcp://127.0.0.1:0")
            raise ValueError(f"{name} needs an address: give connected_pair uri={where!r}, too")
        if is_server:
            of_server[name] = value
        else:
            of_client[name.removeprefix("client_")] = value
    if "config" in of_server:
        of_client.setdefault("config", of_server["config"])
    if uri is None:
        async with served(responder, **of_server) as dial, connect(dial, **of_client) as requester:
            yield requester
    else:
        named = as_uri(uri)
        async with serving(responder, uri, **of_server) as server:
            bound = as_uri(server.uris[0])
            # The certificate is for the name, not for what it is resolved to.
            target = attrs.evolve(bound, host=named.host) if named.is_encrypted else bound
            async with connect(target, **of_client) as requester:
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
