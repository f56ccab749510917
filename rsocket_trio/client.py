"""The client: `connect`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from .config import ConnectionConfig, check_config
from .connection.connection import Connection
from .connection.dialling import Dial, Dialled
from .connection.establish import begin_as_client, wait_accepted
from .connection.fresh_sessions import Succession
from .connection.resume_client import ClientSession
from .connection.resume_options import ClientResume, check_resume
from .connection.sendable import not_sendable
from .errors import (
    ConnectFailed,
    ConnectionClosed,
    InternalError,
    LocalProtocolError,
    SetupError,
)
from .field_checks import argument, instance_of
from .interactions.block import Block, opened_by_block
from .interactions.connection_block import NotEntered, run_within
from .interactions.isolation import crash
from .lease import LeaseOptions, LeaseSource, lease_options
from .metadata.builder import Metadata
from .metadata.mime_types import MIME, check_mime_name
from .payload import Payload
from .reactivesocket.opening import check_protocol, speak_reactivesocket
from .requester import Requester
from .responder import Acceptor, Responder, Setup, accept_with, check_responder, lifespan_of
from .sealed import make
from .stopping import Stopping
from .tracing import Tracing
from .transports import open_transport
from .transports.base import FrameTransport
from .transports.websocket_handshake import normal_headers
from .uri import Uri

if TYPE_CHECKING:
    from .routing.outgoing import Outgoing, OutgoingMiddleware

__all__ = ["connect"]

_NO_SETUP: Final = Payload()
_DEFAULT_CONFIG: Final = ConnectionConfig()


@opened_by_block
async def connect(
    target: str | Uri | FrameTransport | Dial,
    *,
    responder: Responder | Acceptor | None = None,
    setup: Payload = _NO_SETUP,
    setup_metadata: Metadata | None = None,
    data_mime_type: str = MIME.CBOR,
    metadata_mime_type: str = MIME.COMPOSITE_METADATA,
    config: ConnectionConfig = _DEFAULT_CONFIG,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ssl_context: ssl.SSLContext | None = None,
    resume: ClientResume | None = None,
    lease: LeaseOptions | LeaseSource | None = None,
    tracing: Tracing | None = None,
    protocol: str = "rsocket",
    middleware: Iterable[OutgoingMiddleware] = (),
) -> AsyncIterator[Requester]:
    """Connect to a server.

    ``async with connect("tcp://localhost:7878") as requester: ...``

    The connection lives as long as the block, and its tasks run in the block's nursery. Leaving
    the block sends the queued frames and closes the connection. Requests that are still open then
    are cancelled at the peer.

    Args:
        target: One of three. A URI, as text or as a `Uri`: ``tcp://host:port``,
            ``tls://host:port``, ``unix:///path``, ``ws://host:port/path``,
            ``wss://host:port/path``. Or your own transport, which is closed with the block. Or
            your own function that dials: it returns an asynchronous context manager, which gives
            a transport and closes it. If it cannot connect now, it raises `ConnectFailed`, or an
            `OSError` or one of trio's errors, which become `ConnectFailed`. Any other exception
            counts as a fault of the function, which is not called again then.
        responder: Answers the server's requests.
        setup: Data and metadata of the SETUP frame, for the server's acceptor.
        setup_metadata: Added in front of the metadata of ``setup``, e.g. ``Metadata(auth=...)``.
        data_mime_type: MIME type of the data of all payloads of this connection.
        metadata_mime_type: MIME type of the metadata of all payloads. Routes need the default, or
            the MIME type of routing metadata.
        config: Times, sizes and limits.
        headers: WebSocket: more headers of the handshake, as a mapping or as pairs of a name and a
            value; an error for every other target. Each dial of a resumption sends them again.
        ssl_context: TLS: verification and client certificate. By default Python's default
            context. An error for every target but ``tls`` and ``wss``.
        resume: Keep the session when the connection is lost: dial again, and resume it. Streams in
            both directions only pause; their frames are not lost, doubled or reordered. Frames on
            stream 0 (metadata_push) may be lost. The server has to offer resumption. Your own
            transport cannot be dialled again, so ``resume`` is an error with it.
        lease: Ask the server to use leases. The value is the options, or only the source of the
            leases we grant to the server. Our requests then wait for the server's LEASE, and the
            server's requests for ours.
        tracing: Passes the trace of a request being answered on to the requests made here.
        protocol: ``"rsocket"`` (1.0) or ``"reactivesocket"`` (the draft of 2015). The client must
            know which one the server speaks: with the wrong one, the server waits for more bytes
            and does not answer.
        middleware: Blocks around each request that is made here, the outermost first: async
            generator functions that yield once, or functions that return async context managers.
            They get the `OutgoingCall`. Not around metadata_push.

    Yields:
        The requester, once the server has accepted the SETUP.

    Raises:
        ConnectFailed: No connection could be made, or the server did not answer; ``__cause__``
            holds the exception of the dialler.
        SetupError: The server refused: `RejectedSetup`, `InvalidSetup` or `UnsupportedSetup`,
            with its reason.
        ConnectionClosed: The connection ended during the set-up.
        LocalProtocolError: The arguments do not fit a SETUP frame, or do not go together.
        MetadataError: ``setup_metadata`` cannot be encoded.
        TypeError: An argument is of a wrong type.
        ValueError: The address, the protocol or a header is wrong; or the target has no use for
            ``headers`` or ``ssl_context``.
        InternalError: On leaving: a task of the connection crashed. Please report it.

    Checkpoint: entering and leaving, always.
    If cancelled: the connection is closed.
    """
    check_config(config)
    check_mime_name(data_mime_type, "data_mime_type")
    check_mime_name(metadata_mime_type, "metadata_mime_type")
    argument("setup", setup, instance_of(Payload))
    if type(setup.data) is not bytes or not isinstance(setup.metadata, bytes | None):
        raise not_sendable(setup)
    argument("setup_metadata", setup_metadata, instance_of(Metadata, none=True))
    argument("tracing", tracing, instance_of(Tracing, none=True))
    check_protocol(protocol)
    surround: Callable[[Requester], Outgoing | None] | None = None
    if middleware != ():
        # Importing it takes as long as all the rest, which clients without middleware do not need.
        from .routing.outgoing import around_requests

        surround = around_requests(middleware)
    headers = normal_headers(headers)
    if setup_metadata is not None:
        encoded = setup_metadata.encode(metadata_mime_type, more=setup.metadata)
        setup = Payload(setup.data, encoded)
    check_resume(resume, ClientResume)
    if responder is not None:
        check_responder(responder)
    leases = lease_options(lease)
    draft = protocol == "reactivesocket"
    if resume is not None and isinstance(target, FrameTransport):
        raise LocalProtocolError(
            "resume= cannot be used with a transport, as connect cannot dial it again: give "
            "connect an address, or a function that dials"
        )
    if resume is not None and draft:
        raise LocalProtocolError(
            "the ReactiveSocket draft has no resumption: leave resume= out, or use "
            'protocol="rsocket"'
        )
    dial = _dialler(target, headers, ssl_context, config)
    block = Block()
    with block.around():
        async with lifespan_of(responder), Dialled(dial) as transport:
            if draft:
                transport = speak_reactivesocket(
                    transport, client=True, max_frame_size=config.limits.max_frame_size
                )
            session = None if resume is None else ClientSession(resume, dial, transport, config)
            async with _connection(
                transport,
                responder,
                setup,
                data_mime_type,
                metadata_mime_type,
                config,
                leases,
                session,
            ) as requester:
                requester.tracing = tracing
                if surround is not None:
                    requester._surround(surround(requester))  # noqa: SLF001 - it made it
                with block.body():
                    yield requester


def _dialler(
    target: str | Uri | FrameTransport | Dial,
    headers: tuple[tuple[str, str], ...],
    ssl_context: ssl.SSLContext | None,
    config: ConnectionConfig,
) -> Dial:
    """Return the function that makes a transport, on each call unless ``target`` is one."""
    if isinstance(target, str | Uri):
        return partial(
            open_transport,
            target,
            headers=headers,
            ssl_context=ssl_context,
            max_frame_size=config.limits.max_frame_size,
            handshake_timeout=config.setup_timeout,
        )
    if headers or ssl_context is not None:
        raise ValueError(
            "headers= and ssl_context= go with an address only: your own transport or function "
            "has to set headers and TLS itself"
        )
    if isinstance(target, FrameTransport):
        return lambda: target
    if not callable(target):
        raise TypeError(
            "connect needs an address (a str or a Uri), a transport or a function that dials, not "
            f"{type(target).__name__}"
        )
    return target


@asynccontextmanager
async def _connection(
    transport: FrameTransport,
    responder: Responder | Acceptor | None,
    setup: Payload,
    data_mime_type: str,
    metadata_mime_type: str,
    config: ConnectionConfig,
    lease: LeaseOptions | None,
    session: ClientSession | None,
) -> AsyncIterator[Requester]:
    requester: Requester | None = None
    blocks: list[AbstractAsyncContextManager[None] | None] = []

    async def begin(session: ClientSession | None) -> tuple[Connection, Requester]:
        nonlocal requester
        carrier = transport if session is None else session.link
        connection = Connection(carrier, config, client=True, lease=lease)
        if requester is None:
            requester = make(Requester, connection, metadata_mime_type, data_mime_type)
        token = None if session is None else session.token
        begin_as_client(connection, setup, data_mime_type, metadata_mime_type, resume_token=token)
        facts = Setup(
            data=setup.data,
            metadata=setup.metadata,
            data_mime_type=data_mime_type,
            metadata_mime_type=metadata_mime_type,
            keepalive_interval=config.keepalive_interval,
            max_lifetime=config.max_lifetime,
            transport=carrier.info,
            ours=True,
            stopping=Stopping(connection.lifecycle.drain_begun),
        )
        accepted = await accept_with(
            Responder() if responder is None else responder, facts, requester
        )
        blocks.append(accepted.connection_block())
        if blocks[-1] is not None and session is not None and session.resume.fresh_session:
            raise TypeError(
                "a responder with a block around each connection cannot be used with "
                "fresh_session=True, whose sessions follow each other on one requester: open in "
                "Router(lifespan=...) what is for all of them, or connect again yourself"
            )
        connection.open(accepted)
        return connection, requester

    async def begin_anew(session: ClientSession) -> Connection:
        connection, requester = await begin(session)
        requester._rebind(connection)  # noqa: SLF001 - this function made the requester
        return connection

    connection, requester = await begin(session)
    run: Callable[..., Awaitable[None]] = partial(_run, connection)
    close = connection.lifecycle.close
    if session is not None:
        succession = Succession(session, begin_anew)
        run, close = partial(succession.run, connection), succession.close
        if session.resume.fresh_session:
            requester._expect_more(succession.ended)  # noqa: SLF001 - as above
    peer = transport.info.peer or transport.info.scheme
    run = partial(run_within, blocks.pop(), peer, config.setup_timeout, run)
    refused: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(run)
                if config.confirm_setup:
                    await wait_accepted(connection)
                yield requester
            except (SetupError, ConnectionClosed, ConnectFailed) as error:
                # Raised below: out of a nursery it would be in an exception group.
                refused = error
            except NotEntered as error:
                refused = error.error
            finally:
                # Synchronous: every stream fails now, and the task that uses it queues a CANCEL.
                close()
    except BaseExceptionGroup as group:
        _, urgent = group.split(Exception)
        if urgent is not None:
            raise  # Cancelled or KeyboardInterrupt
        raise InternalError(
            f"a task of the connection {crash(group, connection.transport)}"
        ) from group
    if refused is not None:
        raise refused


async def _run(
    connection: Connection, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    config = connection.config
    await connection.run(
        [],
        interval=config.keepalive_interval,
        max_lifetime=config.max_lifetime,
        task_status=task_status,
    )
