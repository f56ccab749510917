"""connect, streams of both kinds and serve, cancelled at every point: nothing is left behind."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectFailed, ConnectionClosed, rsio
from rsocket_trio.reactive_streams import open_iter
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.leaks import all_tasks, assert_no_leaks
from tests.rsio.engine_scenes import numbers, pair, words


class Waiting:
    """Publishers that wait at every step, and count the resources they have not released."""

    def __init__(self) -> None:
        self.open = 0

    async def resolve(self, name, connection):
        self.open += 1
        try:
            await trio.lowlevel.checkpoint()
            if name == "ints":
                return rsio.fixed_size(words(50), 8)
            return self.count()
        finally:
            self.open -= 1

    async def count(self):
        self.open += 1
        try:
            for each in numbers(20):
                await trio.lowlevel.checkpoint()
                yield each
        finally:
            self.open -= 1


async def read(connection):
    async with connection.publisher("count").open(prefetch=3) as elements:
        assert [each async for each in elements] == numbers(20)


async def read_packed(connection):
    async with connection.publisher("ints").open_packed(prefetch=7) as blocks:
        octets = b"".join([bytes(block) async for block in blocks])
    assert octets == b"".join(words(50))


async def iterate(connection):
    """`open_iter`, by hand-made demand, and left early."""
    async with open_iter(connection.publisher("count"), 0) as elements:
        for number in range(3):
            elements.request_n(1)
            assert await elements.receive() == b"%d" % number
    async for element in connection.publisher("count"):
        assert element == b"0"
        break


USES = [read, read_packed, iterate]


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
@pytest.mark.parametrize("use", USES)
async def test_a_stream_may_be_cancelled_at_any_point(use, every_task):
    """No stream, publisher or task is left, and the next stream works."""
    waiting = Waiting()
    async with pair(waiting.resolve) as connection:
        await use(connection)
        await trio.testing.wait_all_tasks_blocked()
        tasks = len(all_tasks())

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert waiting.open == 0
            statistics = connection.statistics()
            assert statistics.subscriptions == 0
            assert statistics.queued_size == 0
            assert len(all_tasks()) <= tasks
            await use(connection)
            await trio.testing.wait_all_tasks_blocked()

        places = await cancel_everywhere(partial(use, connection), check, every_task=every_task)
        assert places >= 1


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
@pytest.mark.parametrize("use", USES)
async def test_connecting_may_be_cancelled_at_any_point(use, every_task):
    """Set-up, use and close of a connection, on both sides, leave nothing behind."""
    waiting = Waiting()

    async def connect_and_use():
        async with pair(waiting.resolve) as connection:
            await use(connection)

    async def check():
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.open == 0

    async with assert_no_leaks():
        await cancel_everywhere(connect_and_use, check, every_task=every_task)


@pytest.mark.parametrize("use", USES)
async def test_a_server_may_be_cancelled_at_any_point(use):
    """Its client gets an error or its elements; publishers are cancelled."""
    waiting = Waiting()
    failures = []

    async def client(stream):
        with trio.CancelScope(shield=True):
            try:
                async with rsio.connect(stream) as connection:
                    await use(connection)
            except (ConnectionClosed, ConnectFailed) as error:
                failures.append(error)

    async def serve():
        here, there = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client, here)
            await rsio.serve_stream(waiting.resolve, there)

    async def check():
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.open == 0

    async with assert_no_leaks():
        await cancel_everywhere(serve, check, every_task=True)
    assert failures
