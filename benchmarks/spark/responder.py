"""The responder of the ``format("rsocket")`` cases: it sends prepared elements, and takes rows.

For each format of payloads there is a route for batches (``batch.json``), which never ends, and one
for streams (``replay.json``), which has as many elements as a command says. ``sink.`` and the name
of a format is the route of a sink; ``count`` takes fire_and_forget.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import trio

from benchmarks.control import read_command, ready, write_outcome
from benchmarks.spark.elements import FORMATS, make_elements, rows_of
from rsocket_trio import Payload, Router, serve
from rsocket_trio.spark import CommittedBatch, sink_receiver
from rsocket_trio.spark.replay import Offsets, ReplayOffsets, ReplaySource, replay_router

PARTITIONS: Final = 2
_TURN: Final = 64


class Repeated(ReplaySource):
    """Prepared elements, again and again, up to a number for each partition."""

    def __init__(self, elements: Sequence[bytes]) -> None:
        self.count = 0
        self._elements: Final = elements
        self._id: Final = str(time.time_ns())

    async def offsets(self) -> ReplayOffsets:
        """Return how many elements there are."""
        offsets = Offsets(0, self.count, self._id)
        return ReplayOffsets(dict.fromkeys(range(PARTITIONS), offsets))

    async def elements(self, partition: int, start: int, stop: int) -> AsyncIterator[bytes]:
        """Iterate over elements of a range."""
        elements = self._elements
        count = len(elements)
        for offset in range(start, stop):
            yield elements[(offset + partition) % count]


async def endless(elements: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Iterate over the elements, again and again."""
    while True:
        for element in elements:
            yield element


class Responder:
    """Has the routes, and counts what comes.

    Args:
        names: The formats.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.router: Final = Router()
        self.received = 0
        elements = {name: make_elements(name) for name in names}
        self.sources: Final = {name: Repeated(each) for name, each in elements.items()}
        for name in names:
            self._add_batch(name, elements[name])
            self.router.include(replay_router(f"replay.{name}", self.sources[name]))

        @self.router.fire_and_forget("count")
        async def count(payload: Payload) -> None:
            self.received += 1

    def _add_batch(self, name: str, elements: Sequence[bytes]) -> None:
        @self.router.request_stream(f"batch.{name}")
        async def batch(payload: Payload) -> AsyncIterator[bytes]:
            return endless(elements)

    async def take(self, batch: CommittedBatch) -> None:
        """Count the rows of a committed batch."""
        self.received += batch.row_count

    def obey(self, command: dict[str, Any]) -> int:
        """Obey one command; return the number of rows that it is about."""
        name = command.get("format", "")
        if command["operation"] == "grow":
            added = max(1, command["rows"] // PARTITIONS // rows_of(name))
            self.sources[name].count += added
            return added * PARTITIONS * rows_of(name)
        if command["operation"] == "empty":
            self.sources[name].count = 0
            return 0
        received, self.received = self.received, 0
        return received


async def main() -> None:
    """Serve until the standard input ends."""
    responder = Responder(sys.argv[1:] or FORMATS)
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        staged = stack.enter_context(tempfile.TemporaryDirectory(prefix="staged-"))
        for name in ("json", "cbor", "arrow"):
            await stack.enter_async_context(
                sink_receiver(
                    responder.router, f"sink.{name}", responder.take, directory=f"{staged}/{name}"
                )
            )
        server = await nursery.start(serve, responder.router, "tcp://127.0.0.1:0")
        gc.collect()
        gc.freeze()
        ready(server.uris[0])
        while (command := await trio.to_thread.run_sync(read_command)) is not None:
            write_outcome({"count": responder.obey(command)})
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
