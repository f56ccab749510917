"""The server: `serve`, and `serve_transport` for your own transport."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final, final

import attrs
import trio

from .config import ConnectionConfig, check_config
from .connection.resume_options import ServerResume, check_resume
from .connection.resume_server import Sessions
from .field_checks import argument, instance_of
from .health import Health, check_health
from .lease import LeaseOptions, LeaseSource, lease_options
from .lifespan import served_within
from .protocol.interaction import Interaction
from .reactivesocket.opening import PROTOCOLS, check_protocols
from .responder import (
    Acceptor,
    Responder,
    call_statistics_of,
    check_responder,
    lifespan_of,
)
from .sealed import Sealed, make
from .service import Registry, Service
from .sockets.allowed import Allowed, check_allowed
from .sockets.connection_limit import ConnectionCounts, ConnectionLimit, counts_of
from .sockets.goodbyes import ConnectionAge, Goodbyes, check_age
from .sockets.peer import Peer
from .sockets.serving import RunningServer, Serving
from .sockets.shared import check_reuse_port, check_unshared
from .sockets.tls import check_context
from .statistics import RouteStatistics, WireStatistics
from .transports import accept_transports
from .transports.base import FrameTransport
from .transports.listen import check_web_options
from .transports.pages import health_pages
from .uri import RSOCKET, Uri, as_uri
from .wires import serve_other_wire, wire_of

__all__ = ["Server", "ServerStatistics", "serve", "serve_transport"]

_DEFAULT_CONFIG: Final = ConnectionConfig()


@attrs.frozen(kw_only=True)
class ServerStatistics(WireStatistics):
    """Numbers about a server.

    Attributes:
        connections: Connections that are set up and not over.
        accepted: Connections that have been set up since the start.
        refused: See `WireStatistics`.
        by_route: See `WireStatistics`.
        draining: Connections whose end was announced, by either side, and has not come.
        active_requests: Requests that wait or are being answered.
        held_size: Bytes that are held for all clients: requests, fragments, unread items, answers.
        queued_size: Bytes that wait to be sent.
        silent: Connections since the start that ended because the client gave no sign of life.
        resumed: How often a session went on over another connection, since the start.
        dropped_events: Messages of fire_and_forget that no handler got, since the start: beyond
            `Limits.max_active_requests`, `Limits.max_requests_size` or another limit of their
            connection, or because their connection ended before their turn. Their senders are not
            told.
    """

    wire = "rsocket"
    refused: Mapping[str, int] = attrs.field(factory=dict)
    by_route: tuple[RouteStatistics, ...] = ()
    draining: int = 0
    active_requests: int = 0
    held_size: int = 0
    queued_size: int = 0
    silent: int = 0
    resumed: int = 0
    dropped_events: int


@final
class Server(RunningServer, metaclass=Sealed, given="serve gives one to task_status"):
    """A running server; `serve` makes it and gives it to ``task_status``.

    When it stops, each peer is told by CONNECTION_CLOSE; then its new requests are refused, and
    the open streams may finish.

    Attributes:
        uris: The addresses it listens on, with their real ports.
    """

    def __init__(self, serving: Serving, service: Service, counts: ConnectionCounts) -> None:
        super().__init__(serving)
        self._service = service
        self._counts = counts

    def statistics(self) -> ServerStatistics:
        """Return numbers about this server."""
        service = self._service
        registry = service.registry
        connections = registry.connections
        outboxes = [each.outbox for each in connections]
        return ServerStatistics(
            connections=len(connections),
            accepted=registry.accepted,
            refused=self._counts.refused + registry.refused,
            by_route=call_statistics_of(service.responder),
            draining=sum(each.lifecycle.draining for each in connections),
            active_requests=sum(each.workload.active for each in connections),
            held_size=sum(each.memory.held for each in connections),
            queued_size=sum(each.room.used + each.control_size for each in outboxes),
            silent=registry.silent,
            resumed=registry.resumed,
            dropped_events=registry.dropped_by_all(Interaction.FIRE_AND_FORGET),
        )

    def _peers(self) -> Iterable[Peer]:
        return self._service.registry.connections.values()


async def serve(
    responder: Responder | Acceptor,
    *uris: str | Uri,
    config: ConnectionConfig = _DEFAULT_CONFIG,
    ssl_context: ssl.SSLContext | None = None,
    resume: ServerResume | None = None,
    lease: LeaseOptions | LeaseSource | None = None,
    protocols: Collection[str] = PROTOCOLS,
    max_connections: int | None = None,
    max_age: ConnectionAge | None = None,
    allowed_origins: Collection[str] | None = None,
    allow: Allowed | None = None,
    health: Health | None = None,
    reuse_port: bool = False,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until stopped.

    ``await serve(router, "tcp://127.0.0.1:7878")`` runs until it is cancelled. When
    ``server = await nursery.start(serve, router, uri)`` returns, the server accepts connections,
    and ``server`` has its addresses and can stop it.

    Args:
        responder: Answers the requests of all connections. Or an acceptor function, which is
            called once per connection and returns a responder.
        uris: Where to listen: ``tcp://host:port``, ``tls://host:port``, ``unix:///path``,
            ``ws://host:port/path``, ``wss://host:port/path``, as text or as a `Uri`. Port 0 is any
            free port. Or on a listening socket that is open already, by the number of its
            descriptor or its name at systemd: ``fd://3``, ``systemd://NAME``, ``systemd:`` for all
            that it has opened; with TLS or WebSocket ``tls+fd://3``, ``ws+systemd://NAME/path`` and
            so on. A socket of your own is ``f"fd://{sock.detach()}"``; the server closes it. If all
            addresses are of another wire, e.g. ``rsio://host:port``, its server serves:
            `rsocket_trio.rsio.serve` or `rsocket_trio.ttrpc.serve`.
        config: Times, sizes and limits.
        ssl_context: TLS: needed for ``tls`` and ``wss``; an error if no address uses TLS.
        resume: Keep the sessions of clients that ask for resumption when their connection is lost:
            their streams and handlers go on. ``None`` refuses clients that ask for it.
        lease: Use leases with the clients that ask for them. The value is the options, or only the
            source of the leases we grant. Our requests to these clients need a lease too. With
            ``LeaseOptions(source, required=True)`` other clients are refused (REJECTED_SETUP), with
            ``enforced=True`` their requests are counted.
            ``None`` refuses clients that ask for leases (UNSUPPORTED_SETUP).
        protocols: The protocols that clients may speak, on each address: ``"rsocket"`` (1.0) and
            ``"reactivesocket"`` (the draft of 2015). The first bytes of a client show which one.
        max_connections: The connections that may be open at once over all addresses, handshakes
            included. One more is closed at once, on WebSocket with HTTP 503. By default only the
            system limits them.
        max_age: How old a connection may be; see `ConnectionAge`. By default any age.
        allowed_origins: WebSocket: the web pages that may connect, e.g. ``https://example.org``;
            a browser on a page of another site is answered with HTTP 403. By default only pages of
            the server's own host may connect. An empty list lets no page in, and ``["*"]`` lets all
            in. Other clients send no ``Origin``, and are let in.
        allow: Whom to let in: an `Allow` with users or groups of this machine, for Unix sockets;
            or a function of the `TransportInfo` that returns a bool, and may be async. Others are
            disconnected at once, before anything of the protocol is read. By default all.
        health: Is told when the server accepts connections, and when it stops. Where it listens for
            WebSocket, ``/live`` and ``/ready`` there are its pages; `health_pages` serves them
            elsewhere.
        reuse_port: Let other processes of this user listen on the same ports of TCP
            (SO_REUSEPORT), e.g. a second one of this program. The kernel spreads connections by
            their hash, not evenly; and those that wait when one process stops are reset.
            `rsocket_trio.workers.serve_workers` has neither fault.
        task_status: Gets the `Server` when every address accepts connections.

    Raises:
        OSError: An address cannot be listened on.
        TypeError: The responder or another argument is of a wrong type.
        ValueError: A URI, a protocol or an origin is wrong; there is no URI or no protocol; the TLS
            context is missing; no address has a use for ``ssl_context`` or ``allowed_origins``;
            the addresses belong to several wires, or their wire has no use for an argument;
            ``max_connections`` is less than 1; or ``resume`` is given for an address that other
            processes may share, without `ServerResume.sole_process`.

    Checkpoint: always.
    If cancelled: at once, handlers are cancelled and connections closed. `Server.aclose` is the
    graceful way.
    """
    if not uris:
        raise ValueError('name at least one address to listen on, e.g. "tcp://127.0.0.1:7878"')
    wire = wire_of(uris)
    if wire != RSOCKET:
        given = {
            "config": (config, _DEFAULT_CONFIG),
            "ssl_context": (ssl_context, None),
            "resume": (resume, None),
            "lease": (lease, None),
            "protocols": (protocols, PROTOCOLS),
            "max_connections": (max_connections, None),
            "max_age": (max_age, None),
            "allowed_origins": (allowed_origins, None),
            "allow": (allow, None),
            "health": (health, None),
            "reuse_port": (reuse_port, False),
        }
        options = {name: value for name, (value, usual) in given.items() if value is not usual}
        await serve_other_wire(wire, responder, uris, options, task_status)
        return
    service = _service(responder, config, resume, lease, protocols, max_age)
    limit = ConnectionLimit(max_connections)
    parsed = [_address(uri) for uri in uris]
    check_allowed(allow, parsed)
    check_health(health)
    check_context(ssl_context, parsed, server_side=True)
    origins = check_web_options(parsed, allowed_origins)
    serving = Serving(service.registry.goodbyes, health)
    serving.on_close.append(service.registry.refuse_silent)
    if service.sessions is not None:
        serving.on_close.append(service.sessions.stop)
    check_reuse_port(reuse_port, parsed)
    if resume is not None:
        check_unshared(parsed, reuse_port=reuse_port, sole_process=resume.sole_process)
    listen = partial(
        accept_transports,
        handle=service.serve,
        ssl_context=ssl_context,
        max_frame_size=config.limits.max_frame_size,
        handshake_timeout=config.setup_timeout,
        max_connections=limit,
        allowed_origins=origins,
        allow=allow,
        pages=None if health is None else health_pages(health),
        reuse_port=reuse_port,
    )
    server = make(Server, serving, service, counts_of(limit))
    listeners = [(uri, listen) for uri in parsed]
    lifespan = lifespan_of(responder)
    await serving.run(
        listeners,
        lambda: task_status.started(server),
        lambda listening: served_within(lifespan, listening, serving.part),
    )


