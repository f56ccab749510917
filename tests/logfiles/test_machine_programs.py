"""Random days of the command ``lumberjack ship``: see `tests.logfiles.machine.world`."""

from __future__ import annotations

import os
import random

import pytest
import trio

from tests.logfiles.machine.programs import Programs, Zygote
from tests.logfiles.machine.world import World

GIVEN = [int(seed) for seed in os.environ.get("SHIPPER_SEEDS", "").split()]
FRESH = random.SystemRandom().randrange(10**9)
AT_ONCE = 8


async def live(directory, seeds):
    """Let worlds have their days, several at the same time."""
    waiting = iter(seeds)

    async def worker():
        zygote = Zygote()
        try:
            for seed in waiting:
                await one(directory / str(seed), seed, zygote)
        finally:
            zygote.close()

    async with trio.open_nursery() as nursery:
        for _ in range(min(AT_ONCE, len(seeds))):
            nursery.start_soon(worker)


async def one(directory, seed, zygote):
    directory.mkdir()
    async with trio.open_nursery() as nursery:
        runner = Programs(nursery, zygote)
        world = World(directory, seed, runner)
        try:
            await world.run()
        except BaseException as error:
            if not isinstance(error, trio.Cancelled):
                print(f"SHIPPER_SEEDS={seed}", *world.history, *world.described(), sep="\n  ")
                print(runner.log)
            raise
        finally:
            with trio.CancelScope(shield=True):
                await runner.close()
            world.close()


async def test_some_days(tmp_path):
    """Each line arrives, also if a command is killed, or has no descriptors."""
    await live(tmp_path, GIVEN or range(8))


@pytest.mark.bad_days
@pytest.mark.parametrize("part", range(3))
async def test_bad_days(tmp_path, part):
    """The same for longer, and other days each time."""
    first = FRESH + 100 * part
    print("repeat with SHIPPER_SEEDS=...: the first one is", first)
    await live(tmp_path, GIVEN or range(first, first + 100))
