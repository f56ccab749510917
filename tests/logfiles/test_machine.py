"""Random days of the shipper: see `tests.logfiles.machine.world`."""

from __future__ import annotations

import os

import pytest
import trio

from tests.logfiles.machine.in_memory import InMemory
from tests.logfiles.machine.world import World

SEEDS = [int(seed) for seed in os.environ.get("SHIPPER_SEEDS", "").split()] or range(30)


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_line_arrives(tmp_path, seed, monkeypatch):
    """With its key, whatever happens to the files and to the shipper."""
    async with trio.open_nursery() as nursery:
        world = World(tmp_path, seed, InMemory(nursery, monkeypatch))
        try:
            await world.run()
        except BaseException:  # raised again, with how to repeat it
            print(f"SHIPPER_SEEDS={seed}", *world.history, *world.described(), sep="\n  ")
            raise
        finally:
            world.close()
