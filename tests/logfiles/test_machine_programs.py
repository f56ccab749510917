"""Random days of the command ``lumberjack ship``: see `tests.logfiles.machine.world`."""

from __future__ import annotations

import os
import random

import pytest
import trio

from tests.kills import kills
from tests.logfiles.machine.programs import Programs, Zygote
from tests.logfiles.machine.world import World

GIVEN = [int(seed) for seed in os.environ.get("SHIPPER_SEEDS", "").split()]
FRESH = random.SystemRandom().randrange(10**9)
AT_ONCE = 8
WORLDS = kills(8)
"""Most of them kill the command once or twice."""


async def live(directory, seeds):
    """Let worlds have their days, several at the same time; return how often they killed."""
    waiting = iter(seeds)
    killed = 0

    async def worker():
        nonlocal killed
        zygote = Zygote()
        try:
            for seed in waiting:
                of_this = await one(directory / str(seed), seed, zygote)
                killed += of_this
        finally:
            zygote.close()

    async with trio.open_nursery() as nursery:
        for _ in range(min(AT_ONCE, len(seeds))):
            nursery.start_soon(worker)
    return killed


async def one(directory, seed, zygote):
    """Let a world have its days; return how often it killed."""
    directory.mkdir()
    async with trio.open_nursery() as nursery:
        runner = Programs(nursery, zygote)
        world = World(directory, seed, runner)
        try:
            await world.run()
        except BaseException as error:  # raised again, with how to repeat it
            if not isinstance(error, trio.Cancelled):
                print(f"SHIPPER_SEEDS={seed}", *world.history, *world.described(), sep="\n  ")
                print(runner.log)
            raise
        finally:
            with trio.CancelScope(shield=True):
                await runner.close()
            world.close()
    return runner.killed


async def test_some_days(tmp_path):
    """Each line arrives, also if a command is killed, or has no descriptors."""
    killed = await live(tmp_path, GIVEN or range(WORLDS))
    print(f"log files to receiver: {killed} kills; each line arrived, but for those that may not")


@pytest.mark.bad_days
@pytest.mark.parametrize("part", range(3))
async def test_bad_days(tmp_path, part):
    """The same for longer, and other days each time."""
    first = FRESH + 100 * part
    print("repeat with SHIPPER_SEEDS=...: the first one is", first)
    await live(tmp_path, GIVEN or range(first, first + 100))
