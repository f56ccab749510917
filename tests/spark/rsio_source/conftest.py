"""Publishers in a thread, for readers that run in the thread of the test."""

from __future__ import annotations

import attrs
import pytest

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import from_iterable
from rsocket_trio.spark.trio_thread import TrioThread


@attrs.define
class Numbers:
    """A publisher of numbers as text, and what has been taken from it."""

    count: int = 10
    sent: int = 0
    ended: int = 0
    names: list[str] = attrs.field(factory=list)

    def find(self, name: str, _connection: rsio.Connection):
        """The resolver of the server."""
        self.names.append(name)
        if name.partition("?")[0] != "numbers":
            return None
        return from_iterable(self.numbers)

    def numbers(self):
        try:
            for number in range(self.count):
                self.sent += 1
                yield b"%d" % number
        finally:
            self.ended += 1


@pytest.fixture
def publishing():
    """Serve publishers; each call returns the address."""
    thread = TrioThread("publishers of a test")

    def start(target: object, uri: str = "rsio://127.0.0.1:0", **options: object) -> str:
        async def run(*, task_status):
            await rsio.serve(target, uri, task_status=task_status, **options)

        return str(thread.serve(run).uris[0])

    yield start
    assert thread.close()


@pytest.fixture
def numbers(publishing):
    """A server with the publisher ``numbers``, and its address."""
    facts = Numbers()
    return facts, publishing(facts.find)
