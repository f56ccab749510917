"""The Lumberjack client: `connect`, `Shipper`."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final, final

import attrs
import trio

from ...entrance import Home
from ...errors import ConnectFailed
from ...interactions.block import Block, opened_by_block
from ...interactions.isolation import crashed
from ...sealed import Sealed, make
from ...sockets.tls import check_context
from ...uri import Uri
from ..addresses import lumberjack_uris
from .backlog import Backlog
from .bell import Bell
from .config import ShipperConfig, check_shipper_config
from .connector import Connector
from .deliveries import Delivery, ShipError
from .event_encoder import EventEncoder
from .hosts import Host, places_for
from .intake import Intake
from .outgoing import Load
from .window_size import WindowSize

__all__ = ["Shipper", "ShipperStatistics", "connect"]

_DEFAULT_CONFIG: Final = ShipperConfig()


@attrs.frozen(kw_only=True)
class ShipperStatistics:
    """Numbers about a Lumberjack client.

    Attributes:
        acknowledged: Events that were acknowledged.
        sent: Events that were written to a connection, each time that they were.
        resent: Events that were on the way when their connection was lost, and queued again.
        waiting: Events that are not on the way yet.
        in_flight: Events that are on the way, and not acknowledged.
        connections: Connections that are open.
        reconnects: Connections that were made after the first one of each place.
        failures: Attempts in a row that have failed; with load balancing, of the worst host.
        window: The largest number of events that the next window of a host may have.
    """

    acknowledged: int
    sent: int
    resent: int
    waiting: int
    in_flight: int
    connections: int
    reconnects: int
    failures: int
    window: int


@final
class Shipper(metaclass=Sealed, given="lumberjack.connect gives one"):
    """Ships events to Lumberjack servers; `connect` makes it. Many tasks may use it at once."""

    def __init__(self, load: Load, connectors: Sequence[Connector]) -> None:
        self._load = load
        self._connectors = connectors
        self._home = Home()
        self._intake = Intake(load.encoder, load.backlog)

    async def send(
        self,
        events: Iterable[Mapping[str, object] | bytes],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Ship events, and return when all of them are acknowledged.

        When a connection is lost, the events that are not acknowledged are sent again: they may
        arrive twice, but are not lost. This waits for a server without a limit, unless
        `ShipperConfig.retry` has one: put a `trio.fail_after` around it. The events of several
        calls that wait share windows, in the order of the calls. With several connections, the
        events of one call may go to several hosts.

        Args:
            events: Mappings, which are encoded as JSON; or bytes, which are JSON texts already.
                With version 1: mappings of text or bytes to text or bytes; or what `encode_pairs`
                returns. All of them are read and checked before the first one is sent, also those
                of a generator, so an endless one is an error. Other tasks run while a generator is
                read. Do not change an event while this waits: it is encoded again when it has to be
                sent again. A mapping is encoded in one step, in which no other task runs: encode
                those of many MB in a thread.
            task_status: Told when the events have their place in the line. So several calls of
                ``await nursery.start(shipper.send, events)`` keep their order, and are on the way
                at the same time.

        Raises:
            LocalProtocolError: An event can never be sent: it is too large, empty, or has a value
                that JSON has not. Nothing of this call was sent.
            TypeError: An event is of a type that cannot be encoded. Nothing of this call was sent.
            ShipError: All attempts that `ShipperConfig.retry` allows have failed; or the block of
                `connect` has ended while this waited.
            trio.ClosedResourceError: The block of `connect` had ended before.
            RuntimeError: The caller is in another thread than the block of `connect`.

        Checkpoint: always.
        If cancelled: events that are not on the way are not sent. The others may arrive.
        """
        self._home.check("this shipper")
        if isinstance(events, Mapping | bytes | bytearray | memoryview | str):
            raise TypeError(
                f"send takes several events, not one {type(events).__name__}: put it into a list"
            )
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._intake.check_open()
        done = trio.Event()
        delivery = await self._intake.queue(events, done.set)
        if delivery is None:
            task_status.started()
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        try:
            task_status.started()
            await done.wait()
        finally:
            self._intake.over(delivery)
        if delivery.failure is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise delivery.failure

    def statistics(self) -> ShipperStatistics:
        """Return numbers about this client."""
        load, connectors = self._load, self._connectors
        open_now = [each.outgoing for each in connectors if each.outgoing is not None]
        return ShipperStatistics(
            acknowledged=load.totals.acknowledged,
            sent=load.totals.sent,
            resent=load.totals.resent,
            waiting=load.backlog.waiting,
            in_flight=sum(each.flight.events for each in open_now),
            connections=len(open_now),
            reconnects=sum(max(each.made - 1, 0) for each in connectors),
            failures=max(each.place.failures for each in connectors),
            window=max(host.window.size for each in connectors for host in each.place.hosts),
        )

    def _give_up(self, why: str) -> None:
        """End all calls that wait, if every place has failed as often as it may."""
        most = self._load.config.retry.max_attempts
        if most is None:
            return
        for each in self._connectors:
            if each.outgoing is not None or each.place.failures < most:
                return
        for each in self._connectors:
            each.place.failures = 0
        self._fail_all(f"gave up after {most} attempts: {why}", ConnectFailed(why))

    def _close(self) -> None:
        self._intake.close()
        why = "the block of lumberjack.connect has ended"
        self._fail_all(why, trio.ClosedResourceError(why))

    def _fail_all(self, why: str, cause: Exception) -> None:
        def reason(delivery: Delivery) -> ShipError:
            count = len(delivery.events)
            error = ShipError(
                f"{delivery.left} of {count} events are not acknowledged: {why}",
                delivery.acknowledged,
            )
            error.__cause__ = cause
            return error

        self._load.backlog.fail_all(reason)