def _service(
    responder: Responder | Acceptor,
    config: ConnectionConfig,
    resume: ServerResume | None,
    lease: LeaseOptions | LeaseSource | None,
    protocols: Collection[str],
    max_age: ConnectionAge | None = None,
) -> Service:
    """Check the arguments that all connections share, and make the `Service`.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A protocol is wrong, or there is no protocol.
    """
    check_responder(responder)
    check_config(config)
    protocols = check_protocols(protocols)
    check_resume(resume, ServerResume)
    check_age(max_age)
    return Service(
        responder=responder,
        config=config,
        lease=lease_options(lease),
        protocols=protocols,
        sessions=None if resume is None else Sessions(resume, config),
        registry=Registry(Goodbyes(max_age)),
    )


def _address(uri: str | Uri) -> Uri:
    try:
        return as_uri(uri)
    except TypeError as error:
        raise TypeError(
            f"{error}; to serve several routers, make one of them with Router.include"
        ) from None


async def serve_transport(
    responder: Responder | Acceptor,
    transport: FrameTransport,
    *,
    config: ConnectionConfig = _DEFAULT_CONFIG,
    resume: ServerResume | None = None,
    lease: LeaseOptions | LeaseSource | None = None,
    protocols: Collection[str] = PROTOCOLS,
) -> None:
    """Serve one connection over your own transport, to its end.

    E.g. a connection of your own trio-websocket server:
    ``await serve_transport(router, TrioWebSocketTransport(ws))``. Errors of the peer end the
    connection and are logged; they are not raised.

    Args:
        responder: As for `serve`.
        transport: Closed at the end.
        config: Times, sizes and limits.
        resume: As for `serve`. Any call with the same options may resume a session. The session
            runs in the call that began it, and ends with that call.
        lease: As for `serve`.
        protocols: As for `serve`.

    Raises:
        TypeError: The responder or another argument is of a wrong type, or the protocols cannot
            be served over this transport.
        ValueError: A protocol is wrong, or there is no protocol.

    Checkpoint: always.
    If cancelled: handlers are cancelled and the connection is closed.
    """
    service = _service(responder, config, resume, lease, protocols)
    argument("transport", transport, instance_of(FrameTransport))
    await served_within(
        lifespan_of(responder), partial(service.serve, transport), service.registry.stop
    )
