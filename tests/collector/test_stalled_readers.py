"""Readers that stop reading, with large batches: the memory is bounded, and others go on.

The time is virtual, and the spool has no disk. So a batch costs its memory and nothing else.
"""

from __future__ import annotations

import tracemalloc
from contextlib import asynccontextmanager, contextmanager

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rsocket_trio import Payload, connect, serve_transport
from rsocket_trio.codecs import DEFAULT_CODECS
from rsocket_trio.collector import (
    READ,
    CollectorBusy,
    CollectorClient,
    CollectorLimits,
    ReadRequest,
    reading_router,
    service,
)
from rsocket_trio.collector.client import READER_CONFIG
from rsocket_trio.collector.ingest_config import COLLECTOR_CONFIG
from rsocket_trio.collector.reads import Reads
from rsocket_trio.errors import StreamError
from rsocket_trio.metadata import MIME
from rsocket_trio.sealed import make
from rsocket_trio.spool import BatchesAhead, OffsetTrimmed, StoredBatch
from rsocket_trio.transports.memory import memory_transport_pair
from rsocket_trio.transports.wrapper import TransportWrapper
from tests.spool.helpers import collect, sized

MB = 2**20
PATIENT = attrs.evolve(READER_CONFIG, max_lifetime=2e6)
"""A client that is stopped is not found to be dead before its readers have stalled."""


class SpoolInMemory:
    """Batches of given sizes, with one event each; they are made when they are read."""

    spool_id = "me"

    def __init__(self, *sizes):
        self.sizes = sizes
        self.head = len(sizes)

    def instances(self):
        return []

    def check_epoch(self, epoch, offset):
        assert epoch is None

    def read(self, start, stop):
        return Reader(self, start, stop)


class Reader:
    """As `SpoolReader`, with at most a megabyte for a query."""

    def __init__(self, spool, start, stop):
        self.spool, self.at, self.stop = spool, start, stop
        self.waiting = []

    async def look_ahead(self):
        await trio.lowlevel.checkpoint()
        if self.waiting or self.at == self.stop:
            return None
        sizes = self.spool.sizes[self.at : self.stop]
        count, cost = 1, sizes[0]
        while count < len(sizes) and cost + sizes[count] <= MB:
            cost += sizes[count]
            count += 1
        return BatchesAhead(
            head=batch(self.at, b""),
            size=sizes[0],
            count=count,
            stop=self.at + count,
            cost=cost,
        )

    async def __anext__(self):
        if not self.waiting:
            ahead = await self.look_ahead()
            await trio.sleep(0.001)
            self.waiting = [
                batch(n, bytes(self.spool.sizes[n])) for n in range(self.at, ahead.stop)
            ]
        await trio.lowlevel.checkpoint()
        self.at += 1
        return self.waiting.pop(0)


def batch(n, data):
    return StoredBatch(
        first=n, count=1, start=n, stop=n + 1, data=data, encoding="x", facts={}, stored_at=0.0
    )


class Stoppable(TransportWrapper):
    """A client whose process can be stopped."""

    def __init__(self, inner):
        super().__init__(inner)
        self.going = trio.Event()
        self.going.set()

    async def receive_frames(self):
        await self.going.wait()
        return await self.inner.receive_frames()


