"""Reads that end early, wait for nothing, or are slow: request_n stays in force all the way."""

from __future__ import annotations

import pytest

from .agents import sent
from .arrived import assert_each_line_once, row_of
from .programs import until
from .responders import Publisher
from .scene import lumberjack
from .spark_app import AT_ONCE, ApplicationError

pytestmark = pytest.mark.programs

COUNT = 40_000


@pytest.fixture
def publisher():
    """A publisher of COUNT kilobytes."""
    with Publisher(COUNT) as publisher:
        yield publisher


def rsocket(publisher, route, **options):
    """Arguments for a read of its streams."""
    return {"format": "rsocket", "options": {"uri": publisher.uri, "route": route, **options}}


@pytest.mark.bad_days
def test_a_slow_consumer(scene, application, publisher):
    """Nothing is requested that is not read: the publisher waits with the consumer."""
    gate = scene.gate()
    number = application.begin(
        "collect",
        **rsocket(publisher, "numbers", payloadFormat="utf8"),
        gate=str(gate.path),
        column="data",
        keep=20,
    )
    gate.wait()
    seen = []

    def stands_still():
        seen.append(publisher.emitted)
        return len(seen) > 50 and seen[-1] == seen[-50]

    until(stands_still, "the publisher waits", details=lambda: seen[-5:])
    assert seen[-1] < COUNT // 2
    gate.open()
    rows = application.answer(number)
    assert [int(row["data"][len('{"number": ') :].partition(",")[0]) for row in rows] == list(
        range(COUNT)
    )
    assert publisher.emitted == COUNT


def test_limit(application, publisher):
    """The stream is cancelled when Spark has enough rows."""
    rows = application.ask(
        "collect", **rsocket(publisher, "numbers", payloadFormat="utf8"), limit=10
    )
    assert len(rows) == 10
    until(lambda: publisher.open == 0, "the stream is cancelled")
    assert publisher.emitted < COUNT


def test_a_job_is_cancelled_that_waits_for_an_idle_publisher(application, publisher):
    """The stream is cancelled too, and the next read works."""
    number = application.begin(
        "collect", **rsocket(publisher, "idle", payloadFormat="utf8"), group="idle"
    )
    until(lambda: publisher.open == 1, "the stream is open")
    application.ask("cancel", group="idle")
    with pytest.raises(ApplicationError, match="cancelled"):
        application.answer(number)
    until(lambda: publisher.open == 0, "the stream is cancelled")
    test_limit(application, publisher)


@pytest.mark.bad_days
def test_an_idle_publisher(application, publisher):
    """The time of ``timeoutMs`` ends the read, with an error that names the address."""
    options = rsocket(publisher, "idle", payloadFormat="utf8", timeoutMs="1500")
    with pytest.raises(ApplicationError, match=publisher.uri):
        application.ask("collect", **options)
    until(lambda: publisher.open == 0, "the stream is cancelled")


@pytest.mark.bad_days
def test_limit_and_cancel_of_a_spool(scene, application):
    """Both leave the collector as it was: a whole read follows."""
    collector, log = scene.collector(), scene.log("a", 6000)
    scene.agent(log, collector).done()
    source = lumberjack(collector)
    assert len(application.ask("collect", **source, limit=7)) == 7
    gate = scene.gate()
    number = application.begin("collect", **source, gate=str(gate.path), group="spool")
    gate.wait()
    application.ask("cancel", group="spool")
    with pytest.raises(ApplicationError, match="cancelled"):
        application.answer(number)
    gate.open()
    rows = [row_of(row) for row in application.ask("collect", **source)]
    assert_each_line_once(rows, sent(log))


@pytest.mark.bad_days
def test_an_idle_stream_is_stopped(scene, application):
    """At once, also while the source waits for events."""
    collector = scene.collector()
    source = lumberjack(collector, pollTimeoutMs=60_000)
    query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
    until(lambda: collector.spool().positions, "the query has asked the collector")
    query.stop()
    query.done()
