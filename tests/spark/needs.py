"""A model of two streams of one consumer and two collectors, which come and go: `Scene`.

It knows who may still ask for what. No collector may have deleted that, and no stream may have rows
that are not the events of its spools; a spool that was lost or restored from a copy is said, and
never passed over.
"""

from __future__ import annotations

import json
import shutil
import time
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol

from rsocket_trio.spark.spool_source import CollectorsUnreachable, DataLost
from rsocket_trio.spool import describe_spool
from tests.spark.collectors import LocalCollector
from tests.spark.engine import Crash

__all__ = ["Engine", "Scene"]


class Engine(Protocol):
    """Spark, or what the tests have in its place."""

    def checkpoint(self) -> Any:
        """A new one, with ``offsets``, ``committed`` and ``rows`` as of `engine.Checkpoint`."""

    def start(self, options: dict[str, str], checkpoint: Any) -> Any:
        """Start a query, with ``trigger`` and ``stop`` as of `engine.Query`.

        An error ends it.
        """


class Spool:
    """A collector, and what the model knows of its spool: a number for each event."""

    shipped = 0

    def __init__(self, directory):
        self.collector = LocalCollector(directory)
        self.history = []
        self.copied = None
        self.losses = 0

    def ship(self, count):
        self.collector.numbers = Spool.shipped
        self.collector.ship(count)
        self.history += range(Spool.shipped, Spool.shipped + count)
        Spool.shipped += count

    def up(self):
        if not self.collector.running:
            self.collector.start()

    def down(self):
        if self.collector.running:
            self.collector.stop()

    @property
    def copy_directory(self):
        return Path(f"{self.collector.directory}.copy")

    def copy(self):
        self.down()
        shutil.rmtree(self.copy_directory, ignore_errors=True)
        shutil.copytree(self.collector.directory, self.copy_directory)
        self.copied = list(self.history)
        self.up()

    def restore(self):
        if self.copied is None:
            return
        self.down()
        shutil.rmtree(self.collector.directory)
        shutil.copytree(self.copy_directory, self.collector.directory)
        if self.copied != self.history:
            self.losses += 1
        self.history = list(self.copied)
        self.up()

    def replace(self):
        self.down()
        shutil.rmtree(self.collector.directory)
        self.losses += 1
        self.history = []
        self.up()


class Stream:
    """One stream of the consumer, with a checkpoint."""

    def __init__(self, scene, options):
        self.scene = scene
        self.options = options
        self.said = []
        self.begin()

    @property
    def list(self):
        """The file with the addresses of its collectors."""
        return self.scene.directory / f"collectors{self.scene.streams.index(self)}"

    def name(self):
        """Say which collectors there are: in a file, also while the query runs."""
        if self.scene.listed:
            new = self.list.with_suffix(".new")
            new.write_text("".join(f"{each.collector.uri}\n" for each in self.spools))
            new.replace(self.list)
        else:
            self.end()

    def begin(self):
        """Be a new stream, which knows nothing."""
        self.checkpoint = self.scene.engine.checkpoint()
        self.query = None
        self.wide = False  # whether it reads from both collectors
        self.dropped = False  # whether the operator has forgotten it, and it comes back
        self.losses = [each.losses for each in self.scene.spools]

    @property
    def offsets(self):
        """The offsets that Spark may give it next."""
        log = self.checkpoint.offsets
        repeats = len(log) > self.checkpoint.committed
        known = log[:-1] if repeats else log
        return json.loads(known[-1]) if known else {"s": {}}

    @property
    def spools(self):
        """Those that it reads."""
        return self.scene.spools if self.wide else self.scene.spools[:1]

    @property
    def unserved(self):
        """The spools in its offsets that none of its collectors has."""
        return self.offsets["s"].keys() - {each.collector.spool_id for each in self.spools}

    def start(self):
        if self.query is None:
            uris = ",".join(each.collector.uri for each in self.spools)
            if self.scene.listed:
                self.name()
                uris = f"file:{self.list}"
            options = self.options | {"collectors": uris}
            self.query = self.scene.engine.start(options, self.checkpoint)

    def end(self):
        if self.query is not None:
            self.query.stop(handler=True)
            self.query = None

    def forget(self):
        """It does not come back, and the operator says so. A new one takes its place."""
        self.end()
        name = self.offsets.get("i")
        for spool in self.scene.spools:
            spool.up()
            if name is not None:
                spool.collector.thread.run(forget, spool.collector.spool, name)
        self.begin()

    def trigger(self, crash=None):
        """Run a batch. A loss is said only if there was one; then a new stream takes its place."""
        lost = ""
        try:
            self.start()
            self.query.trigger(crash=crash)
        except (Crash, CollectorsUnreachable):
            self.end()
        except DataLost as error:
            lost = str(error)
        if lost:
            losses = [each.losses for each in self.scene.spools]
            is_gone = self.unserved and not self.scene.listed
            assert self.losses != losses or is_gone, lost
            self.said.append(lost)
            self.forget()


