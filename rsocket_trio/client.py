"""The client: `connect`, `SetupSource`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import trio

from .config import ConnectionConfig, check_config
from .connection.connection import Connection
from .connection.dialling import Dial, Dialled, raise_failure
from .connection.establish import begin_as_client, wait_accepted
from .connection.patient_requests import PatientRequests
from .connection.reconnect import Attempt, ConnectionState, Reconnect
from .connection.resume_client import ClientSession
from .connection.resume_options import ClientResume, check_resume
from .connection.sendable import not_sendable
from .connection.succession import Succession
from .errors import (
    ConnectFailed,
    ConnectionClosed,
    LocalProtocolError,
    SetupError,
)
from .field_checks import argument, instance_of
from .interactions.block import Block, opened_by_block
from .interactions.connection_block import NotEntered, run_within
from .interactions.isolation import crashed
from .lease import LeaseOptions, LeaseSource, lease_options
from .metadata.builder import Metadata
from .metadata.mime_types import MIME, check_mime_name
from .payload import Payload
from .protocol.repeats import Repeats
from .reactivesocket.opening import check_protocol, speak_reactivesocket
from .repeating import RepeatedRequests, Repeating
from .requester import Requester, Surroundings
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

__all__ = ["Client", "Connecting", "SetupSource", "connect", "running"]

T = TypeVar("T")
SetupSource: TypeAlias = Callable[[Attempt], Awaitable[T]]
"""Makes the payload, or the metadata, of the SETUP of the next session."""

_NO_SETUP: Final = Payload()
_DEFAULT_CONFIG: Final = ConnectionConfig()


@opened_by_block
async def connect(
    target: str | Uri | FrameTransport | Dial,
    *,
    responder: Responder | Acceptor | None = None,
    setup: Payload | SetupSource[Payload] = _NO_SETUP,
    setup_metadata: Metadata | SetupSource[Metadata] | None = None,
    data_mime_type: str = MIME.CBOR,
    metadata_mime_type: str = MIME.COMPOSITE_METADATA,
    config: ConnectionConfig = _DEFAULT_CONFIG,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ssl_context: ssl.SSLContext | None = None,
    resume: ClientResume | None = None,
    reconnect: Reconnect | None = None,
    repeats: Repeats | None = None,
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
        setup: Data and metadata of the SETUP frame, for the server's acceptor. Or an async function
            that returns them: it is called before each dial for a new session, and is given the
            `Attempt`, so that tokens are fresh. The time for it, and for the dial, is
            `ConnectionConfig.setup_timeout`. Its errors count as those of a function that dials.
        setup_metadata: Added in front of the metadata of ``setup``, e.g. ``Metadata(auth=...)``; or
            a function, as for ``setup``.
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
        reconnect: Try again if the first dial fails, and begin a new session after each that is
            over, or that the server is going to end. The requester goes on with it; see
            `Requester.state`. With ``resume``, sessions are resumed where that is possible, and a
            server that refuses it is asked without at every other attempt. An error as ``resume``
            is.
        repeats: Send requests again that have failed for the moment, within a budget, and fail at
            once while the server fails them all. By default each is sent once; with ``reconnect``,
            once more if its session ends.
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
            holds the exception of the dialler. With ``reconnect`` this, `ConnectionClosed` and
            `RejectedSetup` come only after the last of `Retry.max_attempts`.
        SetupError: The server refused: `RejectedSetup`, `InvalidSetup` or `UnsupportedSetup`,
            with its reason.
        ConnectionClosed: The connection ended during the set-up.
        trio.ClosedResourceError: The block of the responder (`Router.connection`) ended it then.
        LocalProtocolError: The arguments do not fit a SETUP frame, or do not go together.
        MetadataError: ``setup_metadata`` cannot be encoded.
        TypeError: An argument is of a wrong type.
        ValueError: The address, the protocol or a header is wrong; or the target has no use for
            ``headers`` or ``ssl_context``.
        InternalError: On leaving: a task of the connection crashed. Please report it.

    Checkpoint: entering and leaving, always.
    If cancelled: the connection is closed.
    """
    connecting = Connecting(
        responder=responder,
        setup=setup,
        setup_metadata=setup_metadata,
        data_mime_type=data_mime_type,
        metadata_mime_type=metadata_mime_type,
        config=config,
        headers=headers,
        ssl_context=ssl_context,
        resume=resume,
        repeats=repeats,
        lease=lease,
        tracing=tracing,
        protocol=protocol,
        middleware=middleware,
    )
    argument("reconnect", reconnect, instance_of(Reconnect, none=True))
    client = connecting.client()
    if isinstance(target, FrameTransport) and (resume is not None or reconnect is not None):
        option = "resume" if reconnect is None else "reconnect"
        raise LocalProtocolError(
            f"{option}= cannot be used with a transport, as connect cannot dial it again: give "
            "connect an address, or a function that dials"
        )
    dial = connecting.dialler(target)
    patient: PatientRequests | None = None
    if reconnect is None:
        opened = _one_session(client, dial, resume, config)
    else:
        succession = Succession(reconnect, resume, dial, config, client)
        patient = PatientRequests(succession)
        opened = _many_sessions(client, succession)
    block = Block()
    with block.around():
        async with lifespan_of(responder), opened as requester:
            connecting.finish(requester, patient)
            with block.body():
                yield requester


