"""A collector, as applications run it: `collect`, `Collector`."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Final, TypeAlias, final

import attrs
import trio

from ..config import ConnectionConfig
from ..health import Health
from ..interactions.block import Block
from ..lumberjack import LumberjackConfig
from ..lumberjack import serve as serve_lumberjack
from ..lumberjack.addresses import lumberjack_uri
from ..protocol.retry import Retry
from ..routing import Authenticate, Router
from ..sealed import Sealed, make
from ..server import serve
from ..sockets.allowed import Allowed
from ..sockets.goodbyes import ConnectionAge
from ..sockets.tls import check_context
from ..spool import Retention, SpoolConfig, open_spool
from ..uri import Uri, as_uri
from .ingest import Ingest
from .ingest_config import COLLECTOR_CONFIG, IngestConfig
from .limits import CollectorLimits
from .messages import STATUS, CollectorStatistics
from .running import Running
from .service import reading_router
from .storage import Storage
from .subscriber import Subscriber
from .subscriptions import Subscription, parse_subscription

__all__ = ["Collector", "collect"]

_LUMBERJACK: Final = ("lumberjack:", "lumberjacks:")
_DEFAULT_LIMITS: Final = CollectorLimits()
_DEFAULT_INGEST: Final = IngestConfig()
_DEFAULT_LUMBERJACK: Final = LumberjackConfig()
_DEFAULT_RETRY: Final = Retry()
_SPOOL_CONFIG: Final = SpoolConfig(max_read_size=2**20)
"""Many readers may be in the middle of a query at the same time."""


@final
class Collector(metaclass=Sealed, given="collect gives one to task_status"):
    """A running collector; `collect` makes it and gives it to ``task_status``.

    Attributes:
        uris: The addresses it listens on, with their real ports.
        spool: The spool, e.g. to read from it in this process.
    """

    def __init__(self, running: Running) -> None:
        self.spool = running.spool
        self.uris = running.uris
        self._running: Final = running

    def statistics(self) -> CollectorStatistics:
        """Return numbers about this collector."""
        return self._running.statistics()

    def stop(self, *, delay: float = 0.0, spread: float = 0.0, grace: float = 5.0) -> None:
        """Begin to stop as `aclose` does, without waiting. You may call it again, e.g. with 0.

        Raises:
            RuntimeError: The caller is in another thread than the collector.
            TypeError: An argument is no number.
            ValueError: It is less than 0, or ``delay`` or ``spread`` is infinite.
        """
        self._running.stop(delay, spread, grace)

    async def aclose(self, *, delay: float = 0.0, spread: float = 0.0, grace: float = 5.0) -> None:
        """Stop gracefully, in the phases of `rsocket_trio.Server.aclose`.

        When all connections are told, the collector takes no more events. Those that it has taken
        are stored and acknowledged. What is not stored after ``grace`` seconds, because the spool
        is full, is not acknowledged: its senders send it again, except those of fire_and_forget and
        of subscriptions. Returns when the spool is closed.

        Args:
            delay: As for `rsocket_trio.Server.aclose`.
            spread: As there.
            grace: Seconds; with 0 for all three everything is cancelled at once.

        Checkpoint: always.
        If cancelled: the collector still stops.
        """
        self.stop(delay=delay, spread=spread, grace=grace)
        await self._running.over.wait()


async def collect(
    directory: str | os.PathLike[str],
    *listen: str | Uri,
    subscribe: Iterable[str | Subscription] = (),
    max_size: int = 2**30,
    retention: Retention | None = None,
    group_readers: bool = False,
    ssl_context: ssl.SSLContext | None = None,
    subscribe_ssl_context: ssl.SSLContext | None = None,
    max_connections: int | None = None,
    max_age: ConnectionAge | None = None,
    health: Health | None = None,
    allowed_origins: Collection[str] | None = None,
    allow: Allowed | None = None,
    authenticate: Authenticate | None = None,
    limits: CollectorLimits = _DEFAULT_LIMITS,
    ingest: IngestConfig = _DEFAULT_INGEST,
    lumberjack: LumberjackConfig = _DEFAULT_LUMBERJACK,
    rsocket: ConnectionConfig = COLLECTOR_CONFIG,
    retry: Retry = _DEFAULT_RETRY,
    task_status: trio.TaskStatus[Collector] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Receive events into a spool, and give ranges of them to readers, until stopped.

    ``await collect("events", "lumberjack://127.0.0.1:5044", "tcp://127.0.0.1:7878")`` runs until it
    is cancelled. When ``collector = await nursery.start(collect, ...)`` returns, the collector
    accepts connections, and ``collector`` has its addresses and can stop it.

    Senders of Lumberjack get an acknowledgement for what is on the disk. RSocket clients may send
    events to the route ``events``, and read by `connect_collector`. While the spool is full,
    senders wait; those of Lumberjack version 2 get keep-alives. A collector that is started again
    on the same directory goes on where the last one ended.

    Args:
        directory: The directory of the spool, as for `rsocket_trio.spool.open_spool`.
        listen: Where to listen: ``lumberjack://host:port`` and ``lumberjacks://host:port`` for
            senders of Lumberjack; ``tcp``, ``tls``, ``unix``, ``ws`` and ``wss`` for RSocket.
        subscribe: Publishers of RSocket and rsio, whose streams are stored: see
            `parse_subscription`. A `Subscription` may have credentials.
        max_size: The bytes that the spool may store.
        retention: How long batches are kept that no consumer needs.
        group_readers: See `rsocket_trio.spool.SpoolConfig`.
        ssl_context: TLS of the addresses with TLS.
        subscribe_ssl_context: TLS of the publishers with TLS. By default Python's default context.
        max_connections: The connections of RSocket that may be open at once, and as many of
            Lumberjack. By default only the system limits them.
        max_age: How old a connection may be; see `rsocket_trio.ConnectionAge`. By default any age.
        health: As for `rsocket_trio.serve`.
        allowed_origins: WebSocket: the web pages that may connect, as for `rsocket_trio.serve`. By
            default none may.
        allow: Whom to let in by RSocket, as for `rsocket_trio.serve`. By default all.
        authenticate: Admits RSocket connections and requests, as for `rsocket_trio.Router`. `admit`
            makes one of tokens and passwords with roles. One of your own decides about sending,
            reading and forgetting alike: it calls `check_roles`, or looks at the route.
        limits: What readers may take.
        ingest: How events that come by RSocket are stored.
        lumberjack: How senders of Lumberjack are treated.
        rsocket: Times, sizes and limits of RSocket connections.
        retry: The waits before a lost publisher is tried again.
        task_status: Gets the `Collector` when every address accepts connections.

    Raises:
        SpoolError: The spool cannot be opened, or has failed for good.
        OSError: An address cannot be listened on, or the directory cannot be made.
        TypeError: An argument is of a wrong type.
        ValueError: An address is wrong, or there is none; the TLS context is missing or has no use.

    Checkpoint: always.
    If cancelled: at once. Events that are not acknowledged may be stored or not.
    `Collector.aclose` is the graceful way.
    """
    wanted = [
        each if isinstance(each, Subscription) else parse_subscription(each) for each in subscribe
    ]
    senders, others = _split(listen)
    for_senders, for_others = _contexts(ssl_context, senders, others)
    origins = allowed_origins
    if origins is None and any(each.is_websocket for each in others):
        origins = ()
    block = Block()
    running: Running | None = None
    try:
        with block.around():
            async with (
                open_spool(
                    directory,
                    max_size=max_size,
                    retention=retention,
                    config=attrs.evolve(_SPOOL_CONFIG, group_readers=group_readers),
                ) as spool,
                trio.open_nursery() as nursery,
            ):
                try:
                    with block.body():
                        storage = Storage(spool)
                        config = ingest.for_spool(max_size)
                        entrance = Ingest(storage, config, nursery)
                        running = Running(spool, storage, entrance)
                        router = Router(authenticate=authenticate)
                        router.include(reading_router(spool, limits=limits))
                        router.include(entrance.router())
                        router.include(_status_router(running))
                        if senders:
                            start: _Start = partial(
                                serve_lumberjack,
                                storage.store_lumberjack,
                                *senders,
                                config=lumberjack,
                                ssl_context=for_senders,
                                max_connections=max_connections,
                                max_age=max_age,
                                health=health,
                            )
                            running.add(await nursery.start(start))
                        if others:
                            start = partial(
                                serve,
                                router,
                                *others,
                                config=rsocket,
                                ssl_context=for_others,
                                max_connections=max_connections,
                                max_age=max_age,
                                health=health,
                                allowed_origins=origins,
                                allow=allow,
                            )
                            running.add(await nursery.start(start))
                        for each in wanted:
                            subscriber = Subscriber(
                                each, storage, entrance, config, retry, subscribe_ssl_context
                            )
                            running.follow(subscriber, nursery)
                        task_status.started(make(Collector, running))
                        await running.run(nursery)
                finally:
                    nursery.cancel_scope.cancel(reason="the collector has ended")
    finally:
        if running is not None:
            running.over.set()


def _status_router(running: Running) -> Router:
    router = Router()

    @router.request_response(STATUS)
    async def status() -> CollectorStatistics:
        return running.statistics()

    return router


_Start: TypeAlias = "Callable[..., Awaitable[None]]"


def _split(listen: Iterable[str | Uri]) -> tuple[list[Uri], list[Uri]]:
    """Return the addresses of Lumberjack, and those of RSocket.

    Raises:
        ValueError: An address is wrong, or there is none.
    """
    senders, others = [], []
    for each in listen:
        if str(each).lower().startswith(_LUMBERJACK):
            senders.append(lumberjack_uri(each))
        else:
            others.append(as_uri(each))
    if not senders and not others:
        raise ValueError('name an address to listen on, e.g. "lumberjack://127.0.0.1:5044"')
    return senders, others


def _contexts(
    context: ssl.SSLContext | None, senders: list[Uri], others: list[Uri]
) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the TLS context for those of both kinds that use it.

    Raises:
        ValueError: The context is missing, or has no use.
    """
    check_context(context, [*senders, *others], server_side=True)
    first, second = (
        context if any(each.is_encrypted for each in kind) else None for kind in (senders, others)
    )
    return first, second
