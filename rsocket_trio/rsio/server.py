"""The server: `serve`, and `serve_stream` for a connection that is open already."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, final

import attrs
import trio

from ..errors import ConnectFailed, ConnectionClosed
from ..field_checks import FUNCTION, argument, optional
from ..health import Health, check_health
from ..interactions.isolation import contained, parted
from ..interactions.leftovers import isolated
from ..lifespan import served_within
from ..log_policy import logger
from ..responder import call_statistics_of, lifespan_of
from ..routing.admission import within
from ..sealed import Sealed, make
from ..sockets.allowed import Allowed, check_allowed
from ..sockets.connection_limit import ConnectionCounts, counts_of
from ..sockets.goodbyes import ConnectionAge, Goodbyes, check_age
from ..sockets.listen import listen_for
from ..sockets.peer import Peer
from ..sockets.serving import RunningServer, Serving
from ..sockets.shared import check_reuse_port
from ..sockets.tls import check_context
from ..statistics import Refused, RouteStatistics, WireStatistics
from ..transports.base import FrameTransport
from ..transports.listen import arrivals_at, check_web_options
from ..transports.pages import health_pages
from ..uri import Uri
from .addresses import rsio_uri
from .carrier import OpenTransport, as_transport, offer_alpn, rsio_over
from .config import DEFAULT_CONFIG, RsioConfig, check_config
from .connection.connection import Connection
from .connection.link import Link
from .extensions import Extension
from .hosting import Host
from .targets import Served, check_served

__all__ = ["OnConnection", "RsioServer", "RsioStatistics", "serve", "serve_stream"]

OnConnection: TypeAlias = Callable[[Connection], Awaitable[object]]
"""Called for each connection, behind the hello of the peer, in a task of the connection."""


@attrs.frozen(kw_only=True)
class RsioStatistics(WireStatistics):
    """Numbers about a server.

    Attributes:
        connections: Connections that are open.
        accepted: Connections since the start.
        refused: See `rsocket_trio.WireStatistics`.
        by_route: See there; of a Router.
        publications: Subscriptions of all clients that are open.
        published: Subscriptions of clients since the start; refused ones do not count.
    """

    wire = "rsio"
    refused: Mapping[str, int] = attrs.field(factory=dict)
    by_route: tuple[RouteStatistics, ...] = ()
    publications: int
    published: int


class _Registry:
    """The connections of a server."""

    def __init__(
        self, host: Host, on_connection: OnConnection | None, max_age: ConnectionAge | None
    ) -> None:
        self._host: Final = host
        self._on_connection: Final = on_connection
        self.links: dict[Link, Peer] = {}
        self.refused: Counter[str] = Counter()
        self.accepted = 0
        self.published = 0
        # A goodbye ends every stream of both ends: the other half of the grace is for goodbyes.
        self.goodbyes: Final = Goodbyes(max_age, share=0.5)

    async def serve(self, transport: FrameTransport) -> None:
        """Serve one connection to its end; errors are logged and not raised.

        Raises:
            trio.Cancelled: The server is being cancelled.
            KeyboardInterrupt: Also `SystemExit`: they end the program.
        """
        with contained(transport.info, transport):
            await self._serve(transport)

    async def _serve(self, transport: FrameTransport) -> None:
        try:
            link, connection, peer, block = await self._host.begin(transport, "server")
        except ConnectFailed:
            self.refused[Refused.SETUP] += 1
            await self._host.refuse(transport, "server")
            return
        self.links[link] = peer
        self.accepted += 1
        try:
            with self.goodbyes.entered(peer):
                await within(
                    block,
                    partial(link.run, partial(self._begin, connection)),
                    peer,
                    peer="the client",
                    patience=self._host.config.connect_timeout,
                )
        finally:
            del self.links[link]
            self.published += link.publications.opened
        failure = link.lifecycle.failure
        if isinstance(failure, ConnectionClosed):
            logger.debug("the connection to %s is over: %s", link.lifecycle.peer(), failure)

    def _begin(self, connection: Connection, nursery: trio.Nursery) -> None:
        if self._on_connection is not None:
            nursery.start_soon(self._greet, connection, self._on_connection)

    async def _greet(self, connection: Connection, on_connection: OnConnection) -> None:
        """Call the function of the application for a connection."""
        try:
            await connection.wait_ready()
        except (ConnectionClosed, ConnectFailed, trio.ClosedResourceError):
            return
        error = await isolated(partial(on_connection, connection))
        if error is not None:
            cancelled, failure = parted(error)
            if failure is not None:
                logger.error("on_connection failed", exc_info=failure)
                await connection.goodbye("the server failed")
            if cancelled is not None:
                raise cancelled from None

    def statistics(self, counts: ConnectionCounts) -> RsioStatistics:
        return RsioStatistics(
            connections=len(self.links),
            accepted=self.accepted,
            refused=counts.refused + self.refused,
            by_route=call_statistics_of(self._host.target),
            publications=sum(len(each.publications.by_id) for each in self.links),
            published=self.published + sum(each.publications.opened for each in self.links),
        )


@final
class RsioServer(RunningServer, metaclass=Sealed, given="serve gives one to task_status"):
    """A running server; `serve` makes it and gives it to ``task_status``.

    When it stops, each connection refuses new subscriptions from a moment within ``spread`` on. It
    gets a goodbye when its last stream has ended, or when half of the time of grace is over.

    Attributes:
        uris: The addresses it listens on, with their real ports.
    """

    def __init__(self, serving: Serving, registry: _Registry, counts: ConnectionCounts) -> None:
        super().__init__(serving)
        self._registry = registry
        self._counts = counts

    def statistics(self) -> RsioStatistics:
        """Return numbers about this server."""
        return self._registry.statistics(self._counts)

    def _peers(self) -> Iterable[Peer]:
        return self._registry.links.values()


async def serve(
    target: Served,
    *uris: str | Uri,
    config: RsioConfig = DEFAULT_CONFIG,
    ssl_context: ssl.SSLContext | None = None,
    extensions: Sequence[Extension] = (),
    on_connection: OnConnection | None = None,
    max_connections: int | None = None,
    max_age: ConnectionAge | None = None,
    allowed_origins: Collection[str] | None = None,
    allow: Allowed | None = None,
    health: Health | None = None,
    data_mime_type: str | None = None,
    reuse_port: bool = False,
    task_status: trio.TaskStatus[RsioServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until stopped.

    ``await serve({"ticks": publisher}, "rsio://127.0.0.1:7980")`` runs until it is cancelled. When
    ``server = await nursery.start(serve, target, uri)`` returns, the server accepts connections,
    and ``server`` has its addresses and can stop it.

    Args:
        target: What clients may subscribe to. A mapping of names to publishers; or a function
            ``(name, connection)`` that returns a publisher or ``None``, and may be async; or a
            `rsocket_trio.Router`, whose request_stream and request_response handlers answer by the
            route, which is the name before ``?``.
        uris: Where to listen; see `rsio_uri`. Port 0 of TCP is any free port.
        config: Times, sizes and limits.
        ssl_context: TLS: the certificate; needed for ``rsios`` and ``rsio+wss``. With ``rsios``
            its ALPN is set.
        extensions: The extensions of the protocol that we support.
        on_connection: An async function that is called for each connection when the client has
            said hello, e.g. to subscribe to publishers of the client. It may run as long as the
            connection, whose end cancels it.
        max_connections: The connections that may be open at once over all addresses. One more is
            closed at once, on WebSocket with HTTP 503. By default only the system limits them.
        max_age: How old a connection may be; see `rsocket_trio.ConnectionAge`. By default any age.
        allowed_origins: WebSocket: the web pages that may connect, e.g. ``https://example.org``.
            By default only pages of the server's own host may, as for `rsocket_trio.serve`.
        allow: Whom to let in: an `Allow` with users or groups of this machine, for Unix sockets;
            or a function of the `TransportInfo` that returns a bool, and may be async. Others are
            disconnected at once, before anything of the protocol is read. By default all.
        health: As for `rsocket_trio.serve`.
        data_mime_type: For a Router: the MIME type of its results; JSON by default.
        reuse_port: As for `rsocket_trio.serve`.
        task_status: Gets the `RsioServer` when every address accepts connections.

    Raises:
        OSError: An address cannot be listened on.
        TypeError: An argument is of a wrong type.
        ValueError: An address or an origin is wrong, there is no address, the TLS context is
            missing or no address has a use for it, ``max_connections`` is less than 1, or
            ``data_mime_type`` is no MIME type.

    Checkpoint: always.
    If cancelled: at once, streams and connections are closed. `RsioServer.aclose` is the graceful
    way.
    """
    if not uris:
        raise ValueError('name an address to listen on, e.g. "rsio://127.0.0.1:7980"')
    registry = _registry(target, config, extensions, on_connection, data_mime_type, max_age)
    parsed = [rsio_uri(uri) for uri in uris]
    check_allowed(allow, parsed)
    check_health(health)
    check_context(ssl_context, parsed, server_side=True)
    origins = check_web_options(parsed, allowed_origins)
    check_reuse_port(reuse_port, parsed)
    counts = counts_of(max_connections)
    arrivals = partial(
        arrivals_at,
        make=rsio_over,
        handle=registry.serve,
        ssl_context=ssl_context,
        handshake_timeout=config.connect_timeout,
        counts=counts,
        allowed_origins=origins,
        allow=allow,
        pages=None if health is None else health_pages(health),
        reuse_port=reuse_port,
    )
    for uri in parsed:
        offer_alpn(uri, ssl_context)
    serving = Serving(registry.goodbyes, health)
    server = make(RsioServer, serving, registry, counts)
    listeners = [(uri, partial(listen_for, arrivals(uri))) for uri in parsed]
    lifespan = lifespan_of(target)
    await serving.run(
        listeners,
        lambda: task_status.started(server),
        lambda listening: served_within(lifespan, listening, serving.part),
    )


