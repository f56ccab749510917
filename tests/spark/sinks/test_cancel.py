"""Tasks and drivers that are cancelled at every step: nothing is lost, doubled, or left over."""

from __future__ import annotations

from itertools import count

import attrs
import pytest
import trio

from rsocket_trio import Payload
from rsocket_trio.spark import SinkLimits
from rsocket_trio.spark.sinks.messages import Opening, encode
from rsocket_trio.spark.sinks.receiving.staging import Staging
from rsocket_trio.spark.sinks.receiving.store import MemoryStore
from rsocket_trio.spark.sinks.rsocket_sink import sending
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from tests.spark.sinks.helpers import ROUTE, Application, abort, commit, opening, rows, sink, write


async def quiet(receiver) -> None:
    """Wait until no channel is open: a cancelled task ends a moment later."""
    with trio.fail_after(30):
        while receiver.statistics().open_attempts:
            await trio.sleep(0.001)


async def test_a_task_that_is_cancelled():
    """Its rows are dropped, or all of them are staged; the next task of the partition works."""
    application = Application()
    async with sink(application) as (requester, receiver):
        names = count()

        async def operation():
            await write(requester, opening(f"a{next(names)}"), rows(1, 2))

        async def check():
            await quiet(receiver)
            statistics = receiver.statistics()
            assert statistics.attempts <= 1
            assert (statistics.attempts == 0) == (statistics.staged_size == 0)
            await abort(requester)

        assert await cancel_everywhere(operation, check, every_task=True) > 10


async def test_a_commit_that_is_cancelled():
    """The handler has the batch once: it is remembered at once when the handler has returned."""
    application = Application()
    async with sink(application) as (requester, receiver):
        batches = count()
        now = 0

        async def operation():
            nonlocal now
            now = next(batches)
            with trio.CancelScope(shield=True):
                await write(requester, opening(f"a{now}", batch=now), rows(now))
            await commit(requester, [f"a{now}"], 1, batch=now)

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            reply = await commit(requester, [f"a{now}"], 1, batch=now)
            assert reply.rows == 1
            assert application.batches[-1] == ("q", now, [now])
            assert len(application.batches) == now + 1
            assert receiver.statistics().attempts == 0

        assert await cancel_everywhere(operation, check, every_task=True) > 10


async def test_a_commit_in_the_receiver_is_cancelled():
    """The same within the handler of the route, where the shield is."""
    application = Application()
    staging = Staging(MemoryStore(), SinkLimits())
    numbers = count()
    now = 0

    async def stage(number: int) -> None:
        attempt = await staging.begin("", opening(f"a{number}", batch=number))
        await attempt.add(rows(number)[0])
        await attempt.complete()
        staging.end(attempt)

    def request():
        from rsocket_trio.spark.sinks.messages import CommitRequest

        return CommitRequest(query="q", batch=now, writer="w", winners=[f"a{now}"], rows=1)

    async def operation():
        nonlocal now
        now = next(numbers)
        with trio.CancelScope(shield=True):
            await stage(now)
        await staging.commit("", request(), application)

    async def check():
        await staging.commit("", request(), application)
        assert len(application.batches) == now + 1
        assert (len(staging.index), staging.index.size, staging.index.dropped) == (0, 0, [])

    assert await cancel_everywhere(operation, check) > 3


async def test_an_attempt_in_the_receiver_is_cancelled():
    """Begin, add and complete: an attempt that is not complete is dropped, with its bytes."""
    staging = Staging(MemoryStore(), SinkLimits())
    numbers = count()

    async def operation():
        attempt = await staging.begin("", opening(f"a{next(numbers)}"))
        try:
            await attempt.add(rows(1)[0])
            await attempt.complete()
        finally:
            staging.end(attempt)

    async def check():
        assert staging.open == 0
        found = staging.index.all()
        assert all(attempt.facts.complete for attempt in found)
        assert staging.index.size == sum(attempt.size for attempt in found)

    assert await cancel_everywhere(operation, check) > 3


async def test_the_sending_of_a_task_is_cancelled(monkeypatch):
    """Threads and the connection end with the task of Spark."""
    application = Application()
    async with sink(application) as (requester, receiver):

        class Connected:
            async def __aenter__(self):
                return requester

            async def __aexit__(self, *_):
                return False

        monkeypatch.setattr(sending, "_connected", lambda _: Connected())

        @attrs.frozen
        class Settings:
            uri = "memory"
            route = ROUTE
            timeout = 60.0

        first = Opening(
            query="q", batch=0, partition=0, attempt="", writer="w", format="cbor", schema="{}"
        )

        async def operation():
            batches = iter([[1, 2], [3]])
            sent = await sending.write_attempt(
                Settings(), first, batches, lambda each: (rows(*each), len(each))
            )
            assert sent.rows == 3

        async def check():
            await quiet(receiver)
            assert receiver.statistics().attempts <= 1
            await abort(requester)

        # Steps of threads come at any time, so the steps of this task alone are counted.
        assert await cancel_everywhere(operation, check) > 5


@pytest.mark.parametrize("place", range(4))
async def test_a_client_that_leaves(place):
    """A task of Spark that is killed closes its connection, at some point of its attempt."""
    application = Application()
    async with sink(application) as (requester, receiver):

        async def source():
            yield Payload(encode(opening("a")))
            for number in range(place):
                yield Payload(rows(number)[0])
            await trio.sleep_forever()

        async with requester.request_channel(source(), route=ROUTE) as replies:
            if place:
                await replies.receive()
        await quiet(receiver)
        assert receiver.statistics().attempts == 0