@opened_by_block
async def connect(
    uris: str | Uri | Sequence[str | Uri],
    *,
    config: ShipperConfig = _DEFAULT_CONFIG,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Shipper]:
    """Ship events to Beats inputs of Logstash, to `serve`, and to other servers of Lumberjack.

    ``async with lumberjack.connect("lumberjack://logs.example.org") as shipper: ...``

    The client connects when there is something to send, and connects again when a connection is
    lost. Its tasks run in the nursery of the block.

    Args:
        uris: One address or several: ``lumberjack://host:port``, or with TLS
            ``lumberjacks://host:port``. Without a port it is 5044. Of several hosts one gets all
            events, until it fails; with `ShipperConfig.load_balance` all get some.
        config: Times, sizes and limits.
        ssl_context: TLS: verification and client certificate. By default Python's default context.
            An error if no address uses TLS.

    Yields:
        The shipper.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: An address is wrong or there is none, or the TLS context has no use.
        InternalError: On leaving: a task of the client crashed. Please report it.

    Checkpoint: leaving, always.
    If cancelled: connections are closed. Calls of `Shipper.send` in other tasks raise `ShipError`.
    """
    check_shipper_config(config)
    parsed = lumberjack_uris(uris)
    check_context(ssl_context, parsed, server_side=False)
    if ssl_context is None and any(uri.is_encrypted for uri in parsed):
        ssl_context = ssl.create_default_context()  # Once: it reads many certificates.
    bell = Bell()
    encoder = EventEncoder(config.version, config.compression_level, config.limits)
    load = Load(config=config, encoder=encoder, backlog=Backlog(bell.ring), bell=bell)
    hosts = [Host(uri, WindowSize(config.initial_window, config.max_window)) for uri in parsed]
    connectors: list[Connector] = []
    shipper = make(Shipper, load, connectors)
    places = places_for(hosts, config.retry, random.random, load_balance=config.load_balance)
    give_up = shipper._give_up  # noqa: SLF001 - this function made it
    connectors += [Connector(place, load, ssl_context, give_up) for place in places]
    block = Block()
    with block.around():
        try:
            async with trio.open_nursery() as nursery:
                for connector in connectors:
                    nursery.start_soon(connector.run)
                try:
                    with block.body():
                        yield shipper
                finally:
                    shipper._close()  # noqa: SLF001 - as above
                    nursery.cancel_scope.cancel(reason="the block of lumberjack.connect has ended")
        except BaseExceptionGroup as group:  # of the nursery; the body's error is not in it
            crash = crashed(group, "a task of the Lumberjack client", shipper)
            if crash is None:
                raise
            raise crash from group
