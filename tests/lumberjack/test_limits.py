"""Each limit at its exact edge, lengths that lie, and the memory and time that bytes cost."""

from __future__ import annotations

import os
import tracemalloc
from struct import pack

import attrs
import pytest

from rsocket_trio.errors import LocalProtocolError, RemoteProtocolError
from rsocket_trio.lumberjack import (
    BatchReader,
    DataFrame,
    LumberjackLimits,
    ReaderState,
    encode_batch,
)
from rsocket_trio.lumberjack.wire.frames import encode_pairs
from tests.lumberjack.vectors import compressed, event, feed_all, refuse, split, window

MIB = 2**20
PAIRS = ((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
D3 = DataFrame(1, 1, PAIRS).encode()
INCOMPRESSIBLE = compressed(event(1, b"12345"), level=0)


@pytest.mark.parametrize("field", attrs.fields(LumberjackLimits), ids=lambda field: field.name)
def test_limits_have_a_range(field):
    """Every limit is a whole number of 32 bits above 0."""
    for wrong in (0, -1, 2**32):
        with pytest.raises(ValueError, match=field.name):
            LumberjackLimits(**{field.name: wrong})
    with pytest.raises(TypeError, match=field.name):
        LumberjackLimits(**{field.name: 1.5})
    assert getattr(LumberjackLimits(**{field.name: 2**32 - 1}), field.name) == 2**32 - 1


@pytest.mark.parametrize(
    ("name", "edge", "data"),
    [
        ("max_window", 7, window(7)),
        ("max_event_size", 16, window(1) + event(1)),
        ("max_event_size", 16, window(2) + event(1, b"1") + event(2)),
        ("max_event_size", 16, window(2, 1) + event(1, b"1", 1) + event(2, version=1)),
        ("max_event_size", len(D3) - 6, window(1, 1) + D3),
        ("max_event_size", 16, compressed(event(1))),
        ("max_compressed_size", len(INCOMPRESSIBLE) - 6, INCOMPRESSIBLE),
        ("max_inflated_size", 26, compressed(event(1))),
        ("max_compressed_frames", 3, compressed(window(2), event(1), event(2))),
        ("max_compressed_frames", 9, compressed(window(8), *map(event, range(8)))),
        ("max_compressed_windows", 2, compressed(window(0), window(0))),
        ("max_compressed_windows", 2, compressed(window(1), event(1), window(1), event(2))),
        ("max_compressed_windows", 2, window(2) + compressed(event(1), window(1), event(2))),
        ("max_compressed_windows", 2, compressed(window(5), window(6))),
        ("max_batch_size", 26, window(1) + event(1)),
        ("max_batch_size", 78, window(3) + event(1) + event(2) + event(3)),
        ("max_batch_size", 78, window(3) + compressed(event(1), event(2), event(3))),
        ("max_batch_size", 78, window(3) + event(1) + event(9) + event(3)),
        ("max_batch_size", 2 * len(D3), window(2, 1) + D3 + D3),
        ("max_pairs", 3, window(1, 1) + D3),
        ("max_batch_pairs", 6, window(2, 1) + D3 + D3),
        ("max_batch_pairs", 6, window(2, 1) + D3 + compressed(D3, version=1)),
        ("max_batch_pairs", 6, compressed(window(1, 1), D3, window(1, 1), D3, version=1)),
    ],
)
def test_edges(name, edge, data):
    """Exactly the limit passes; with one less the frame is refused, and nothing is delivered."""
    for piece in (len(data), 1):
        reader = BatchReader(LumberjackLimits(**{name: edge}))
        assert feed_all(reader, split(data, piece))[1] is None
    assert refuse(data, rf"\({name}\)", LumberjackLimits(**{name: edge - 1})) == []


HEADS = {
    "window": (b"2W" + pack(">I", 65537), "max_window"),
    "json": (b"2J" + pack(">II", 1, 16 * MIB + 1), "max_event_size"),
    "json in a run": (
        window(3) + event(1) + b"2J" + pack(">II", 2, 2**31),
        "max_event_size",
    ),
    "compressed": (b"2C" + pack(">I", 32 * MIB + 1), "max_compressed_size"),
    "pairs": (b"1D" + pack(">II", 1, 1025), "max_pairs"),
    "key": (b"1D" + pack(">III", 1, 1, 2**32 - 1), "max_event_size"),
    "value": (b"1D" + pack(">III", 1, 1, 1) + b"k" + pack(">I", 2**31), "max_event_size"),
    "batch": (
        b"".join(event(n, bytes(16 * MIB - 10)) for n in (1, 2, 3)) + b"2J" + pack(">II", 4, 99),
        "max_batch_size",
    ),
}


@pytest.mark.parametrize("name", [name for name in HEADS if name != "batch"])
def test_a_length_is_refused_with_its_last_byte(name):
    """Before it is complete nothing is refused; then at once, before any byte of the contents."""
    data, limit = HEADS[name]
    reader = BatchReader()
    for piece in split(data[:-1], 1):
        reader.feed(piece)
    assert not reader.refused
    with pytest.raises(RemoteProtocolError, match=rf"\({limit}\)"):
        reader.feed(data[-1:])


def test_a_batch_is_refused_before_its_last_event_comes():
    """The length of an event shows that its batch gets too large."""
    limits = LumberjackLimits(max_batch_size=100)
    reader = BatchReader(limits)
    reader.feed(window(3) + event(1) + event(2))
    with pytest.raises(RemoteProtocolError, match="max_batch_size"):
        reader.feed(b"2J" + pack(">II", 3, 39))
    reader = BatchReader(limits)
    reader.feed(window(3) + event(1) + event(2))
    assert reader.feed(b"2J" + pack(">II", 3, 38)) == []


def peak_of(data, limits=None, pieces=None):
    """The memory that reading the data takes, without the data."""
    parts = split(data, pieces or 65536)
    reader = BatchReader(limits) if limits else BatchReader()
    tracemalloc.start()
    try:
        feed_all(reader, parts)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    "head",
    [
        b"2W" + pack(">I", 65536),
        b"2J" + pack(">II", 1, 16 * MIB),
        b"2C" + pack(">I", 32 * MIB),
        b"1D" + pack(">II", 1, 1024),
        b"1D" + pack(">III", 1, 1024, 15 * MIB),
        window(65536) + event(1),
    ],
)
def test_a_large_number_costs_nothing_by_itself(head):
    """No memory is taken for what a length or a count announces."""
    assert peak_of(head) < 20_000
    assert peak_of(head + bytes(1000)) < 40_000


def test_a_bomb_of_one_event():
    """One event of the limit is inflated, in a frame of a thousandth of its size."""
    size = 4 * MIB
    bomb = compressed(event(1, b" " * size), level=9)
    assert len(bomb) < size / 900
    limits = LumberjackLimits(max_event_size=size)
    assert peak_of(bomb, limits) < 2.5 * size
    limits = LumberjackLimits(max_inflated_size=MIB)
    assert peak_of(bomb, limits) < 2.5 * MIB


def test_a_bomb_of_junk():
    """Frames are read while they are inflated, so junk ends the inflation."""
    assert peak_of(compressed(bytes(50 * MIB))) < MIB + 2 * 65536


@pytest.mark.parametrize(
    "frames",
    [[window(0)], [event(1, b"1")], [window(1), event(1, b"12")], [window(5), event(1, b"1")]],
    ids=["windows", "events", "windows and events", "short windows"],
)
def test_a_bomb_of_many_frames(frames):
    """Each frame becomes an object, so their number is limited."""
    limits = LumberjackLimits(max_compressed_frames=10_000, max_compressed_windows=20_000)
    bomb = compressed(b"".join(frames) * (30_000 // len(frames)), level=9)
    refuse(bomb, "max_compressed_frames", limits)
    assert peak_of(bomb, limits) < 8 * MIB


def test_a_bomb_of_many_frames_at_the_default_limits():
    bomb = compressed(window(65536), event(1, b"1") * 132_000, level=9)
    assert refuse(bomb, r"131072 \(max_compressed_frames\)") == []


@pytest.mark.parametrize(
    "frames",
    [
        window(0),
        event(1, b"1"),
        window(1) + event(1, b"12"),
        window(5) + event(1, b"1"),
        window(5),
    ],
    ids=["windows", "events", "windows and events", "short windows", "windows that never begin"],
)
def test_a_bomb_of_many_windows_at_the_default_limits(frames):
    """Each window becomes an object, so their number is limited, also of those without events."""
    bomb = compressed(frames * 65_000, level=9)
    assert refuse(bomb, r"4096 \(max_compressed_windows\)") == []
    assert peak_of(bomb) < 3 * MIB


@pytest.mark.parametrize("frames", [window(0), window(1) + event(1, b"12"), event(1, b"1")])
def test_a_flood_of_windows(frames):
    """Only some hundred become objects at once, however many there are in one read."""
    flood = frames * (65536 // len(frames))
    reader = BatchReader()
    found = reader.feed(flood)
    calls = 1
    count = 0
    while True:
        assert len(found) <= 513
        count += len(found)
        if not reader.more:
            break
        found = reader.feed(b"")
        calls += 1
    assert count == 65536 // len(frames)
    assert calls >= count / 513
    assert reader.state is ReaderState.BETWEEN


BOMBS = {
    "windows": compressed(window(0) * 1000, level=9),
    "batches": compressed((window(1) + event(1, b"12")) * 500, level=9),
    "events": compressed(event(1, b" " * 100_000), level=9),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("piece", [1, 100, 65536])
def test_many_bombs_in_one_read(name, piece):
    """One call inflates about a MiB, or as much as takes as long; then there is more."""
    limits = LumberjackLimits(max_inflated_size=10**6, max_compressed_frames=5000)
    bomb = BOMBS[name]
    count = 40
    most = 2 if name != "events" else 11
    batches = calls = 0
    reader = BatchReader(limits)
    for part in split(bomb * count, piece):
        found = reader.feed(part)
        while True:
            calls += bool(found)
            assert len(found) <= most * {"windows": 1000, "batches": 500, "events": 1}[name]
            batches += len(found)
            if not reader.more:
                break
            assert reader.state is ReaderState.INSIDE
            found = reader.feed(b"")
    assert batches == count * {"windows": 1000, "batches": 500, "events": 1}[name]
    assert calls >= count // most
    assert reader.state is ReaderState.BETWEEN


def test_pairs_count_as_work_of_one_call():
    """Empty pairs take no memory to speak of, but each has to be read."""
    event_of_1024 = b"1D" + pack(">II", 1, 1024) + bytes(8 * 1024)
    frame = window(40, 1) + compressed(event_of_1024 * 40, version=1, level=9)
    reader = BatchReader()
    calls = [len(reader.feed(frame))]
    while reader.more:
        calls.append(len(reader.feed(b"")))
    assert len(calls) > 8  # 328 KB would be one call otherwise.
    assert calls == [0] * (len(calls) - 1) + [1]


def test_a_compressed_frame_that_is_inflated_in_steps():
    """What is not checked yet is held, is no batch, and cannot be flushed; then all of it comes."""
    size = 3 * MIB
    large = bytes(size // 2)
    frame = compressed(window(1), event(1, large), window(1), event(2, large), event(3))
    reader = BatchReader()
    assert len(reader.feed(window(1) + event(1) + frame + window(0))) == 1
    held = []
    while reader.more:
        assert reader.state is ReaderState.INSIDE
        assert not reader.flushable
        assert reader.flush() is None
        held.append(reader.held)
        found = reader.feed(b"")
    assert held == sorted(held)
    assert 3 * size // 4 < held[-1] < size + 2 * MIB
    assert [len(batch) for batch in found] == [1, 1, 1, 0]
    assert reader.held == 0
    assert reader.state is ReaderState.BETWEEN


def test_a_frame_of_which_a_part_is_inflated_is_dropped():
    """The connection is over in the middle: no memory of it stays."""
    reader = BatchReader()
    bomb = compressed(window(1), event(1), window(1), event(2, bytes(3 * MIB)))
    assert reader.feed(bomb) == []
    assert reader.held > MIB
    reader.drop()
    assert (reader.held, reader.more, reader.state) == (0, False, ReaderState.BETWEEN)


@pytest.mark.parametrize("name", ["pairs", "windows", "events", "one event", "text"])
def test_no_call_is_much_work(name):
    """Whatever a compressed frame contains: the work of a call has a bound, and so has its time."""
    contents = {
        "pairs": window(60_000, 1) + (b"1D" + pack(">II", 1, 9) + bytes(72)) * 50_000,
        "windows": (window(0) + event(1)) * 2000,
        "events": window(60_000) + event(1, b"1") * 60_000,
        "one event": event(1, bytes(16 * MIB)),
        "text": window(60_000)
        + b"".join(event(n, os.urandom(500).hex().encode()) for n in range(9000)),
    }
    version = 1 if name == "pairs" else 2
    data = compressed(contents[name], version=version, level=1) + window(1, version)
    reader = BatchReader()
    steps = []
    for part in split(data, 65536):
        reader.feed(part)
        steps.append(reader.work)
        while reader.more:
            reader.feed(b"")
            steps.append(reader.work)
    assert len(steps) > 7
    copied = 4 * MIB if name == "one event" else 0  # Its 16 MiB, when it is complete.
    assert max(steps) <= 2.5 * MIB + copied


def test_more_bytes_before_the_rest_is_decoded():
    """They come behind the bytes that wait, also in the middle of a frame."""
    data = b"".join(compressed(event(n, b" " * MIB + b"%d" % n)) for n in range(5)) + window(0)
    reader = BatchReader()
    events = []
    for part in split(data, 1100):
        for batch in reader.feed(part):
            events += batch.events
    assert reader.more
    assert len(events) < 5
    while reader.more:
        events += [each for batch in reader.feed(b"") for each in batch.events]
    assert [int(each) for each in events] == [0, 1, 2, 3, 4]
    assert reader.received == len(data)


def test_an_error_behind_bytes_that_wait():
    """It comes when its bytes are decoded."""
    reader = BatchReader()
    one = compressed(window(1), event(1, bytes(MIB)))
    assert len(reader.feed(one + one + b"x")) == 0
    assert len(reader.feed(b"")) == 1
    assert not reader.refused
    assert len(reader.feed(b"")) == 1
    with pytest.raises(RemoteProtocolError, match="begins with the byte 0x78"):
        reader.feed(b"")
    assert reader.refused
    assert not reader.more


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(window(1) + event(1, bytes(60_000)), id="one event"),
        pytest.param(window(120) + b"".join(event(n, bytes(500)) for n in range(120)), id="events"),
        pytest.param(compressed(event(1, bytes(60_000)), level=0), id="compressed"),
        pytest.param(
            b"1D" + pack(">I", 1) + encode_pairs([(b"k" * 100, bytes(200))] * 200), id="pairs"
        ),
        pytest.param(b"1D" + pack(">I", 1) + encode_pairs([(b"k", bytes(60_000))]), id="pair"),
    ],
)
@pytest.mark.parametrize("piece", [1, 100, 3000])
def test_the_copying_is_linear(data, piece, counted_bytes):
    """However the bytes are cut, each is copied a few times at most."""
    reader = BatchReader()
    for part in split(data, piece):
        reader.feed(counted_bytes(part))
    assert counted_bytes.copied <= 3 * len(data)


def test_a_sender_keeps_the_limits_too():
    """Exactly the limit is encoded, and one less is refused before anything is sent."""
    events = [b"12345", b"1234567"]
    pairs = [encode_pairs(PAIRS)]
    payload = len(encode_batch(events)) - 12
    for name, edge, batch, version, level in (
        ("max_window", 2, events, 2, 3),
        ("max_event_size", 7, events, 2, 3),
        ("max_batch_size", 32, events, 2, 0),
        ("max_inflated_size", 32, events, 2, 3),
        ("max_compressed_size", payload, events, 2, 3),
        ("max_pairs", 3, pairs, 1, 3),
        ("max_batch_pairs", 6, 2 * pairs, 1, 3),
    ):
        options = {"version": version, "compression_level": level}
        assert encode_batch(batch, **options, limits=LumberjackLimits(**{name: edge}))
        with pytest.raises(LocalProtocolError, match=rf"\({name}\)"):
            encode_batch(batch, **options, limits=LumberjackLimits(**{name: edge - 1}))