class Connecting:
    """The arguments of `connect`, of which the clients of one target or of a pool are made.

    The arguments are those of `connect`.

    Attributes:
        responder: As above.
        config: As above.
        resume: As above.
        mime_types: The MIME types of metadata and of data.
        renewable: Whether a function of the application makes the SETUP.
        draft: Whether the protocol is the draft of 2015.
        lease: The options of leases; ``None`` if they are not used.

    Raises:
        TypeError: One is of a wrong type.
        ValueError: One is out of range.
        LocalProtocolError: They do not go together.
        MetadataError: ``setup_metadata`` cannot be encoded.
    """

    def __init__(
        self,
        *,
        responder: Responder | Acceptor | None,
        setup: Payload | SetupSource[Payload],
        setup_metadata: Metadata | SetupSource[Metadata] | None,
        data_mime_type: str,
        metadata_mime_type: str,
        config: ConnectionConfig,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        ssl_context: ssl.SSLContext | None,
        resume: ClientResume | None,
        repeats: Repeats | None,
        lease: LeaseOptions | LeaseSource | None,
        tracing: Tracing | None,
        protocol: str,
        middleware: Iterable[OutgoingMiddleware],
    ) -> None:
        check_config(config)
        check_mime_name(data_mime_type, "data_mime_type")
        check_mime_name(metadata_mime_type, "metadata_mime_type")
        argument("tracing", tracing, instance_of(Tracing, none=True))
        check_protocol(protocol)
        argument("repeats", repeats, instance_of(Repeats, none=True))
        self._surround: Callable[[Requester, Surroundings | None], Outgoing | None] | None = None
        if middleware != ():
            # Importing it takes as long as all the rest, which clients without middleware do not
            # need.
            from .routing.outgoing import around_requests

            self._surround = around_requests(middleware)
        self._headers = normal_headers(headers)
        check_resume(resume, ClientResume)
        if responder is not None:
            check_responder(responder)
        self.responder = responder
        self.config = config
        self.resume = resume
        self.mime_types = (metadata_mime_type, data_mime_type)
        self.draft = protocol == "reactivesocket"
        self.lease = lease_options(lease)
        self.renewable = callable(setup) or callable(setup_metadata)
        self._ssl_context = ssl_context
        self._tracing = tracing
        self._repeats = repeats
        self._setup = setup
        self._setup_metadata = setup_metadata
        self._fixed = None if self.renewable else self._composed(setup, setup_metadata)
        if resume is not None and self.draft:
            raise LocalProtocolError(
                "the ReactiveSocket draft has no resumption: leave resume= out, or use "
                'protocol="rsocket"'
            )

    def client(self) -> Client:
        """Return a client that has not connected."""
        return Client(self)

    def dialler(self, target: str | Uri | FrameTransport | Dial, address: str = "") -> Dial:
        """Return the function that makes a transport, on each call unless ``target`` is one.

        Args:
            target: The target.
            address: One of the IP addresses of the host of a target that is an address.

        Raises:
            TypeError: The target is of a wrong type.
            ValueError: It has no use for headers or TLS.
        """
        headers, ssl_context, config = self._headers, self._ssl_context, self.config
        if isinstance(target, str | Uri):
            return partial(
                open_transport,
                target,
                headers=headers,
                ssl_context=ssl_context,
                max_frame_size=config.limits.max_frame_size,
                handshake_timeout=config.setup_timeout,
                address=address,
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
                "connect needs an address (a str or a Uri), a transport or a function that dials, "
                f"not {type(target).__name__}"
            )
        return target

    def finish(self, requester: Requester, patient: PatientRequests | None) -> None:
        """Put around the requests of a requester what belongs there.

        Args:
            requester: The requester.
            patient: What is around each try.
        """
        requester.tracing = self._tracing
        inner: Surroundings | None = patient
        if self._repeats is not None:
            over = partial(_is_over, requester)
            inner = RepeatedRequests(Repeating(self._repeats, over), patient)
        around = None if self._surround is None else self._surround(requester, inner)
        requester._surround(around or inner)  # noqa: SLF001 - this package made it

    async def setup(self, attempt: Attempt) -> Payload:
        """See `rsocket_trio.connection.succession.Beginning`.

        Checkpoint: as the application's functions do.
        If cancelled: as the application's functions do.
        """
        if self._fixed is not None:
            return self._fixed
        setup, metadata = self._setup, self._setup_metadata
        try:
            if callable(setup):
                setup = await setup(attempt)
            if callable(metadata):
                metadata = await metadata(attempt)
        except BaseException as error:  # from the application's functions
            raise_failure(error, "there is no SETUP")
        return self._composed(setup, metadata)

    def _composed(self, setup: object, metadata: object) -> Payload:
        argument("setup", setup, instance_of(Payload))
        argument("setup_metadata", metadata, instance_of(Metadata, none=True))
        assert isinstance(setup, Payload)
        if type(setup.data) is not bytes or not isinstance(setup.metadata, bytes | None):
            raise not_sendable(setup)
        if isinstance(metadata, Metadata):
            encoded = metadata.encode(self.mime_types[0], more=setup.metadata)
            return Payload(setup.data, encoded)
        return setup


