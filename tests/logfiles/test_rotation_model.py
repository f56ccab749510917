"""Random writes, rotations, truncations and restarts: every line arrives, with the right offset."""

from __future__ import annotations

import os
import random

import pytest
import trio

from rsocket_trio.logfiles import Registry
from tests.logfiles.shipping import Receiver, looked, shipment_of

ROUNDS = 25


class World:
    """A directory of logs, the shipper that reads it, and what must arrive.

    Attributes:
        expected: The offset of each line that was written, by its text. No two are equal.
    """

    def __init__(self, directory, rng, source):
        self.directory = directory
        self.file = directory / "app.log"
        self.rng = rng
        self.source = source
        self.receiver = Receiver(jitter=rng.random())
        self.expected = {}
        self.unfinished = ""
        self.number = 0
        self.shipment = None
        self.registry_after = lambda: None

    async def run(self, steps):
        for step in steps:
            async with trio.open_nursery() as nursery:
                await self.start(nursery)
                for _ in range(steps_of(self.rng)):
                    await getattr(self, self.rng.choice(ALONE))()
                await getattr(self, step)(nursery)
            self.registry_after()
            self.registry_after = lambda: None
            for _ in range(self.rng.randrange(3)):
                await getattr(self, self.rng.choice(self.while_down()))()
        async with trio.open_nursery() as nursery:
            await self.start(nursery)
            if self.unfinished:
                await self.write()
            await self.arrived()
            await self.stop(nursery)

    def while_down(self):
        # A file that was never seen can be found later only if the pattern has its new name.
        return ["write", "rename"] if self.source.endswith("*") else ["write"]

    async def start(self, nursery):
        registry = Registry(self.directory / "registry")
        self.shipment = shipment_of(
            self.directory, self.receiver, self.source, registry=registry, max_events=5
        )

        async def run():
            try:
                await self.shipment.run()
            finally:
                registry.close()

        nursery.start_soon(run)
        # A first look, so that a path that is renamed next was seen.
        await looked(self.shipment, 1)

    # What happens while the shipper runs, or not.

    async def write(self):
        with self.file.open("a") as out:
            for _ in range(self.rng.randrange(1, 12)):
                self.number += 1
                line = f"{self.unfinished}{self.number} " + "x" * self.rng.randrange(30)
                self.expected[line] = out.tell() - len(self.unfinished)
                out.write(line[len(self.unfinished) :] + "\n")
                out.flush()
                self.unfinished = ""

    async def begin_a_line(self):
        if not self.unfinished:
            self.number += 1
            self.unfinished = f"{self.number} begins "
            with self.file.open("a") as out:
                out.write(self.unfinished)

    async def pause(self):
        await trio.sleep(self.rng.random() * 0.01)

    async def seen(self):
        await looked(self.shipment)

    async def rename(self):
        if self.unfinished:
            await self.write()
        if self.file.exists():
            for number in range(9, 0, -1):
                old = self.directory / f"app.log.{number}"
                if old.exists():
                    old.rename(self.directory / f"app.log.{number + 1}")
            self.file.rename(self.directory / "app.log.1")
        if self.rng.random() < 0.7:
            await self.write()

    async def rename_and_look(self):
        # A path alone does not name a file that is renamed between two looks.
        await self.write()
        await looked(self.shipment)
        await self.rename()
        await looked(self.shipment)

    async def truncate(self):
        # Lines that are not read yet are lost by copytruncate, with every shipper.
        if self.unfinished:
            await self.write()
        await self.arrived()
        if self.file.exists():
            os.truncate(self.file, 0)
        await self.write()

    async def delete(self):
        if self.unfinished:
            await self.write()
        await self.arrived()
        for path in self.directory.glob("app.log*"):
            path.unlink()
        await self.write()

    async def arrived(self):
        await self.receiver.until(lambda r: self.expected.keys() <= set(r.messages))

    # How the shipper ends.

    async def stop(self, nursery):
        self.shipment.stop(5)

    async def stop_at_once(self, nursery):
        self.shipment.stop(0)

    async def crash(self, nursery):
        """The registry is as it was at some moment before, and nothing is written at the end."""
        await self.pause()
        registry = self.directory / "registry"
        kept = registry.read_bytes() if registry.exists() else None
        await self.pause()
        nursery.cancel_scope.cancel()
        self.registry_after = lambda: (
            registry.unlink(missing_ok=True) if kept is None else registry.write_bytes(kept)
        )


ALONE = ["write", "write", "begin_a_line", "pause", "seen", "rename_and_look", "truncate", "delete"]


def steps_of(rng):
    return rng.randrange(1, 6)


@pytest.mark.parametrize("source", ["app.log", "app.log*"])
@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_every_line_arrives(tmp_path, source, seed):
    """At least once, with its offset, also if the shipper is stopped or crashes in between.

    And whatever comes with one identity and one offset is one line.
    """
    rng = random.Random(seed)
    world = World(tmp_path, rng, source)
    with trio.fail_after(30):
        await world.run(rng.choices(["stop", "stop_at_once", "crash"], k=rng.randrange(4)))
    lines = {}
    for event in world.receiver.seen:
        key = event["log"]["file"]["id"], event["log"]["offset"]
        assert lines.setdefault(key, event["message"]) == event["message"]
    for event in world.receiver.events:
        message = event["message"]
        assert message in world.expected, "a line was torn"
        assert event["log"]["offset"] == world.expected[message]
        assert event["log"]["file"]["path"].startswith(str(world.file))
