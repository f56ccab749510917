"""A responder in a thread, for readers that run in the thread of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest

from rsocket_trio import Payload, Router, serve
from rsocket_trio.spark.trio_thread import TrioThread


@attrs.define
class Numbers:
    """A stream of numbers as text, and what its handler has seen.

    Attributes:
        requests: The data of each request.
        sent: The number of elements that had credit and were sent.
        ended: How many streams have ended early, or at their end.
    """

    count: int = 10
    requests: list[bytes] = attrs.field(factory=list)
    sent: int = 0
    ended: int = 0

    async def stream(self, payload: Payload) -> AsyncIterator[Payload]:
        self.requests.append(payload.data)
        try:
            for number in range(self.count):
                yield Payload(b"%d" % number)
                self.sent += 1
        finally:
            self.ended += 1


@pytest.fixture
def serving():
    """Serve routers; each call returns the address."""
    thread = TrioThread("responders of a test")

    def start(router: Router, uri: str = "tcp://127.0.0.1:0", **options: object) -> str:
        async def run(*, task_status):
            await serve(router, uri, task_status=task_status, **options)

        return str(thread.serve(run).uris[0])

    yield start
    assert thread.close()


@pytest.fixture
def numbers(serving):
    """A responder with the route ``numbers``, and its address."""
    router, facts = Router(), Numbers()
    router.request_stream("numbers")(facts.stream)
    return facts, serving(router)