async def serve_stream(
    target: Served,
    stream: OpenTransport,
    *,
    config: RsioConfig = DEFAULT_CONFIG,
    extensions: Sequence[Extension] = (),
    on_connection: OnConnection | None = None,
    data_mime_type: str | None = None,
) -> None:
    """Serve one connection that is open already, until it is over; then close it.

    Args:
        target: As for `serve`.
        stream: A stream, a connected socket or the number of its descriptor, or a transport.
        config: Times, sizes and limits.
        extensions: As for `serve`.
        on_connection: As for `serve`.
        data_mime_type: As for `serve`.

    Raises:
        OSError: It is a socket that is not connected.
        TypeError: An argument is of a wrong type.
        ValueError: ``data_mime_type`` is no MIME type.

    Checkpoint: always.
    If cancelled: streams are cancelled and the connection is closed.
    """
    registry = _registry(target, config, extensions, on_connection, data_mime_type)
    async with as_transport(stream) as transport:
        serving = partial(registry.serve, transport)
        await served_within(lifespan_of(target), serving, partial(registry.goodbyes.stop, 0, 0))


def _registry(
    target: Served,
    config: RsioConfig,
    extensions: Sequence[Extension],
    on_connection: OnConnection | None,
    data_mime_type: str | None,
    max_age: ConnectionAge | None = None,
) -> _Registry:
    check_config(config)
    check_age(max_age)
    check_served(target)
    argument("on_connection", on_connection, optional(FUNCTION))
    return _Registry(Host(target, config, extensions, data_mime_type), on_connection, max_age)
