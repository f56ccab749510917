"""Filebeat is killed: it goes on where its registry says, and no line is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from .agents import sent
from .arrived import file_sink
from .programs import until
from .relay import ACK, Relay
from .scene import lumberjack
from .stored import assert_none_lost, stored_windows

pytestmark = pytest.mark.programs

COUNT = 3000


IDENTITY = [
    f"get_json_object(value, '$.{name}')"
    for name in ("agent.id", "log.file.path", "log.offset", "message")
]
"""The key that the page on guarantees has for a Filebeat. It keeps its id over restarts; its
``agent.ephemeral_id`` is another one each time. Its input ``log`` says nothing else of a file."""


@pytest.mark.bad_days
def test_after_acknowledgements(scene, application, filebeat):
    """Lines that its registry has do not come again; those without an acknowledgement do.

    A query that drops rows with the same identity has each line once.
    """
    collector = scene.collector()
    with Relay(collector.agents, answers=3 * ACK) as relay:
        beat = filebeat("beat", COUNT, relay.uri)
        # One more window at least is stored, and not acknowledged.
        until(
            lambda: 0 < beat.log.lines_before(beat.registered()) < collector.spool().head,
            "some lines are acknowledged, and others are only stored",
            details=lambda: (beat.registered(), collector.spool(), beat.errors[-3000:]),
        )
        beat.kill()
        known = beat.log.lines_before(beat.registered())
        relay.cut()
        relay.allow_all()
        beat.start()
        beat.wait_registered()
    assert 0 < known < COUNT
    windows = stored_windows(collector.directory)
    assert 0 < assert_none_lost(windows, sent(beat.log)) <= COUNT - known
    stored = Counter(line for window in windows for line in window.lines)
    assert all(stored[line] == 1 for line in beat.log.lines[:known])
    source, sink = lumberjack(collector), scene.file_sink()
    application.start([source], sink, scene.checkpoint, identity=IDENTITY).done()
    assert Counter(row.line for row in file_sink(scene.sink)) == sent(beat.log)


@pytest.mark.interop
def test_again_and_again(scene, filebeat):
    """Filebeat and the collector are killed in turns, in the middle of anything."""
    collector = scene.collector()
    beat = filebeat("beat", 5 * COUNT, collector.agents)
    for turn in range(1, 6):
        collector.wait_head(turn * COUNT // 2)
        if turn % 2:
            beat.kill()
            beat.start()
        else:
            collector.kill()
            collector.start()
    beat.wait_registered()
    assert_none_lost(stored_windows(collector.directory), sent(beat.log))