async def forget(spool, name):
    await spool.forget("spark", instance=name)


class Scene:
    """Two spools and two streams.

    Args:
        directory: For the spools.
        options: Of the queries.
        engine: What runs them.
        listed: Whether the collectors are in files, which change while the streams run.
    """

    def __init__(self, directory, options, engine, *, listed=False):
        self.engine = engine
        self.directory = Path(directory)
        self.listed = listed
        self.spools = [Spool(Path(directory) / f"spool{n}") for n in range(2)]
        given = {"pollTimeoutMs": "0", "collectorTimeoutMs": "3000", **options}
        self.streams = [Stream(self, given) for _ in range(2)]

    def take(self, step, number, *details):
        spool, stream = self.spools[number], self.streams[number]
        match step:
            case "ship":
                spool.up()
                spool.ship(*details)
            case "trigger":
                stream.trigger()
            case "crash":
                stream.trigger(*details)
            case "end":
                stream.end()
            case "forget":
                stream.forget()
            case "drop":  # not by its own will
                spool.collector.thread.run(forget, spool.collector.spool, stream.offsets["i"])
                stream.dropped = True
                spool.losses += 1
            case "twin":  # it takes the checkpoint of the other stream
                stream.end()
                stream.checkpoint = deepcopy(self.streams[1 - number].checkpoint)
                stream.dropped = True
                spool.losses += 1
            case "add" | "remove":
                stream.wide = step == "add"
                stream.name()
            case "away":
                spool.down()
            case "restart":
                spool.down()
                spool.up()
            case "copy":
                spool.copy()
            case "restore":
                spool.restore()
            case "replace":
                spool.replace()
        self.check()

    def check(self):
        for spool in self.spools:
            found = describe_spool(spool.collector.directory)
            for number, stream in enumerate(self.streams):
                needed = stream.offsets["s"].get(found.spool_id)
                if needed is not None and needed <= found.head and not stream.dropped:
                    assert found.oldest <= needed, f"stream {number} may still ask for it"

    def check_rows(self, *, final):
        for spool in self.spools:
            spool_id = spool.collector.spool_id
            for stream in self.streams:
                rows = [row for row in stream.checkpoint.rows if row["_collector"] == spool_id]
                first = rows[0]["_offset"] if rows else 0
                offsets = list(range(first, first + len(rows)))
                assert [row["_offset"] for row in rows] == offsets
                assert [row["n"] for row in rows] == [spool.history[each] for each in offsets]
                if final and spool in stream.spools:
                    assert not rows or offsets[-1] == len(spool.history) - 1

    def finish(self):
        """Let each stream read all that there is."""
        for spool in self.spools:
            spool.up()
            spool.ship(1)
        for stream in self.streams:
            if self.listed:  # What was removed was not given up.
                stream.wide = True
                stream.name()
            patience = time.monotonic() + 30  # a collector that was away is dialled every 2 seconds
            while True:
                stream.trigger()
                ends = {each.collector.spool_id: len(each.history) for each in stream.spools}
                places = stream.offsets["s"]
                if self.listed:  # It also keeps the places of spools that are gone.
                    places = {each: places.get(each) for each in ends}
                if ends == places:
                    break
                if time.monotonic() > patience:
                    raise AssertionError((ends, stream.checkpoint.offsets))
                time.sleep(0.02)
        self.check_rows(final=True)
        found = describe_spool(self.spools[0].collector.directory)
        self.names = [each.name for each in found.instances]

    def close(self):
        for stream in self.streams:
            stream.end()
        for spool in self.spools:
            spool.down()
