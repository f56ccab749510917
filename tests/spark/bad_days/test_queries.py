"""Queries that share a spool, that are started again, and that run without anything to do."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest

from .agents import sent
from .arrived import assert_each_line_once, assert_no_line_lost, file_sink
from .programs import until
from .scene import embedded, lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.programs


def batches(scene):
    return sorted(int(each.name) for each in (scene.checkpoint / "commits").glob("[0-9]*"))


def test_union_of_two_reads(scene, application, port):
    """Two readers of one query want the same port: one listens, and both read everything."""
    log = scene.log("a", 3000)
    source = embedded(scene, port)
    query = application.start(
        [source, source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE
    )
    state = scene.agent_to(log, f"lumberjack://127.0.0.1:{port}").done()
    assert state["events_resent"] == 0
    until(lambda: query.position() == 2 * log.count, "both have read", details=query.state)
    query.stop()
    rows = Counter(file_sink(scene.sink))
    assert set(rows.values()) == {2}
    assert_each_line_once(rows, sent(log))


@pytest.mark.bad_days
def test_the_same_port_after_a_stop(scene, application, port):
    """The agent finds the next query, which goes on where the last one was."""
    log = scene.log("a", 0)
    agent = scene.agent_to(log, f"lumberjack://127.0.0.1:{port}", options=("--follow",))
    for _ in range(3):
        query = application.start(
            [embedded(scene, port)], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE
        )
        before = log.count
        log.write(5000)
        # Some windows are on the way when the query ends.
        until(
            lambda query=query, before=before: query.position() > before,
            "the query reads",
            details=lambda query=query: (query.state(), agent.program.errors),
        )
        query.stop()
    query = application.start(
        [embedded(scene, port)], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE
    )
    agent.wait_registered(log.path.stat().st_size)
    query.stop()
    application.start([embedded(scene, port)], scene.file_sink(), scene.checkpoint).done()
    assert_no_line_lost(file_sink(scene.sink), sent(log))


@pytest.mark.bad_days
def test_two_queries_of_one_spool(scene, application, port):
    """One of them has the collector. The other one takes it over when the first one ends."""
    first, second = scene.log("a", 2000), scene.log("b", 2000)
    queries = []
    for name in ("one", "two"):
        sink = {"format": "json", "path": str(scene.directory / f"sink-{name}")}
        checkpoint = scene.directory / f"checkpoint-{name}"
        source = embedded(scene, port, consumer=name)
        queries.append(application.start([source], sink, checkpoint, trigger=AT_ONCE))
    target = f"lumberjack://127.0.0.1:{port}"
    scene.agent_to(first, target).done()
    for query in queries:
        until(lambda query=query: query.position() == 2000, "both read", details=query.state)
    queries[0].stop()
    scene.agent_to(second, target).done()
    until(lambda: queries[1].position() == 4000, "the other reads on", details=queries[1].state)
    queries[1].stop()
    assert_each_line_once(file_sink(scene.directory / "sink-one"), sent(first))
    assert_each_line_once(file_sink(scene.directory / "sink-two"), sent(first, second))


@pytest.mark.bad_days
def test_available_now_again_and_again(scene, application):
    """Each run takes what is new. A run without anything new makes no batch."""
    collector, logs = scene.collector(), []
    for turn in range(3):
        logs.append(scene.log(f"file{turn}", 700))
        scene.agent(logs[-1], collector).done()
        source = lumberjack(collector, maxRowsPerTrigger=500)
        application.start([source], scene.file_sink(), scene.checkpoint).done()
        assert_each_line_once(file_sink(scene.sink), sent(*logs))
        made = batches(scene)
        application.start([source], scene.file_sink(), scene.checkpoint).done()
        assert batches(scene) == made


@pytest.mark.bad_days
def test_an_idle_query_makes_no_batches(scene, application):
    """Spark compares offsets as texts: with several collectors, their order must not change."""
    collectors = [scene.collector(f"spool-{name}") for name in "abc"]
    logs = [scene.log(name, 300) for name in "abc"]
    for log, collector in zip(logs, collectors, strict=True):
        scene.agent(log, collector).done()
    source = lumberjack(*collectors, pollTimeoutMs=20)
    query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
    until(lambda: query.position() == 900, "everything is read", details=query.state)
    made = batches(scene)
    # Spark asks some hundred times now.
    time.sleep(3)
    assert batches(scene) == made
    query.stop()
    assert_each_line_once(file_sink(scene.sink), sent(*logs))
    for path in (scene.checkpoint / "offsets").glob("[0-9]*"):
        offsets = json.loads(path.read_text().splitlines()[2])
        text = json.dumps(offsets, sort_keys=True)
        assert json.dumps(offsets) == text