class Scene:
    """A collector, and clients of it."""

    def __init__(self, spool, limits, nursery):
        self.spool = spool
        self.router = reading_router(spool, limits=limits)
        self.nursery = nursery

    @asynccontextmanager
    async def client(self):
        here, there = memory_transport_pair(max_bytes=MB // 4)

        async def serve():
            await serve_transport(self.router, there, config=COLLECTOR_CONFIG)

        self.nursery.start_soon(serve)
        stoppable = Stoppable(here)
        async with connect(stoppable, config=PATIENT) as requester:
            client = make(CollectorClient, requester)
            yield client, stoppable

    def request(self, requester, *, n=1, start=0):
        wanted = ReadRequest(spool_id="me", start=start, stop=self.spool.head)
        data = DEFAULT_CODECS.encode(wanted, ReadRequest, MIME.CBOR)
        return requester.request_stream(Payload(data), route=READ, prefetch=0, initial_request_n=n)


@pytest.fixture
def memories(monkeypatch):
    """The memory of each collector that is made."""
    made = []

    class Known(Reads):
        def __init__(self, limits):
            super().__init__(limits)
            made.append(self.memory)

    monkeypatch.setattr(service, "Reads", Known)
    return made


@asynccontextmanager
async def scene(*sizes, **limits):
    async with trio.open_nursery() as nursery:
        yield Scene(SpoolInMemory(*sizes), CollectorLimits(**limits), nursery)
        nursery.cancel_scope.cancel()


@contextmanager
def traced():
    """Yield a function that says how many megabytes were allocated since."""
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        yield lambda: (tracemalloc.get_traced_memory()[0] - start) / MB
    finally:
        tracemalloc.stop()


async def read_all(scene, client):
    async with client.read(0, scene.spool.head, spool_id="me") as batches:
        found = await collect(batches)
    assert [len(each.data) for each in found] == list(scene.spool.sizes)


async def test_stopped_clients(autojump_clock, memories):
    """Their ranges hold what the limits allow. They are evicted for a healthy reader, and go on."""
    limits = {"max_read_memory": 32 * MB, "max_read_memory_per_connection": 16 * MB}
    async with scene(*[8 * MB] * 3, **limits) as here, trio.open_nursery() as nursery:
        ended = []
        stopped = []
        with traced() as megabytes:
            for _ in range(6):
                client, transport = await nursery.start(_run_client, here, ended)
                stopped.append(transport)
                transport.going = trio.Event()
                for _ in range(8):
                    nursery.start_soon(_read_and_note, here, client, ended)
            await trio.sleep(5)
            # One frame each in the pipe, two in the queue, and two that are being sent.
            assert 23 < megabytes() < 32 + 6 * 1.25 + 2
            assert memories[0].used <= 32 * MB
            async with here.client() as (client, _):
                start = trio.current_time()
                await read_all(here, client)
                # Ranges of stopped clients are in the line before it, for 15 s at most.
                assert trio.current_time() - start < 15 + 10
            await wait_all_tasks_blocked()
            # The evicted ranges have given all back but the frames in the queues.
            assert megabytes() < 32 + 6 * 1.25 + 2
        for transport in stopped:
            transport.going.set()
        with trio.fail_after(300):
            while len(ended) < 48:
                await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert memories[0].used == 0


async def _run_client(scene, ended, *, task_status):
    async with scene.client() as found:
        task_status.started(found)
        await trio.sleep_forever()


async def _read_and_note(scene, client, ended):
    await read_all(scene, client)
    ended.append(client)


async def test_an_evicted_range_frees_its_batch(autojump_clock, memories):
    """Also the one that is being sent: what stays is in the queue of the connection."""
    limits = {"max_read_memory": 64 * MB, "max_read_memory_per_connection": 64 * MB}
    async with scene(64 * MB, 10, **limits) as here, here.client() as (client, transport):
        with traced() as megabytes:
            async with here.request(client.requester, n=2) as items:
                await wait_all_tasks_blocked()
                transport.going = trio.Event()
                await trio.sleep(1)
                assert megabytes() > 60
                async with here.client() as (other, _):
                    async with here.request(other.requester, start=1) as small:
                        await small.receive()
                    assert trio.current_time() < 15
                    assert megabytes() < 3
                transport.going.set()
                with pytest.raises(StreamError) as error:
                    await items.receive()
                assert error.value.code == 0x5304
    assert memories[0].used == 0


async def test_ranges_that_are_read_in_turn(autojump_clock, memories):
    """One that pauses has nothing in memory, so each gets on at once, on one connection."""
    limits = {"max_read_memory": 8 * MB, "max_read_memory_per_connection": 8 * MB}
    async with scene(*[8 * MB] * 4, **limits) as here, here.client() as (client, _):
        async with trio.open_nursery() as nursery:
            streams = []

            async def hold(task_status):
                async with here.request(client.requester) as items:
                    task_status.started(items)
                    await trio.sleep_forever()

            for _ in range(6):
                streams.append(await nursery.start(hold))
            for items in streams:
                assert len((await items.receive()).data) == 8 * MB
            for items in reversed(streams):
                items.request_n(1)
                assert len((await items.receive()).data) == 8 * MB
                items.request_n(2)
                assert [len(each.data) async for each in items] == [8 * MB] * 2
            assert trio.current_time() < 1
            nursery.cancel_scope.cancel()
    assert memories[0].used == 0


async def test_small_batches_that_are_read_in_turn(autojump_clock, memories):
    """A range may pause with a megabyte in memory. It loses it, asks again, and all get on."""
    limits = {"max_read_memory_per_connection": 4 * MB}
    async with scene(*[1000] * 3000, **limits) as here, here.client() as (client, _):
        async with trio.open_nursery() as nursery:
            readers = []

            async def hold(task_status):
                async with client.read(0, 3000, spool_id="me") as batches:
                    task_status.started(batches)
                    await trio.sleep_forever()

            for _ in range(8):
                readers.append(await nursery.start(hold))
            for batches in readers:
                await anext(batches)
            start = trio.current_time()
            for batches in readers:
                assert len(await collect(batches)) == 2999
            assert trio.current_time() - start < 200
            nursery.cancel_scope.cancel()
    assert memories[0].used == 0


async def test_a_batch_larger_than_all_the_memory(autojump_clock, memories):
    """It is read alone, between others."""
    limits = {"max_read_memory": 4 * MB, "max_read_memory_per_connection": 2 * MB}
    async with scene(1000, 40 * MB, 3 * MB, 1000, **limits) as here, trio.open_nursery() as nursery:

        async def one():
            async with here.client() as (client, _), trio.open_nursery() as both:
                both.start_soon(read_all, here, client)
                both.start_soon(read_all, here, client)

        for _ in range(3):
            nursery.start_soon(one)
    assert memories[0].used == 0


async def test_what_counts_for_a_batch(autojump_clock, memories):
    """A large one also counts the two copies of the part that is being sent."""
    for size, copies in ((MB, 0), (MB + 1, MB // 2)):
        async with scene(size) as here, here.client() as (client, transport):
            async with here.request(client.requester):
                await wait_all_tasks_blocked()
                transport.going = trio.Event()
                await trio.sleep(1)
                assert memories[-1].used == size + copies


async def test_a_collector_that_stays_busy(autojump_clock):
    """The reader asks again for the time of its patience. Then it is told; it may go on."""
    async with scene(*[20 * MB] * 2, max_read_memory=20 * MB, stall_time=1e6) as here:
        async with here.client() as (slow, transport), here.client() as (client, _):
            async with here.request(slow.requester) as items:
                await wait_all_tasks_blocked()
                transport.going = trio.Event()
                await trio.sleep(1)
                for patience, took in ((0, 15), (5, 15), (60, 62)):
                    start = trio.current_time()
                    reading = client.read(0, 2, spool_id="me", patience=patience)
                    async with reading as batches:
                        with pytest.raises(CollectorBusy, match="max_read_memory"):
                            await anext(batches)
                        most = took + 16 if patience else took
                        assert took <= trio.current_time() - start <= most + 0.1
                        if patience == 60:
                            transport.going.set()
                            assert len((await items.receive()).data) == 20 * MB
                            assert len(await collect(batches)) == 2


async def test_places_are_given_to_readers_that_ask_again(autojump_clock):
    """A reader waits for a place as for memory."""
    async with scene(10, 10, max_reads=1, stall_time=30) as here, here.client() as (client, _):
        async with here.request(client.requester) as items:
            await items.receive()
            async with here.request(client.requester) as others:
                with pytest.raises(StreamError, match="max_reads"):
                    await others.receive()
        async with here.request(client.requester):
            await wait_all_tasks_blocked()
            await read_all(here, client)


async def test_a_large_batch_that_is_deleted_before_its_turn(spool, reading):
    """It is read when there is demand for it. The reader is told that it is gone."""
    for _ in range(3):
        await spool.append(sized(3 * MB))
    await spool.commit("q", 0)
    async with reading() as client:
        wanted = ReadRequest(spool_id=spool.spool_id, start=0, stop=3)
        data = DEFAULT_CODECS.encode(wanted, ReadRequest, MIME.CBOR)
        async with client.requester.request_stream(
            Payload(data), route=READ, prefetch=0, initial_request_n=1
        ) as items:
            assert len((await items.receive()).data) > 3 * MB - 100
            await spool.commit("q", 2)
            items.request_n(1)
            with pytest.raises(StreamError, match='"oldest": 2'):
                await items.receive()
        async with client.read(1, 3, spool_id=spool.spool_id) as batches:
            with pytest.raises(OffsetTrimmed):
                await anext(batches)
