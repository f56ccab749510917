"""Collectors for tests without trio: `LocalCollector`, `wait_for_running`."""

from __future__ import annotations

import json
import shutil

from rsocket_trio import Router, serve
from rsocket_trio.collector import CollectorLimits, reading_router
from rsocket_trio.lumberjack import BatchReader, encode_batch, to_store
from rsocket_trio.lumberjack.server.batch import Batch as ReceivedBatch
from rsocket_trio.sealed import make
from rsocket_trio.sockets.byte_stream import TransportInfo
from rsocket_trio.spark.spool_source.fleet import Fleet
from rsocket_trio.spark.trio_thread import TrioThread
from rsocket_trio.spool import Batch, describe_spool, open_spool

__all__ = ["LocalCollector", "json_lines", "received", "wait_for_running"]

PEER = TransportInfo(scheme="lumberjack", peer="192.0.2.1:4711")


def json_lines(texts):
    """A batch of uncompressed events, as a receiver stores it."""
    return Batch(
        len(texts),
        b"".join(text + b"\n" for text in texts),
        encoding="json-lines",
        facts={"version": "2", "peer": "192.0.2.1:4711"},
    )


def received(events, *, version=2, level=3):
    """A batch as a receiver stores what a sender has sent."""
    reader = BatchReader()
    batches = reader.feed(encode_batch(events, version=version, compression_level=level))
    while reader.more:
        batches += reader.feed(b"")
    [batch] = batches
    return to_store(make(ReceivedBatch, batch, PEER, None))


class LocalCollector:
    """A spool, and the routes of a collector, in a thread. ``uri`` stays the same."""

    def __init__(self, directory, *, ssl_context=None, authenticate=None, **spool_options):
        self.authenticate = authenticate
        self.directory = directory
        self.spool_options = spool_options
        self.ssl_context = ssl_context
        self.uri = f"{'tls' if ssl_context else 'tcp'}://127.0.0.1:0"
        self.numbers = 0
        self.running = False
        self.start()

    def start(self):
        self.thread = TrioThread("collector")
        self.uri = self.thread.serve(self._serve)
        self.running = True

    async def _serve(self, *, task_status):
        async with open_spool(self.directory, **self.spool_options) as spool:
            self.spool = spool

            class Status:
                @staticmethod
                def started(server):
                    task_status.started(server.uris[0])

            limits = CollectorLimits(instance_timeout=0.01)
            router = Router(authenticate=self.authenticate)
            router.include(reading_router(spool, limits=limits))
            await serve(
                router,
                self.uri,
                ssl_context=self.ssl_context,
                task_status=Status,
            )

    def stop(self):
        self.running = False
        assert self.thread.close()

    def restart(self):
        self.stop()
        self.start()

    def replace(self):
        """Lose the disk."""
        self.stop()
        shutil.rmtree(self.directory)
        self.start()

    @property
    def spool_id(self):
        return describe_spool(self.directory).spool_id

    @property
    def description(self):
        return describe_spool(self.directory)

    def append(self, *batches):
        for batch in batches:
            self.thread.run(self.spool.append, batch)

    def ship(self, count):
        """Append a batch of events with the next numbers."""
        texts = [json.dumps({"n": self.numbers + n}).encode() for n in range(count)]
        self.numbers += count
        self.append(json_lines(texts))


def wait_for_running(monkeypatch, collectors):
    """Let a query plan a batch only when it is connected to all of these that run.

    It would go on with those that have answered first, and on a busy machine that may be a part.
    """
    latest = Fleet.latest

    async def later(fleet, start, limit):
        await fleet._ask_who()

        def connected():
            away = {each.at.uri for each in fleet._members if each.client is None}
            return away.isdisjoint(each.uri for each in collectors if each.running)

        await fleet._wait_for(connected)
        return await latest(fleet, start, limit)

    monkeypatch.setattr(Fleet, "latest", later)