def _is_over(requester: Requester) -> bool:
    """Return whether each request fails, as no other session follows."""
    return requester.state is ConnectionState.CLOSED


class Client:
    """Begins the connections of one client, all with one requester.

    Args:
        connecting: The arguments of `connect`.

    Attributes:
        requester: The requester, once a connection has begun.
        renewable: Whether a function of the application makes the SETUP.
        setup: See `rsocket_trio.connection.succession.Beginning`.
    """

    def __init__(self, connecting: Connecting) -> None:
        self.requester: Requester | None = None
        self.renewable = connecting.renewable
        self.setup = connecting.setup
        self._connecting = connecting
        self._responder = Responder() if connecting.responder is None else connecting.responder

    async def begin(
        self, carrier: FrameTransport, setup: Payload, token: bytes | None
    ) -> tuple[Connection, AbstractAsyncContextManager[None] | None]:
        """See `rsocket_trio.connection.succession.Beginning`.

        Raises:
            LocalProtocolError: The SETUP does not fit into a frame.
            Exception: What the acceptor raised.

        Checkpoint: as the acceptor does.
        If cancelled: as the acceptor is.
        """
        config = self._connecting.config
        metadata_type, data_type = self._connecting.mime_types
        if self._connecting.draft:
            at_most = config.limits.max_frame_size
            carrier = speak_reactivesocket(carrier, client=True, max_frame_size=at_most)
        connection = Connection(carrier, config, client=True, lease=self._connecting.lease)
        if self.requester is None:
            self.requester = make(Requester, connection, metadata_type, data_type)
        begin_as_client(connection, setup, data_type, metadata_type, resume_token=token)
        facts = Setup(
            data=setup.data,
            metadata=setup.metadata,
            data_mime_type=data_type,
            metadata_mime_type=metadata_type,
            keepalive_interval=config.keepalive_interval,
            max_lifetime=config.max_lifetime,
            transport=carrier.info,
            ours=True,
            stopping=Stopping(connection.lifecycle.drain_begun),
        )
        end, turn = connection.close_gracefully, connection.workload
        facts.peer._serves(end, turn)  # noqa: SLF001 - not for applications
        accepted = await accept_with(self._responder, facts, self.requester)
        block = accepted.connection_block()
        connection.open(accepted)
        return connection, block

    def adopt(self, connection: Connection) -> None:
        """See `rsocket_trio.connection.succession.Beginning`."""
        assert self.requester is not None
        self.requester._rebind(connection)  # noqa: SLF001 - this class made the requester


