"""The Lumberjack server: `serve`."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, final

import attrs
import trio

from ...health import Health, check_health
from ...interactions.isolation import contained
from ...lifespan import served_within
from ...responder import call_statistics_of, lifespan_of
from ...routing.admission import within
from ...routing.events import handler_of_events
from ...routing.router import Router
from ...sealed import Sealed, make
from ...sockets.byte_stream import ByteStream
from ...sockets.connection_limit import ConnectionCounts, counts_of
from ...sockets.goodbyes import ConnectionAge, Goodbyes, check_age
from ...sockets.listen import Arrivals, listen_for
from ...sockets.peer import Peer
from ...sockets.serving import RunningServer, Serving
from ...sockets.shared import check_reuse_port
from ...sockets.tls import check_context
from ...statistics import Refused, RouteStatistics, WireStatistics
from ...uri import Uri
from ..addresses import lumberjack_uri
from .batch import Batch, Poison
from .config import LumberjackConfig, check_config
from .incoming_memory import IncomingMemory
from .receiver import Receiver, Shared
from .room import Room
from .routed import admit

__all__ = ["LumberjackServer", "LumberjackStatistics", "serve"]

_DEFAULT_CONFIG: Final = LumberjackConfig()


@attrs.frozen(kw_only=True)
class LumberjackStatistics(WireStatistics):
    """Numbers about a Lumberjack server.

    Attributes:
        connections: Connections that are open.
        accepted: Connections since the start.
        refused: See `rsocket_trio.WireStatistics`.
        by_route: See there; of a Router, whose calls are batches.
        held_batches: Complete batches that are handled or wait.
        held_size: Their bytes, as `LumberjackConfig.max_held_size` counts them.
        incoming_size: The bytes that have been read besides, as
            `LumberjackConfig.max_incoming_size` counts them.
        waiting: Connections that read no more until others give back their room.
        batches: Batches that were handled since the start.
        events: Events in these batches.
        acknowledged: Events of these batches that were acknowledged.
    """

    wire = "lumberjack"
    refused: Mapping[str, int] = attrs.field(factory=dict)
    by_route: tuple[RouteStatistics, ...] = ()
    held_batches: int
    held_size: int
    incoming_size: int
    waiting: int
    batches: int
    events: int
    acknowledged: int


class _Registry:
    """The connections of a server."""

    def __init__(
        self, shared: Shared, router: Router | None, max_age: ConnectionAge | None
    ) -> None:
        self.shared: Final = shared
        self.router: Final = router
        self.receivers: dict[Receiver, Peer] = {}
        self.refused: Counter[str] = Counter()
        self.accepted = 0
        self.goodbyes: Final = Goodbyes(max_age)

    async def receive(self, stream: ByteStream) -> None:
        """Serve one connection to its end; errors are logged and not raised.

        Raises:
            trio.Cancelled: The server is being cancelled.
            KeyboardInterrupt: Also `SystemExit`: they end the program.
        """
        peer = Peer(stream.info)
        with self.goodbyes.entered(peer), contained(stream.info, stream.stream):
            await self._receive(stream, peer)

    async def _receive(self, stream: ByteStream, peer: Peer) -> None:
        shared = self.shared
        if self.router is None:
            await self._run(Receiver(stream, shared), peer)
            return
        patience = shared.config.first_byte_timeout
        admitted = await admit(self.router, peer, shared.on_poison, patience)
        if admitted is None:
            self.refused[Refused.SETUP] += 1
            return
        handler, events = admitted
        # The handler calls the hook itself: not before the guards have admitted the batch.
        shared = attrs.evolve(shared, handler=handler, on_poison=None)
        run = partial(self._run, Receiver(stream, shared), peer)
        block = events.connection_block()
        await within(block, run, peer, peer="the sender", patience=patience)

    async def _run(self, receiver: Receiver, peer: Peer) -> None:
        peer._serves(receiver.stop, receiver.turn)  # noqa: SLF001 - not for applications
        self.receivers[receiver] = peer
        self.accepted += 1
        try:
            await receiver.run()
        finally:
            del self.receivers[receiver]


@final
class LumberjackServer(RunningServer, metaclass=Sealed, given="serve gives one to task_status"):
    """A running Lumberjack server; `serve` makes it and gives it to ``task_status``.

    When it stops, it reads nothing more of a connection from a moment within ``spread`` on. The
    batches that it has read are handled and acknowledged.
    If their handlers are cancelled, the senders send these events again to another server.

    Attributes:
        uris: The addresses it listens on, with their real ports.
    """

    def __init__(self, serving: Serving, registry: _Registry, counts: ConnectionCounts) -> None:
        super().__init__(serving)
        self._registry = registry
        self._counts = counts

    def statistics(self) -> LumberjackStatistics:
        """Return numbers about this server."""
        registry = self._registry
        shared = registry.shared
        room, intake, totals = shared.room, shared.intake, shared.totals
        return LumberjackStatistics(
            connections=len(registry.receivers),
            accepted=registry.accepted,
            refused=self._counts.refused + registry.refused,
            by_route=call_statistics_of(registry.router),
            held_batches=room.batches,
            held_size=room.size,
            incoming_size=intake.size,
            waiting=room.waiting + intake.waiting,
            batches=totals.batches,
            events=totals.events,
            acknowledged=totals.acknowledged,
        )

    def _peers(self) -> Iterable[Peer]:
        return self._registry.receivers.values()


async def serve(
    handler: Callable[[Batch], Awaitable[None]] | Router,
    *uris: str | Uri,
    config: LumberjackConfig = _DEFAULT_CONFIG,
    on_poison: Callable[[Poison], Awaitable[None] | None] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    max_connections: int | None = None,
    max_age: ConnectionAge | None = None,
    health: Health | None = None,
    reuse_port: bool = False,
    task_status: trio.TaskStatus[LumberjackServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Receive events from Beats, Logstash and other senders of Lumberjack, until stopped.

    ``await serve(handler, "lumberjack://127.0.0.1:5044")`` runs until it is cancelled. When
    ``server = await nursery.start(serve, handler, uri)`` returns, the server accepts connections,
    and ``server`` has its addresses and can stop it.

    Args:
        handler: An async function that is called with each `Batch`. When it returns, the batch is
            acknowledged. If it raises, the error is logged and the connection is closed: the sender
            sends the events that are not acknowledged again. The batches of one connection are
            handled one after the other, those of several connections at the same time. The handler
            is cancelled if its sender leaves. Or a `rsocket_trio.Router`, whose events handler
            (`Router.events`) and guards are called.
        uris: Where to listen: ``lumberjack://host:port``, or with TLS ``lumberjacks://host:port``;
            or a socket that is open already: ``lumberjack+fd://3``, ``lumberjacks+systemd://NAME``.
            Port 0 is any free port; without a port it is 5044. Both versions of the protocol are
            served on each address.
        config: Times, sizes and limits.
        on_poison: Called with each event that cannot be decoded, before the handler of its batch
            is called. The event is not in `Batch.events`, and it is acknowledged with the batch.
            Without this hook, `Batch.events` raises `InvalidEvent` if there is one; if the handler
            does not catch that, the sender sends the same batch again and again. With the hook,
            the events of each batch are decoded, whether the handler uses them or not. An event
            that does not fit the type that a handler of a router takes counts as one that cannot be
            decoded.
        ssl_context: TLS: needed for ``lumberjacks``; an error if no address uses TLS. To require
            certificates of the senders, set its ``verify_mode`` to `ssl.CERT_REQUIRED`.
        max_connections: The connections that may be open at once over all addresses, handshakes
            included. One more is closed at once. By default only the system limits them.
        max_age: How old a connection may be; see `rsocket_trio.ConnectionAge`. By default any age.
        health: Is told when the server accepts connections, and when it stops.
        reuse_port: As for `rsocket_trio.serve`.
        task_status: Gets the `LumberjackServer` when every address accepts connections.

    Raises:
        OSError: An address cannot be listened on.
        TypeError: An argument is of a wrong type.
        ValueError: A URI is wrong or there is none, the TLS context is missing or has no use,
            ``max_connections`` is less than 1, or the router has no events handler.

    Checkpoint: always.
    If cancelled: at once, handlers are cancelled and connections closed. ACKs that were handed over
    still leave. `LumberjackServer.aclose` is the graceful way.
    """
    if not uris:
        raise ValueError('name an address to listen on, e.g. "lumberjack://127.0.0.1:5044"')
    router = handler if isinstance(handler, Router) else None
    if isinstance(handler, Router):
        handler_of_events(handler)
        handler = _not_admitted
    for name, function in (("handler", handler), ("on_poison", on_poison)):
        if not callable(function) and (function is not None or name == "handler"):
            kinds = "a function or a Router" if name == "handler" else "a function"
            raise TypeError(f"{name} must be {kinds}, not {type(function).__name__}")
    check_config(config)
    check_age(max_age)
    check_health(health)
    parsed = [lumberjack_uri(uri) for uri in uris]
    check_context(ssl_context, parsed, server_side=True)
    check_reuse_port(reuse_port, parsed)
    shared = Shared(
        handler=handler,
        on_poison=on_poison,
        config=config,
        room=Room(config.max_batches, config.max_held_size),
        intake=IncomingMemory(config.max_incoming_size, config.progress_timeout),
    )
    registry = _Registry(shared, router, max_age)
    counts = counts_of(max_connections)
    arrivals = Arrivals(
        shake_hands=_as_it_is,
        handle=registry.receive,
        ssl_context=ssl_context,
        handshake_timeout=config.first_byte_timeout,
        counts=counts,
        reuse_port=reuse_port,
    )
    serving = Serving(registry.goodbyes, health)
    server = make(LumberjackServer, serving, registry, counts)
    listen = partial(listen_for, arrivals)
    listeners = [(uri, listen) for uri in parsed]
    lifespan = lifespan_of(router)
    await serving.run(
        listeners,
        lambda: task_status.started(server),
        lambda listening: served_within(lifespan, listening, serving.part),
    )


async def _not_admitted(_batch: Batch) -> None:
    """Stands for the handler of a router until the guards have admitted a connection."""
    raise AssertionError("a connection was not admitted")


async def _as_it_is(stream: ByteStream) -> ByteStream:
    return stream
