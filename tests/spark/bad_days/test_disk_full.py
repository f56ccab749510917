"""The disk of a collector is full, or its files cannot grow: agents wait, and nothing is lost."""

from __future__ import annotations

import json
import sys

import pytest
import trio

from rsocket_trio.collector import connect_collector
from rsocket_trio.lumberjack import stored_events
from tests.small_disk import on_small_disk

from .agents import sent
from .arrived import assert_each_line_once, file_sink
from .programs import rsocket_trio, until
from .scene import lumberjack

pytestmark = pytest.mark.programs

COUNT = 20_000
PLAIN = ("--compression-level", "0")


def wait_trouble(collector):
    """Wait until the log of the collector says that it cannot write."""
    until(
        lambda: "cannot be written now" in collector.program.errors,
        "the collector says that it cannot write",
        details=lambda: collector.program.errors,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prlimit is Linux's")
def test_files_cannot_grow(scene):
    """The kernel refuses to write; when it allows it again, the collector goes on by itself."""
    import resource

    collector, log = scene.collector(), scene.log("a", COUNT)
    before = resource.prlimit(collector.program.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.program.process.pid, resource.RLIMIT_FSIZE, (2**20, before[1]))
    agent = scene.agent(log, collector, options=PLAIN)
    wait_trouble(collector)
    assert agent.program.process.poll() is None
    assert agent.registered() <= sum(map(len_of, log.lines[: collector.spool().head]))
    resource.prlimit(collector.program.process.pid, resource.RLIMIT_FSIZE, before)
    state = agent.done()
    assert state["events_resent"] == 0
    assert collector.spool().head == COUNT


def len_of(line):
    return len(line.encode()) + 1


@pytest.fixture
def small_disk(scene):
    """A gate, a directory, and a command that runs another one where the directory is a disk.

    The disk has forty megabytes. While the gate is shut, another file takes all but four of them.
    """
    where, gate = scene.directory / "disk", scene.gate("other-file")
    fill = f"head -c 36m /dev/zero > {where}/other"
    give_up = f"while [ -e {gate.path} ]; do sleep 0.05; done; rm {where}/other"
    return gate, where, on_small_disk(where, "40m", fill, f"{{ ({give_up}) & }}")


@pytest.mark.bad_days
def test_no_space_is_left(scene, application, small_disk):
    """ENOSPC: nothing is acknowledged that is not stored, and nothing is lost.

    When there is space again, the collector and the agents go on by themselves.
    """
    gate, where, prefix = small_disk
    collector = scene.collector_of([*prefix, *rsocket_trio("collect", "--spool", f"{where}/spool")])
    log = scene.log("a", COUNT)
    agent = scene.agent(log, collector, options=PLAIN)
    wait_trouble(collector)
    assert agent.program.process.poll() is None
    assert agent.registered() < log.path.stat().st_size
    gate.open()
    state = agent.done()
    assert state["reconnects"] == 0
    application.start([lumberjack(collector)], scene.file_sink(), scene.checkpoint).done()
    assert_each_line_once(file_sink(scene.sink), sent(log))


def test_readers_make_room(scene, tmp_path):
    """The last block is taken: nothing but a reader commits, and all of it goes on by itself.

    Reads, the status and the connection of the agent work meanwhile.
    """
    where = tmp_path / "disk"
    prefix = on_small_disk(where, "8m")
    collector = scene.collector_of([*prefix, *rsocket_trio("collect", "--spool", f"{where}/spool")])
    log = scene.log("a", 80_000)
    assert log.path.stat().st_size > 5 * 2**20, "and each line has a name and an offset, too"
    agent = scene.agent(log, collector, options=PLAIN)
    wait_trouble(collector)
    lines = trio.run(read_all, collector.readers, agent, len(log.lines))
    state = agent.done()
    assert (state["events_resent"], state["reconnects"]) == (0, 0)
    assert lines == log.lines
    errors = collector.program.errors
    assert 1 <= errors.count("cannot be written now") <= 20
    assert "can be written again" in errors
    assert collector.program.stop() == 0


async def read_all(uri, agent, count):
    """Read and commit until there are so many lines. They must not come all before a commit."""
    lines = []
    async with connect_collector(uri) as client:
        info = await client.info()
        assert info.trouble is not None
        assert 0 < info.head < count
        await trio.sleep(1)
        assert agent.program.process.poll() is None
        assert (await client.statistics()).connections >= 2
        at = 0
        while len(lines) < count:
            info = await client.info()
            with trio.fail_after(20):
                async with client.read(at, info.head, spool_id=info.spool_id) as batches:
                    async for batch in batches:
                        lines += [json.loads(each)["message"] for each in stored_events(batch).raw]
                        at = batch.stop
                await client.commit("reader", at, instance="a", spool_id=info.spool_id)
            assert len(lines) == at
        # Batches are deleted in steps, so the last of them go behind the answer to the commit.
        with trio.fail_after(20):
            while (info := await client.info()).trouble is not None or info.oldest < count:
                await trio.sleep(0.05)
        assert (info.oldest, info.head, info.positions) == (count, count, {"reader": count})
    return lines
