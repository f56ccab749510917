"""Tasks and drivers of Spark, as the responder of a sink sees them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import asynccontextmanager

import attrs
import cbor2
import trio

from rsocket_trio import Payload, Requester, Router
from rsocket_trio.spark import CommittedBatch, sink_receiver
from rsocket_trio.spark.sinks.messages import (
    ABORT,
    COMMIT,
    AbortRequest,
    CommitReply,
    CommitRequest,
    Opening,
    Staged,
    Welcome,
    decode,
    encode,
)
from rsocket_trio.testing.in_memory import connected_pair

ROUTE = "alerts"


def opening(attempt: str, **changes) -> Opening:
    """The first payload of an attempt."""
    usual = Opening(
        query="q",
        batch=0,
        partition=0,
        attempt=attempt,
        writer="w",
        format="cbor",
        schema="{}",
    )
    return attrs.evolve(usual, **changes)


def rows(*values) -> list[bytes]:
    """Payloads with one row each."""
    return [cbor2.dumps({"v": each}) for each in values]


async def write(
    requester: Requester, first: Opening, payloads: Iterable[bytes] = (), route: str = ROUTE
) -> Staged | None:
    """Write an attempt; ``None`` if its batch is committed already."""
    welcomed = trio.Event()

    async def source():
        await welcomed.wait()
        for data in payloads:
            yield Payload(data)

    async with requester.request_channel(
        source(), payload=Payload(encode(first)), route=route
    ) as replies:
        welcome = decode((await replies.receive()).data, Welcome)
        assert welcome.attempt == first.attempt
        if welcome.committed:
            return None
        welcomed.set()
        staged = decode((await replies.receive()).data, Staged)
        assert staged.attempt == first.attempt
        return staged


async def commit(requester: Requester, winners, count: int, route: str = ROUTE, **changes):
    """Commit a batch."""
    usual = CommitRequest(query="q", batch=0, writer="w", winners=list(winners), rows=count)
    request = attrs.evolve(usual, **changes)
    reply = await requester.request_response(Payload(encode(request)), route=route + COMMIT)
    return decode(reply.data, CommitReply)


async def abort(requester: Requester, route: str = ROUTE, **changes) -> None:
    """Give up a try to write a batch."""
    request = attrs.evolve(AbortRequest(query="q", batch=0, writer="w"), **changes)
    await requester.request_response(Payload(encode(request)), route=route + ABORT)


class Application:
    """Takes the rows of committed batches, as ``on_commit``.

    Attributes:
        batches: The query, the number and the values of each batch.
        error: Raised for the next batch.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[str, int, list[object]]] = []
        self.error: Exception | None = None

    async def __call__(self, batch: CommittedBatch) -> None:
        values = [row["v"] async for row in batch.rows()]
        assert len(values) == batch.row_count
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.batches.append((batch.query, batch.batch, values))


@asynccontextmanager
async def sink(application, router: Router | None = None, **options):
    """A sink in memory, with one client: gives the requester and the receiver."""
    router = Router() if router is None else router
    async with (
        sink_receiver(router, ROUTE, application, **options) as receiver,
        connected_pair(router) as requester,
    ):
        yield requester, receiver
