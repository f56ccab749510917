"""The server: `serve`, and `serve_stream` for an open stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias, final

import attrs
import trio

from ...health import Health, check_health
from ...interactions.isolation import contained
from ...lifespan import served_within
from ...responder import Responder, lifespan_of
from ...routing.admission import within
from ...routing.call_meter import metered
from ...routing.middleware import check_middleware
from ...sealed import Sealed, make
from ...sockets.allowed import Allowed, check_allowed
from ...sockets.byte_stream import ByteStream
from ...sockets.connection_limit import ConnectionCounts, counts_of
from ...sockets.goodbyes import ConnectionAge, Goodbyes, check_age
from ...sockets.listen import Arrivals, listen_for
from ...sockets.peer import Peer
from ...sockets.serving import RunningServer, Serving
from ...sockets.shared import check_reuse_port
from ...statistics import Refused, RouteStatistics, WireStatistics
from ...uri import Uri
from ..addresses import ttrpc_uri
from ..carrier import OpenStream, as_byte_stream, carry
from ..config import DEFAULT_CONFIG, TtrpcConfig, check_config
from ..routed import accept_router
from .bound import Methods, ServiceMethods
from .call import Middleware
from .connection import ServerConnection
from .service import Service, ServiceBase, as_services

__all__ = ["Served", "TtrpcServer", "TtrpcStatistics", "serve", "serve_stream"]

Served: TypeAlias = Service | ServiceBase | Responder | Iterable[Service | ServiceBase]
"""What can be served: services, or a `rsocket_trio.Router` (or another `Responder`)."""

Accept: TypeAlias = Callable[[Peer], Awaitable[Methods | None]]


@attrs.frozen(kw_only=True)
class TtrpcStatistics(WireStatistics):
    """Numbers about a server.

    Attributes:
        connections: Connections that are open.
        accepted: Connections since the start.
        refused: See `rsocket_trio.WireStatistics`.
        by_route: See there; with a `rsocket_trio.CallMeter` in ``middleware=``, or in the Router.
        active_calls: Calls that wait or run.
        calls: Calls since the start; refused ones do not count.
    """

    wire = "ttrpc"
    refused: Mapping[str, int] = attrs.field(factory=dict)
    by_route: tuple[RouteStatistics, ...] = ()
    active_calls: int
    calls: int


class _Registry:
    """The connections of a server."""

    def __init__(
        self,
        accept: Accept,
        config: TtrpcConfig,
        by_route: Callable[[], tuple[RouteStatistics, ...]],
        max_age: ConnectionAge | None,
    ) -> None:
        self.refused: Counter[str] = Counter()
        self.by_route: Final = by_route
        self.accept: Final = accept
        self.goodbyes: Final = Goodbyes(max_age)
        self.config: Final = config
        self.connections: dict[ServerConnection, Peer] = {}
        self.accepted = 0
        self.ended_calls = 0

    async def serve(self, stream: ByteStream) -> None:
        """Serve one connection to its end; errors are logged and not raised.

        Raises:
            trio.Cancelled: The server is being cancelled.
            KeyboardInterrupt: Also `SystemExit`: they end the program.
        """
        peer = Peer(stream.info)
        with self.goodbyes.entered(peer), contained(stream.info, stream.stream):
            methods = await self.accept(peer)
            if methods is None:
                self.refused[Refused.SETUP] += 1
            else:
                await within(
                    methods.connection_block(),
                    partial(self._run, stream, methods, peer),
                    peer,
                    peer="the client",
                    patience=self.config.connect_timeout,
                )

    async def _run(self, stream: ByteStream, methods: Methods, peer: Peer) -> None:
        transport = carry(stream, self.config.limits.max_message_size)
        connection = ServerConnection(transport, methods, self.config, peer)
        peer._serves(connection.stop, connection.workload)  # noqa: SLF001 - not for applications
        self.connections[connection] = peer
        self.accepted += 1
        try:
            await connection.run()
        finally:
            del self.connections[connection]
            self.ended_calls += connection.incoming.served

    def statistics(self, counts: ConnectionCounts) -> TtrpcStatistics:
        return TtrpcStatistics(
            connections=len(self.connections),
            accepted=self.accepted,
            refused=counts.refused + self.refused,
            by_route=self.by_route(),
            active_calls=sum(each.workload.active for each in self.connections),
            calls=self.ended_calls + sum(each.incoming.served for each in self.connections),
        )


@final
class TtrpcServer(RunningServer, metaclass=Sealed, given="serve gives one to task_status"):
    """A running server; `serve` makes it and gives it to ``task_status``.

    When it stops, each connection refuses new calls with UNAVAILABLE from a moment within
    ``spread`` on, and calls that run may finish.

    Attributes:
        uris: The addresses it listens on, with their real ports.
    """

    def __init__(self, serving: Serving, registry: _Registry, counts: ConnectionCounts) -> None:
        super().__init__(serving)
        self._registry = registry
        self._counts = counts

    def statistics(self) -> TtrpcStatistics:
        """Return numbers about this server."""
        return self._registry.statistics(self._counts)

    def _peers(self) -> Iterable[Peer]:
        return self._registry.connections.values()


async def serve(
    services: Served,
    *uris: str | Uri,
    config: TtrpcConfig = DEFAULT_CONFIG,
    middleware: Iterable[Middleware] = (),
    allow: Allowed | None = None,
    max_connections: int | None = None,
    max_age: ConnectionAge | None = None,
    health: Health | None = None,
    data_mime_type: str | None = None,
    reuse_port: bool = False,
    task_status: trio.TaskStatus[TtrpcServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until stopped.

    ``await serve(service, "unix:///run/x.sock")`` runs until it is cancelled. When
    ``server = await nursery.start(serve, service, uri)`` returns, the server accepts connections,
    and ``server`` has its addresses and can stop it.

    Args:
        services: A `Service`, an object of a generated base class, a list of these, or a
            `rsocket_trio.Router`, whose handlers answer by the route ``package.Service/Method``.
        uris: Where to listen; see `ttrpc_uri`. E.g. ``unix:///path``,
            ``tcp://host:port``, ``vsock://cid:port``. Port 0 of TCP is any free port.
        config: Times, sizes and limits.
        middleware: Blocks around each call, the outermost first, as for `rsocket_trio.Router`; not
            with a Router, which has middleware of its own.
        allow: Whom to let in: an `Allow` with users, groups or machines, or a function of the
            `TransportInfo` that returns a bool. Others are disconnected at once. By default all.
        max_connections: The connections that may be open at once over all addresses. One more is
            closed at once. By default only the system limits them.
        max_age: How old a connection may be; see `rsocket_trio.ConnectionAge`. By default any age.
        health: Is told when the server accepts connections, and when it stops.
        data_mime_type: For a Router: the MIME type of the messages; by default that of protobuf.
        reuse_port: As for `rsocket_trio.serve`.
        task_status: Gets the `TtrpcServer` when every address accepts connections.

    Raises:
        OSError: An address cannot be listened on.
        TypeError: An argument is of a wrong type.
        ValueError: An address is wrong or there is none, two services have one name,
            ``max_connections`` is less than 1, or ``data_mime_type`` is no MIME type.

    Checkpoint: always.
    If cancelled: at once, handlers are cancelled and connections closed. `TtrpcServer.aclose` is
    the graceful way.
    """
    if not uris:
        raise ValueError('name an address to listen on, e.g. "unix:///run/my.sock"')
    registry = _registry(services, config, middleware, data_mime_type, max_age)
    parsed = [ttrpc_uri(uri) for uri in uris]
    check_allowed(allow, parsed)
    check_health(health)
    check_reuse_port(reuse_port, parsed)
    counts = counts_of(max_connections)
    arrivals = Arrivals(
        shake_hands=_as_it_is,
        handle=registry.serve,
        ssl_context=None,
        handshake_timeout=config.connect_timeout,
        counts=counts,
        allow=allow,
        reuse_port=reuse_port,
    )
    serving = Serving(registry.goodbyes, health)
    server = make(TtrpcServer, serving, registry, counts)
    listen = partial(listen_for, arrivals)
    listeners = [(uri, listen) for uri in parsed]
    lifespan = lifespan_of(services)
    await serving.run(
        listeners,
        lambda: task_status.started(server),
        lambda listening: served_within(lifespan, listening, serving.part),
    )


