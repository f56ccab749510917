"""RSocket responders in the process of a test: `Publisher`, and `Receiver` for Spark's sink."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Self

import trio

import rsocket_trio
from rsocket_trio import Payload, Router
from rsocket_trio.spark import CommittedBatch, SinkStatistics, sink_receiver
from rsocket_trio.spark.trio_thread import TrioThread

from .arrived import Row, row_of

ANYWHERE = "tcp://127.0.0.1:0"


class Responder:
    """Serves a router in a thread, for the length of the block.

    Attributes:
        uri: Its address.
        router: Its routes.
    """

    def __init__(self) -> None:
        self.router = Router()
        self._thread = TrioThread(type(self).__name__)

    def __enter__(self) -> Self:
        self.uri: str = self._thread.serve(self._serve)
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.close()

    async def _serve(self, *, task_status: trio.TaskStatus[str]) -> None:
        async with trio.open_nursery() as nursery:
            server = await nursery.start(rsocket_trio.serve, self.router, ANYWHERE)
            task_status.started(server.uris[0])


class Publisher(Responder):
    """Publishes streams on request, and counts.

    The route ``numbers`` gives ``count`` elements of a kilobyte, in JSON, with a number each. The
    route ``idle`` gives one element and then nothing.

    Attributes:
        emitted: The elements that were taken from its streams.
        open: The streams that a requester reads now.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.emitted = self.open = 0

        @self.router.request_stream("numbers")
        async def numbers(payload: Payload) -> AsyncIterator[Payload]:
            self.open += 1
            try:
                for number in range(count):
                    self.emitted += 1
                    yield Payload(b'{"number": %d, "more": "%s"}' % (number, b"x" * 1000))
            finally:
                self.open -= 1

        @self.router.request_stream("idle")
        async def idle(payload: Payload) -> AsyncIterator[Payload]:
            self.open += 1
            try:
                yield Payload(b"the only one")
                await trio.sleep_forever()
            finally:
                self.open -= 1


class Receiver(Responder):
    """Receives what ``format("rsocket")`` writes to the route ``rows``.

    Attributes:
        batches: The numbers of the batches that were committed, in order.
        rows: Their rows.
        on_commit: Called within each commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.rows: list[Row] = []
        self.on_commit: Callable[[], None] = lambda: None

    async def _serve(self, *, task_status: trio.TaskStatus[str]) -> None:
        async with sink_receiver(self.router, "rows", self._commit) as self._sink:
            await super()._serve(task_status=task_status)

    def staged(self) -> SinkStatistics:
        """What it has of attempts that are not committed."""
        return self._sink.statistics()

    async def _commit(self, batch: CommittedBatch) -> None:
        self.rows += [row_of(row) async for row in batch.rows()]
        self.batches.append(batch.batch)
        self.on_commit()