@asynccontextmanager
async def _one_session(
    client: Client,
    dial: Dial,
    resume: ClientResume | None,
    config: ConnectionConfig,
) -> AsyncIterator[Requester]:
    """Dial once, in this task, and run one session within the block."""
    setup = await client.setup(Attempt())
    async with Dialled(dial) as transport:
        if resume is None:
            connection, block = await client.begin(transport, setup, None)
            run: Callable[..., Awaitable[None]] = connection.run_as_client
        else:
            session = ClientSession(resume, dial, transport, config)
            connection, block = await client.begin(session.link, setup, session.token)
            run = partial(session.run, connection)
        peer = transport.info.peer or transport.info.scheme
        run = partial(run_within, block, peer, config.setup_timeout, connection.abandon, run)

        async def begin(nursery: trio.Nursery) -> None:
            await nursery.start(run)
            if config.confirm_setup:
                await wait_accepted(connection)

        async with running(begin, connection.lifecycle.close, lambda: connection.transport):
            assert client.requester is not None
            yield client.requester


@asynccontextmanager
async def _many_sessions(client: Client, succession: Succession) -> AsyncIterator[Requester]:
    """Run one session after the other within the block."""

    async def begin(nursery: trio.Nursery) -> None:
        failure = await nursery.start(succession.run)
        if failure is not None:
            raise NotEntered(failure)

    async with running(begin, succession.close, lambda: client.requester):
        assert client.requester is not None
        requester = client.requester
        requester._expect_more(succession)  # noqa: SLF001 - `client` made it
        yield requester


@asynccontextmanager
async def running(
    begin: Callable[[trio.Nursery], Awaitable[None]],
    close: Callable[[], None],
    transport: Callable[[], object],
) -> AsyncIterator[None]:
    """Surround the block with the nursery of what runs meanwhile.

    Args:
        begin: Starts that, or raises why there is no connection.
        close: Ends it. It is synchronous: every stream fails now, and the task that uses it queues
            a CANCEL.
        transport: Returns what carries the frames, for the text of an error.

    Raises:
        Exception: There is no connection.
        InternalError: A task has crashed.
    """
    refused: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                await begin(nursery)
                yield
            except (
                SetupError,
                ConnectionClosed,
                ConnectFailed,
                trio.ClosedResourceError,
            ) as error:
                # Raised below: out of a nursery it would be in an exception group.
                refused = error
            except NotEntered as error:
                refused = error.error
            finally:
                close()
    except BaseExceptionGroup as group:
        crash = crashed(group, "a task of the connection", transport())
        if crash is None:
            raise
        raise crash from group
    if refused is not None:
        raise refused