async def serve_stream(
    services: Served,
    stream: OpenStream,
    *,
    config: TtrpcConfig = DEFAULT_CONFIG,
    middleware: Iterable[Middleware] = (),
    data_mime_type: str | None = None,
) -> None:
    """Serve one connection over an open stream, until it is over; then close the stream.

    Args:
        services: As for `serve`.
        stream: A stream, a connected socket or the number of its descriptor; e.g. one of a trunk.
        config: Times, sizes and limits.
        middleware: As for `serve`.
        data_mime_type: As for `serve`.

    Raises:
        OSError: It is a socket that is not connected.
        TypeError: An argument is of a wrong type.
        ValueError: Two services have one name, or ``data_mime_type`` is no MIME type.

    Checkpoint: always.
    If cancelled: handlers are cancelled and the stream is closed.
    """
    registry = _registry(services, config, middleware, data_mime_type)
    async with as_byte_stream(stream) as carrier:
        serving = partial(registry.serve, carrier)
        await served_within(lifespan_of(services), serving, registry.goodbyes.stop)


def _registry(
    services: Served,
    config: TtrpcConfig,
    middleware: Iterable[Middleware],
    data_mime_type: str | None,
    max_age: ConnectionAge | None = None,
) -> _Registry:
    check_config(config)
    check_age(max_age)
    blocks = check_middleware(middleware)
    if isinstance(services, Responder):
        if blocks:
            raise TypeError("a Router has middleware of its own: Router(middleware=[...])")
        patience = config.connect_timeout
        accept_one = accept_router(services, data_mime_type, patience)
        return _Registry(accept_one, config, services.call_statistics, max_age)
    if data_mime_type is not None:
        raise TypeError("data_mime_type= is for a Router only: services have codecs of their own")
    methods = ServiceMethods(as_services(services), blocks)

    async def accept(_peer: Peer) -> Methods | None:
        return methods

    return _Registry(accept, config, partial(metered, blocks), max_age)


async def _as_it_is(stream: ByteStream) -> ByteStream:
    return stream
