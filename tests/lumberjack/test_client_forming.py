"""Windows are formed within their size, and are what a server reads."""

from __future__ import annotations

import os

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.lumberjack import BatchReader, LumberjackLimits
from rsocket_trio.lumberjack.client import forming
from rsocket_trio.lumberjack.client.deliveries import Delivery
from rsocket_trio.lumberjack.client.event_encoder import EventEncoder
from rsocket_trio.lumberjack.client.forming import form, pack
from tests.lumberjack.vectors import all_of


def deliveries_of(*calls, encoded=0):
    found = []
    for number, events in enumerate(calls):
        delivery = Delivery(number, events, lambda: None)
        if encoded:
            encoder = EventEncoder(2, 3, LumberjackLimits())
            delivery.encoded += encoder.encode(events, 0, min(encoded, len(events)))
        found.append(delivery)
    return found


def unexpected(delivery, error):
    raise error


def formed_of(pieces, max_size, encoder=None, failed=unexpected):
    return trio.run(
        form, pieces, encoder or EventEncoder(2, 3, LumberjackLimits()), max_size, failed
    )


sizes = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=9), min_size=1, max_size=5)


@given(sizes, st.integers(1, 300), st.integers(0, 9))
def test_a_window_keeps_its_size(calls, max_size, encoded):
    """It has as many of the first events as fit, at least one; the rest comes back."""
    events = [[b"%0*d" % (size, size) for size in call] for call in calls]
    pieces = [delivery.take(99) for delivery in deliveries_of(*events, encoded=encoded)]
    formed = formed_of(pieces, max_size)
    everything = [event for call in events for event in call]
    count = len(formed.events)
    assert formed.events == everything[:count]
    assert count >= 1
    size = sum(len(event) + 10 for event in formed.events)
    assert size <= max_size or count == 1
    if count < len(everything):
        assert size + len(everything[count]) + 10 > max_size
    for part, expected in ((formed.pieces, formed.events), (formed.rest, everything[count:])):
        assert [
            each.delivery.events[index] for each in part for index in range(each.start, each.stop)
        ] == expected
        assert all(part)


def test_an_event_that_was_changed_meanwhile():
    """Only its own call fails; the window has the others."""
    good, bad = {"n": 1}, {"n": object()}
    first, second, third = deliveries_of([good], [good, bad], [good, good])
    failed = []
    formed = formed_of(
        [each.take(9) for each in (first, second, third)],
        10_000,
        failed=lambda delivery, error: failed.append((delivery, str(error))),
    )
    assert [(each.delivery, len(each)) for each in formed.pieces] == [(first, 1), (third, 2)]
    assert formed.events == [b'{"n":1}'] * 3
    ((delivery, text),) = failed
    assert delivery is second
    assert "event 2 cannot be encoded" in text


@pytest.mark.parametrize("level", [0, 1, 3, 9])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [10, 3000])
def test_a_server_reads_it(version, level, size):
    """One W frame; with compression, one C frame behind it, also of a large window."""
    encoder = EventEncoder(version, level, LumberjackLimits())
    events = [{"message": os.urandom(size).hex()} for _ in range(200)]
    raw = []
    while len(raw) < len(events):
        raw += encoder.encode(events, len(raw), len(events))
    data = trio.run(pack, raw, encoder)
    (batch,) = all_of(BatchReader(), data)
    assert list(batch.events) == raw
    assert (batch.version, batch.window, next(iter(batch.sequences))) == (version, 200, 1)
    assert (batch.compressed is not None) is (level > 0)


async def test_others_run_while_a_large_window_is_formed():
    """No part of the work takes long."""
    encoder = EventEncoder(2, 3, LumberjackLimits())
    (delivery,) = deliveries_of([{"message": "x" * 100_000} for _ in range(40)])
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        formed = await form([delivery.take(40)], encoder, 8 * 2**20, unexpected)
        forming, turns = turns, 0
        await pack(formed.events, encoder)
        nursery.cancel_scope.cancel()
    assert len(formed.events) == 40
    assert forming >= 10
    assert turns >= 10


@pytest.mark.parametrize(("level", "most"), [(6, 256), (7, 64), (8, 16), (9, 4)])
async def test_slow_levels_take_shorter_steps(monkeypatch, level, most):
    """At level 9, some texts take seconds for each 256 KiB."""
    real, sizes = forming.compressor, []

    class Spy:
        def __init__(self, *arguments):
            self._real = real(*arguments)
            self.flush = self._real.flush

        def compress(self, data):
            sizes.append(len(data))
            return self._real.compress(data)

    monkeypatch.setattr(forming, "compressor", Spy)
    events = [os.urandom(1_000_000)]
    data = await pack(events, EventEncoder(2, level, LumberjackLimits()))
    assert max(sizes) == most * 1024
    reader = BatchReader()
    batches = reader.feed(data)
    while reader.more:
        batches += reader.feed(b"")
    (batch,) = batches
    assert list(batch.events) == events


async def test_incompressible_events_keep_the_limits():
    """The largest event that is accepted fits into the frames of the limits, at each level."""
    limits = LumberjackLimits(max_compressed_size=300_000)
    for level in (1, 9):
        encoder = EventEncoder(2, level, limits)
        data = await pack([os.urandom(encoder.max_size)], encoder)
        assert len(data) - 12 <= limits.max_compressed_size
        assert len(BatchReader(limits).feed(data)) == 1
