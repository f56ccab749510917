"""What runs in a collector, and how it stops: `Running`."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

import trio

from ..entrance import Home
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

    def stop(self, grace: float) -> None:
        """Begin to stop; a later call can only make it quicker."""
        self._home.check("this collector")
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + grace)
        if not self._storage.stopping.is_set():
            self._storage.stopping.set()
            self._ingest.stop()
        for server in self._servers:
            server.stop(grace=grace)

    async def run(self, nursery: trio.Nursery) -> None:
        """Run until stopped; then store what has been taken, and cancel the nursery.

        Raises:
            SpoolFailed: The spool has failed for good.
        """
        await self._storage.stopping.wait()
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
