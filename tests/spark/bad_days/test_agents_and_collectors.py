"""Agents and collectors are killed before and after the disk and the acknowledgement.

From an agent to a spool no line is lost. A line comes twice only with all others of its window, if
the window was stored and its acknowledgement did not reach the registry of the agent.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .agents import WINDOW, sent
from .programs import until
from .relay import ACK, Relay
from .stored import assert_none_lost, assert_only_whole_windows_again, stored_windows

pytestmark = pytest.mark.programs

COUNT = 3000


def checked(collector, *logs, check=assert_only_whole_windows_again):
    """Compare the spool with what was sent, and return how many lines came again."""
    return check(stored_windows(collector.directory), sent(*logs))


@pytest.mark.bad_days
def test_agent_is_killed_before_the_acknowledgement(scene):
    """Everything that was stored comes again: the agent does not know that it was."""
    collector, log = scene.collector(), scene.log("a", COUNT)
    with Relay(collector.agents, answers=0) as relay:
        agent = scene.agent_to(log, relay.uri)
        collector.wait_head(1)
        agent.kill()
        assert agent.registered() == 0
    again = scene.agent(log, collector).done()
    assert again["lines_acknowledged"] == COUNT
    assert checked(collector, log) == collector.spool().head - COUNT > 0


def test_agent_is_killed_after_acknowledgements(scene):
    """Lines that its registry has do not come again."""
    collector, log = scene.collector(), scene.log("a", COUNT)
    with Relay(collector.agents, answers=3 * ACK) as relay:
        agent = scene.agent_to(log, relay.uri)
        agent.wait_registered()
        # One more window at least is stored, and not acknowledged.
        until(
            lambda: collector.spool().head > log.lines_before(agent.registered()),
            "another window is stored",
        )
        agent.kill()
    known = log.lines_before(agent.registered())
    assert 0 < known < COUNT
    again = scene.agent(log, collector).done()
    assert again["lines_acknowledged"] == COUNT - known
    assert 0 < checked(collector, log, check=assert_none_lost) <= COUNT - known
    lines = [line for window in stored_windows(collector.directory) for line in window.lines]
    assert all(lines.count(line) == 1 for line in log.lines[:known:50])


def test_collector_is_killed_between_disk_and_acknowledgement(scene):
    """The agent sends the windows again that are on the disk."""
    collector, log = scene.collector(), scene.log("a", COUNT)
    with Relay(collector.agents, answers=0) as relay:
        agent = scene.agent_to(log, relay.uri)
        collector.wait_head(1)
        collector.kill()
        stored = collector.spool().head
        relay.cut()  # What it holds is lost.
        relay.allow_all()
        collector.start()
        state = agent.done()
    assert state["reconnects"] >= 1
    assert checked(collector, log) == stored > 0


@pytest.fixture
def synced(tmp_path):
    """Options for a collector of which only synced bytes are left: see tests/spool/synced.c."""
    if not sys.platform.startswith("linux") or shutil.which("cc") is None:
        pytest.skip("needs a C compiler, to see which bytes were synced")
    source = Path(__file__).parents[2] / "spool/synced.c"
    library, directory = tmp_path / "synced.so", tmp_path / "synced"
    directory.mkdir()
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return {"LD_PRELOAD": str(library), "SYNCED": str(directory)}


def lose_power(collector, synced):
    """Kill a collector; everything that was not synced is gone."""
    collector.kill()
    shutil.rmtree(collector.directory)
    skip = shutil.ignore_patterns("*.part")
    shutil.copytree(synced["SYNCED"], collector.directory, ignore=skip)


def test_power_fails_before_the_disk_has_a_window(scene, synced):
    """It was not acknowledged, so the agent still has it; and it comes once."""
    gate = scene.gate("hold")
    gate.open()
    collector = scene.collector(HOLD_SYNC=str(gate.path), **synced)
    log = scene.log("a", COUNT)
    gate.shut()
    agent = scene.agent(log, collector)
    gate.wait()
    assert agent.registered() == 0
    lose_power(collector, synced)
    gate.open()
    collector.start()
    assert collector.spool().head < COUNT
    assert agent.done()["reconnects"] >= 1
    assert checked(collector, log) == 0


@pytest.mark.bad_days
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_collector_dies_again_and_again(scene, request, power):
    """Under load, in the middle of anything, with two agents."""
    synced = request.getfixturevalue("synced") if power else {}
    collector = scene.collector(**synced)
    logs = [scene.log(name, 40_000) for name in ("a", "b")]
    agents = [
        scene.agent(logs[0], collector, options=("--compression-level", "0")),
        scene.agent(logs[1], collector),
    ]
    for turn in range(1, 8):
        collector.wait_head(5_000 * turn)
        if power:
            lose_power(collector, synced)
        else:
            collector.kill()
        collector.start()
    for agent in agents:
        agent.done()
    checked(collector, *logs)


@pytest.mark.bad_days
def test_agent_dies_again_and_again(scene):
    """Its registry says where to go on."""
    collector, log = scene.collector(), scene.log("a", 40_000)
    agent = scene.agent(log, collector)
    for turn in range(1, 8):
        collector.wait_head(4_000 * turn)
        agent.kill()
        agent.start()
    agent.done()
    # Each time, at most the windows that were on the way come again, and the time between an
    # acknowledgement and the file of the registry.
    assert checked(collector, log, check=assert_none_lost) < 7 * 40 * WINDOW
