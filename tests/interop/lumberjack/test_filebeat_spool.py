"""Filebeat ships to a server with a spool: the server is killed; the spool is full."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest
import trio

from rsocket_trio import lumberjack
from rsocket_trio.lumberjack import LumberjackConfig
from rsocket_trio.spool import Batch, open_spool

pytestmark = pytest.mark.interop

LINES = [f"line {number} \u00e4" for number in range(4000)]
SIZES = [0]
for each in LINES:
    SIZES.append(SIZES[-1] + len(each.encode()) + 1)


async def lines_of(spool, start=0):
    """The lines that a spool has from an offset on."""
    found = []
    async for batch in spool.read(start):
        found += [json.loads(event)["message"] for event in batch.data.splitlines()[batch.skip :]]
    return found


@pytest.mark.parametrize("pipelining", [0, 3])
async def test_server_is_killed(programs, installed, filebeat, kept_address, tmp_path, pipelining):
    """The server is killed twice with SIGKILL: Filebeat never takes a line as sent that is lost."""
    directory = tmp_path / "spool"
    program = [sys.executable, str(installed.PY / "spooling_receiver.py"), str(directory)]
    async with trio.open_nursery() as nursery:
        beat = None
        stored = 0
        for stop in (500, 2000, len(LINES)):
            async with programs.running([*program, kept_address]) as receiver:
                kept_address = (await receiver.line()).removeprefix("listening on ")
                if beat is None:
                    beat = filebeat(kept_address, bulk_max_size=100, pipelining=pipelining)
                    beat.write(LINES)
                    await nursery.start(run_until_cancelled, beat)
                while stored < stop:
                    stored = int((await receiver.line()).removeprefix("stored "))
                if stop < len(LINES):
                    await receiver.kill()
                    continue
                with trio.fail_after(20):
                    await beat.wait_registered()
        nursery.cancel_scope.cancel(reason="everything is acknowledged")
    async with open_spool(directory) as spool:
        found = await lines_of(spool)
    assert set(found) == set(LINES)
    # The windows in flight are sent again after each kill.
    assert len(found) <= len(LINES) + 2 * 100 * max(1, pipelining)


async def run_until_cancelled(beat, task_status):
    async with beat.running():
        task_status.started()
        await trio.sleep_forever()


async def test_full_spool(receiving, filebeat, tmp_path):
    """A full spool stops Filebeat for longer than its timeout; each line comes once."""
    async with open_spool(tmp_path / "spool", max_size=256 * 1024) as spool:
        await spool.commit("reader", 0)

        async def store(batch: lumberjack.Batch) -> None:
            await spool.append(Batch(len(batch), b"\n".join(batch.raw), encoding="json-lines"))

        config = LumberjackConfig(keepalive_interval=0.2)
        async with receiving(store, config=config) as server:
            beat = filebeat(*server.uris, bulk_max_size=100, timeout="2s")
            beat.write(LINES)
            async with beat.running():
                with trio.fail_after(20):
                    while not spool.full:
                        await trio.sleep(0.02)
                await trio.sleep(3)
                assert spool.full
                assert 0 < spool.head < len(LINES)
                # Filebeat was told of the stored lines only.
                assert 0 < beat.registered()["a.log"] <= SIZES[spool.head]
                found = []
                with trio.fail_after(20):
                    while len(found) < len(LINES):
                        found += await lines_of(spool, len(found))
                        await spool.commit("reader", len(found))
                        await trio.sleep(0.01)
                    await beat.wait_registered()
            assert server.statistics().accepted == 1
    assert Counter(found) == Counter(LINES)
