"""What runs in a collector, and how it stops: `Running`."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

import trio

from ..entrance import Home
from ..field_checks import argument, number
from ..lumberjack import LumberjackServer
from ..server import Server
from ..sockets.serving import RunningServer
from ..spool import Spool
from .ingest import Ingest
from .messages import CollectorStatistics
from .storage import Storage
from .subscriber import Subscriber

__all__ = ["Running"]


class Running:
    """The servers and subscriptions of a collector.

    Args:
        spool: Where events are stored.
        storage: The same, with what is counted about it.
        ingest: Events that come by RSocket.

    Attributes:
        spool: The spool.
        uris: The addresses of the servers.
        over: Set when the spool is closed.
    """

    def __init__(self, spool: Spool, storage: Storage, ingest: Ingest) -> None:
        self.spool: Final = spool
        self.uris: Final[list[str]] = []
        self.over: Final = trio.Event()
        self._storage: Final = storage
        self._ingest: Final = ingest
        self._servers: Final[list[RunningServer]] = []
        self._subscribers: Final[list[Subscriber]] = []
        self._began_at: Final = spool.head
        self._taking: Final = trio.CancelScope()
        self._scope: Final = trio.CancelScope()
        self._home: Final = Home()

    def add(self, server: RunningServer) -> None:
        """Add a server that accepts connections."""
        self._servers.append(server)
        self.uris.extend(server.uris)

    def follow(self, subscriber: Subscriber, nursery: trio.Nursery) -> None:
        """Begin a subscription."""
        self._subscribers.append(subscriber)
        nursery.start_soon(subscriber.run)

    def statistics(self) -> CollectorStatistics:
        """Return numbers about all of them."""
        connections = events = 0
        dropped = self._storage.dropped
        for server in self._servers:
            if isinstance(server, LumberjackServer):
                numbers = server.statistics()
                connections += numbers.connections
                events += numbers.events
            elif isinstance(server, Server):
                found = server.statistics()
                connections += found.connections
                dropped += found.dropped_events
        return CollectorStatistics(
            connections=connections,
            stored=self.spool.head - self._began_at,
            lumberjack_events=events,
            dropped=dropped,
            pending_size=self._ingest.pending_size,
            subscriptions=tuple(each.statistics() for each in self._subscribers),
        )

    def stop(self, delay: float, spread: float, grace: float) -> None:
        """Begin to stop; a later call can only make it quicker."""
        self._home.check("this collector")
        argument("delay", delay, number(at_least=0, finite=True))
        argument("spread", spread, number(at_least=0, finite=True))
        argument("grace", grace, number(at_least=0))
        taking = trio.current_time() + delay + spread
        self._taking.deadline = min(self._taking.deadline, taking)
        self._scope.deadline = min(self._scope.deadline, taking + grace)
        if not delay + spread:
            self._take_no_more()
        for server in self._servers:
            server.stop(delay=delay, spread=spread, grace=grace)

    def _take_no_more(self) -> None:
        if not self._storage.stopping.is_set():
            self._storage.stopping.set()
            self._ingest.stop()

    async def run(self, nursery: trio.Nursery) -> None:
        """Run until stopped; then store what has been taken, and cancel the nursery.

        Raises:
            SpoolFailed: The spool has failed for good.
        """
        with self._taking:
            await self._storage.stopping.wait()
        self._take_no_more()
        if self._storage.failure is not None:
            raise self._storage.failure
        with self._scope:
            async with trio.open_nursery() as stopping:
                for server in self._servers:
                    stopping.start_soon(partial(server.aclose, grace=inf))
            for subscriber in self._subscribers:
                await subscriber.over.wait()
            await self._ingest.wait_idle()
        nursery.cancel_scope.cancel(reason="the collector has stopped")
