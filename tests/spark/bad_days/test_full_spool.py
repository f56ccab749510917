"""The spool is full: agents wait, for longer than their timeouts, and no agent is disconnected."""

from __future__ import annotations

import json
import time

import pytest

from .agents import sent
from .arrived import assert_each_line_once, file_sink
from .programs import until
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.programs

SMALL = ("--max-size", "1M")
PLAIN = ("--compression-level", "0")
"""Events take as many bytes in the spool as on the wire."""

COUNT = 9_000
"""Lines of about 270 bytes: more than twice what the spool may hold."""


def is_full(collector, agent):
    """Wait until the spool takes nothing more, and return how many events it has taken."""
    seen: list[int] = []

    def takes_nothing():
        spool = collector.spool()
        seen.append(spool.head)
        # There is no room for another window, and for a second none is stored.
        return spool.size > 2**20 - 40_000 and len(seen) > 50 and seen[-1] == seen[-50]

    until(takes_nothing, "the spool is full", details=lambda: (collector.spool(), seen[-5:]))
    assert agent.program.process.poll() is None
    assert collector.spool().size <= 2**20
    return seen[-1]


def test_a_batch_that_takes_the_whole_spool(scene, application):
    """The query goes on: it tells the collector what it has at the begin of the next batch."""
    collector, log = scene.collector("spool", *SMALL), scene.log("a", COUNT)
    agent = scene.agent(log, collector, options=PLAIN)
    head = is_full(collector, agent)
    query = application.start(
        [lumberjack(collector)], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE
    )
    state = agent.done()
    until(lambda: query.position() == COUNT, "all events are read")
    query.stop()
    assert state["reconnects"] == 0
    rows = file_sink(scene.sink)
    assert_each_line_once(rows, sent(log))
    ends = [
        json.loads(each.read_text().splitlines()[2])
        for each in (scene.checkpoint / "offsets").glob("[0-9]*")
    ]
    assert [head] in [list(end["s"].values()) for end in ends], "a batch took the whole spool"


@pytest.mark.bad_days
def test_available_now_with_a_full_spool(scene, application):
    """Each run takes what is there, and makes room for the next.

    The collector counts the reader of a run for ten seconds after its end, so this takes a while.
    """
    collector, log = scene.collector("spool", *SMALL), scene.log("a", COUNT)
    agent = scene.agent(log, collector, options=PLAIN)
    is_full(collector, agent)

    def runs_until_the_agent_has_ended():
        application.start([lumberjack(collector)], scene.file_sink(), scene.checkpoint).done()
        return agent.program.process.poll() is not None

    until(runs_until_the_agent_has_ended, "the agent ends", seconds=120, details=collector.spool)
    assert agent.done()["reconnects"] == 0
    application.start([lumberjack(collector)], scene.file_sink(), scene.checkpoint).done()
    assert_each_line_once(file_sink(scene.sink), sent(log))


@pytest.mark.bad_days
def test_for_longer_than_the_timeout_of_agents(scene, application, filebeat):
    """Keep-alives hold both agents: `lumberjack ship` waits 30 s, and this Filebeat 8 s."""
    collector, log = scene.collector("spool", *SMALL), scene.log("a", COUNT)
    agent = scene.agent(log, collector, options=PLAIN)
    beat = filebeat("beat", COUNT, collector.agents, timeout="8s", compression_level=0)
    head = is_full(collector, agent)
    # This is the time that the test is about, not a wait for something.
    time.sleep(35)
    assert collector.spool().head == head
    assert agent.registered() < agent.log.path.stat().st_size
    query = application.start(
        [lumberjack(collector)], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE
    )
    assert agent.done()["reconnects"] == 0
    beat.wait_registered()
    assert "i/o timeout" not in beat.errors
    assert "Failed to publish" not in beat.errors
    until(lambda: query.position() == 2 * COUNT, "all events are read")
    query.stop()
    assert_each_line_once(file_sink(scene.sink), sent(log, beat.log))
