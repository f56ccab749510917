"""This package as the Lumberjack server under test, which keeps what it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

from rsocket_trio.lumberjack import Batch, LumberjackServer, serve

ADDRESS = "lumberjack://127.0.0.1:0"
KEPT_ADDRESS = "lumberjack://127.0.0.2:0"
"""For a server that comes back on its port: other connections take no port of this address."""


@attrs.frozen
class Handled:
    """A batch that was handled."""

    events: list[Any]
    version: int
    compressed: bool
    peer: str
    certificate: Any


class Received:
    """A handler that keeps the events of all batches.

    Attributes:
        before: Called with each batch, before its events count as received.
        batches: What was handled, in order.
    """

    def __init__(self, before: Callable[[Batch], Awaitable[None]] | None = None) -> None:
        self.before = before
        self.batches: list[Handled] = []
        self._changed = trio.Event()

    async def __call__(self, batch: Batch) -> None:
        if self.before is not None:
            await self.before(batch)
        transport = batch.transport
        certificate = transport.extra.get("peer_certificate")
        compressed = batch.compressed is not None
        self.batches.append(
            Handled(batch.events, batch.version, compressed, str(transport.peer), certificate)
        )
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    @property
    def events(self) -> list[Any]:
        """The events of all batches, in order of arrival."""
        return [event for batch in self.batches for event in batch.events]

    @property
    def lines(self) -> list[str]:
        """The lines of all events, in order of arrival, as Filebeat ships them."""
        return [event["message"] for event in self.events]

    async def wait_events(self, count: int) -> None:
        """Wait until so many events have arrived."""
        while sum(len(batch.events) for batch in self.batches) < count:
            await self._changed.wait()

    async def wait_lines(self, lines: Iterable[str]) -> None:
        """Wait until each of these lines has arrived at least once."""
        wanted = set(lines)
        seen = 0
        while True:
            for batch in self.batches[seen:]:
                wanted.difference_update(event["message"] for event in batch.events)
            if not wanted:
                return
            seen = len(self.batches)
            await self._changed.wait()


@asynccontextmanager
async def receiving(
    handler: Callable[[Batch], Awaitable[None]], uri: str = ADDRESS, **settings: Any
) -> AsyncIterator[LumberjackServer]:
    """Run `serve`, with these settings, for the length of the block."""
    async with trio.open_nursery() as nursery:
        server: LumberjackServer = await nursery.start(partial(serve, handler, uri, **settings))
        yield server
        nursery.cancel_scope.cancel(reason="the test is over")
