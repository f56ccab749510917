"""A collector cannot be reached for some time: no event is lost, and none comes twice."""

from __future__ import annotations

import pytest

from .agents import sent
from .arrived import assert_each_line_once, assert_no_line_lost, file_sink
from .programs import until
from .relay import Relay
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = [pytest.mark.programs, pytest.mark.bad_days]

COUNT = 6000

A_PART = 20_000
"""Bytes of answers: some windows of COUNT lines, and not all."""


def test_for_longer_than_all_timeouts(scene, application):
    """The events of the other collector are read all the time. The agent and the query come back.

    The machine of a collector hangs, with all connections open. The query notices it after
    ``max_lifetime`` (20 s), and then an attempt to connect must end (15 s), until there is a line
    in the log. The agent waits for 30 s.
    """
    one, two = scene.collector("one"), scene.collector("two")
    steady, held = scene.log("steady", 500), scene.log("held", 500)
    follow = ("--follow", "--poll", "0.05")
    agents = [scene.agent(steady, one, options=follow), scene.agent(held, two, options=follow)]
    source = lumberjack(one, two, collectorTimeoutMs=10_000)
    query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
    until(lambda: query.position() == 1000, "both are read", details=query.state)
    two.program.pause()
    held.write(500)

    def all_have_noticed():
        steady.write(10)
        until(
            lambda: query.position() == 500 + steady.count,
            "the events of the other collector are read",
            details=query.state,
        )
        warned = f"{two.readers}: the collector cannot be reached since" in query.errors
        return warned and "(ack_timeout)" in agents[1].program.errors

    until(all_have_noticed, "the query and the agent notice", details=lambda: query.errors[-2000:])
    two.program.resume()
    held.write(500)
    for agent in agents:
        agent.wait_registered(agent.log.path.stat().st_size)
    stored = one.spool().head + two.spool().head
    until(lambda: query.position() == stored, "both are read again", details=query.state)
    query.stop()
    rows = file_sink(scene.sink)
    # The collector that hung can have windows twice: it reads what the kernel has kept, and the
    # agent has sent them again.
    assert_no_line_lost(rows, sent(steady, held))
    assert len(rows) == stored
    steady_rows = [row for row in rows if row.collector == one.spool().spool_id]
    assert_each_line_once(steady_rows, sent(steady))


def break_a_read(scene, relay, collector, query):
    """Ship lines to a collector behind a relay, and end the network when some of them were read."""
    # The query must find all of them at once: one task reads them, and gets only a part.
    relay.silence()
    log = scene.ship("broken", collector, COUNT)
    relay.limit_new(A_PART)
    relay.end_silence()
    until(relay.used_up, "a task reads", details=query.state)
    relay.silence()
    return log


@pytest.fixture
def network(scene):
    """A relay, and the collector behind it."""
    collector = scene.collector("behind")
    with Relay(collector.readers) as relay:
        yield relay, collector


def test_in_the_middle_of_a_read(scene, application, network):
    """The network is gone for longer than a task waits: Spark starts the task again."""
    (one, first), (relay, two) = scene.filled("a", COUNT), network
    source = lumberjack(one, relay, collectorTimeoutMs=5000)
    query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
    until(lambda: query.position() == COUNT, "one collector is read", details=query.state)
    second = break_a_read(scene, relay, two, query)
    before = relay.connections
    until(lambda: relay.connections > before, "a task tries again", details=query.state)
    relay.allow_all()
    third = scene.ship("c", one, COUNT)
    until(lambda: query.position() == 3 * COUNT, "all is read", details=query.state)
    query.stop()
    assert_each_line_once(file_sink(scene.sink), sent(first, second, third))


def test_for_longer_than_all_attempts_of_a_task(scene, application, network):
    """The query fails with the address. It fails again while the unfinished batch cannot be read.

    The batch is in Spark's log, so no other events can come before it. When the network is back,
    the query goes on exactly there.
    """
    (one, first), (relay, two) = scene.filled("a", COUNT), network
    second = scene.ship("b", two, COUNT)
    short = lumberjack(one, relay, collectorTimeoutMs=3000)
    query = application.start([short], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
    until(lambda: query.position() == 2 * COUNT, "both are read", details=query.state)
    third = break_a_read(scene, relay, two, query)
    error = query.failed()
    assert f"{relay.uri}: no event of the spool {two.spool().spool_id} from offset" in error
    fourth = scene.ship("d", one, COUNT)
    query = application.start([short], scene.file_sink(), scene.checkpoint)
    assert f"{relay.uri} cannot be reached" in query.failed()
    assert_each_line_once(file_sink(scene.sink), sent(first, second))
    relay.allow_all()
    source = lumberjack(one, relay)
    application.start([source], scene.file_sink(), scene.checkpoint).done()
    assert_each_line_once(file_sink(scene.sink), sent(first, second, third, fourth))
