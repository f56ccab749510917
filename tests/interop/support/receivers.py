"""Peers that are servers of Lumberjack, and what they have received."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from .installed import LUMBER
from .processes import Peer, java, running


class Receiving:
    """A server of a peer; it prints what it receives before it acknowledges it.

    Attributes:
        uri: Where it listens.
        batches: What it has printed: the events of each batch. Logstash prints single events.
    """

    def __init__(self, peer: Peer, uri: str) -> None:
        self._peer = peer
        self.uri = uri
        self.batches: list[list[Any]] = []
        self._printed = trio.Event()
        self._over = trio.Event()

    @property
    def events(self) -> list[Any]:
        """All events, in order of arrival."""
        return [event for batch in self.batches for event in batch]

    async def wait_events(self, count: int) -> None:
        """Wait until it has printed so many events."""
        while len(self.events) < count:
            await self._printed.wait()

    async def kill(self) -> None:
        """Kill it, as a crash would, and read what it has printed before."""
        await self._peer.kill()
        await self._over.wait()

    async def read(self) -> None:
        """Collect what it prints, until it ends."""
        try:
            while True:
                line = json.loads(await self._peer.line())
                if "failed" in line:
                    raise AssertionError(f"the peer failed: {line['failed']}")
                if "event" in line:
                    self.batches.append([line["event"]])
                if "events" in line:
                    self.batches.append(line["events"])
                printed, self._printed = self._printed, trio.Event()
                printed.set()
        except EOFError:
            self._over.set()


@asynccontextmanager
async def _receiving(argv: Sequence[str]) -> AsyncIterator[Receiving]:
    async with running(argv) as peer, trio.open_nursery() as nursery:
        uri = (await peer.line()).removeprefix("listening on ")
        server = Receiving(peer, uri)
        nursery.start_soon(server.read)
        yield server
        nursery.cancel_scope.cancel(reason="the test is over")


def go_lumber(**options: object) -> Any:
    """``async with go_lumber(**options) as server``: the options are those of ``receive.go``."""
    flags = [f"-{name}={value}" for name, value in options.items()]
    return _receiving([str(LUMBER / "lumber"), "receive", *flags])


def logstash(delay: int = 0) -> Any:
    """``async with logstash(delay) as server``: milliseconds for each event."""
    return _receiving(java("Logstash", str(delay)))
