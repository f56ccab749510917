"""Windows and batches: where each begins and ends, and what a reader refuses.

The recorded exchanges are in test_exchanges.py, the limits in test_limits.py.
"""

from __future__ import annotations

import pytest

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.lumberjack import BatchReader, DataFrame, ReaderState
from rsocket_trio.lumberjack.wire import decoder
from rsocket_trio.lumberjack.wire.decoder import STEP
from tests.lumberjack.vectors import (
    ack,
    acks,
    compressed,
    event,
    facts,
    feed_all,
    refuse,
    split,
    window,
)

TOP = 2**32 - 1


def events(*sequences, version=2):
    return b"".join(event(n, b"%d" % n, version) for n in sequences)


def read(data):
    """The batches of the data: the same whole, byte by byte, and in pieces of 11 bytes."""
    made = []
    for piece in (len(data), 1, 11):
        reader = BatchReader()
        batches, error = feed_all(reader, split(data, piece))
        assert error is None
        assert reader.received == len(data)
        flushed = reader.flush()
        if flushed is not None:
            batches.append(flushed)
        made.append(facts(batches))
        assert all(batch.size == sum(map(len, batch.events)) for batch in batches)
    assert made[0] == made[1] == made[2]
    return batches


def feed_to_the_end(reader, data):
    """Feed the data; raise the error that comes behind the batches."""
    reader.feed(data)
    reader.feed(b"")


def shape(batches):
    """(version, window, sequence numbers) of each batch."""
    return [(batch.version, batch.window, list(batch.sequences)) for batch in batches]


def test_pairs_that_come_in_pieces_are_walked_once(monkeypatch):
    """Each field is looked at a few times, however many pieces there are: the cost is linear."""
    walked = 0
    unpack = decoder._unpack_field

    def counting(data, position):
        nonlocal walked
        walked += 1
        return unpack(data, position)

    monkeypatch.setattr(decoder, "_unpack_field", counting)
    frame = DataFrame(1, 1, tuple((b"key%d" % n, b"v" * 20) for n in range(500))).encode()
    reader = BatchReader()
    reader.feed(window(1, 1))
    found = [batch for piece in split(frame, 16) for batch in reader.feed(piece)]
    assert len(found) == 1
    assert walked <= 2 * 1000


def test_the_events_of_a_batch():
    """Events are the bytes of the JSON texts; numbers that go on are a range."""
    (batch,) = read(window(3) + events(5, 6, 7))
    assert batch.events == [b"5", b"6", b"7"]
    assert batch.sequences == range(5, 8)
    assert (batch.version, batch.window, batch.is_json, len(batch)) == (2, 3, True, 3)
    assert [batch.sequence_of(n) for n in (1, 2, 3)] == [5, 6, 7]
    assert batch.compressed is None


@pytest.mark.parametrize("n", [0, 4, -1])
def test_there_is_no_such_event(n):
    (batch,) = read(window(3) + events(5, 6, 7))
    with pytest.raises(ValueError, match=f"event number {n} among 3"):
        batch.sequence_of(n)


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 3, 5, 7],
        [1, 2, 3, 3, 4],
        [4, 3, 2, 1],
        [7, 7, 7],
        [0, 0, 1],
        [1, 2, 9, 10, 11, 3],
        [TOP - 1, TOP, 0, 1, 2],
        [TOP, 0, 1, TOP, 0],
        [TOP, 1],
        [0, 1, 2, 3],
        [5, 6, 5, 6],
    ],
)
def test_any_sequence_numbers(numbers):
    """Gaps, repetitions, steps back and the roll-over are kept as they came."""
    batches = read(window(len(numbers)) + events(*numbers) + window(1) + events(9))
    assert shape(batches) == [(2, len(numbers), numbers), (2, 1, [9])]
    assert batches[0].events == [b"%d" % number for number in numbers]
    straight = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert isinstance(batches[0].sequences, range) is straight


def test_a_sticky_window():
    """Events behind a full window form windows of the same size; the rest comes with a flush."""
    data = window(2) + events(1, 2, 3, 4, 5)
    assert shape(read(data)) == [(2, 2, [1, 2]), (2, 2, [3, 4]), (2, 2, [5])]
    reader = BatchReader()
    assert not reader.flushable
    assert len(reader.feed(data)) == 2
    assert reader.state is ReaderState.UNFLUSHED
    assert reader.flushable
    (rest,) = [reader.flush()]
    assert acks(rest) == [(2, 5)]
    assert reader.flush() is None
    assert reader.state is ReaderState.BETWEEN
    assert shape(reader.feed(events(6, 7))) == [(2, 2, [6, 7])]


def test_a_flush_in_the_middle_of_a_frame():
    """Whole events can be flushed while a part of the next one has arrived."""
    reader = BatchReader()
    data = window(2) + events(1, 2, 3, 4)
    assert len(reader.feed(data[:-3])) == 1
    assert reader.state is ReaderState.INSIDE
    assert shape([reader.flush()]) == [(2, 2, [3])]
    assert reader.feed(data[-3:]) == []
    assert shape([reader.flush()]) == [(2, 2, [4])]


def test_an_announced_window_is_not_flushed():
    """The sender owes the rest of it."""
    reader = BatchReader()
    reader.feed(window(2) + events(1))
    assert reader.flush() is None
    assert reader.state is ReaderState.INSIDE
    assert shape(reader.feed(events(2))) == [(2, 2, [1, 2])]


def test_states():
    """Each part of a frame is inside a batch; nothing is, before the first byte and at the end."""
    reader = BatchReader()
    states = [reader.state]
    for piece in split(window(1) + events(1), 1):
        reader.feed(piece)
        states.append(reader.state)
    assert states[0] is states[-1] is ReaderState.BETWEEN
    assert {*states[1:-1]} == {ReaderState.INSIDE}
    assert reader.received == 17


def test_what_is_dropped_takes_no_memory():
    """Neither events, nor bytes that were not looked at, nor a part of a frame."""
    parts = window(9) + events(1, 2), events(3)[:-1], compressed(events(*range(3, 7)))[:-1]
    for data in (parts[0], parts[0] + parts[1], parts[0] + parts[2]):
        for step in (1, STEP):
            reader = BatchReader()
            assert reader.feed(data, step) == []
            assert reader.held
            reader.drop()
            assert (reader.held, reader.more, reader.state) == (0, False, ReaderState.BETWEEN)


def test_a_short_batch_before_a_new_window():
    """The events so far are delivered, and then the new window counts."""
    data = window(5) + events(1, 2) + window(3) + events(1, 2, 3)
    assert shape(read(data)) == [(2, 5, [1, 2]), (2, 3, [1, 2, 3])]


def test_a_window_without_events_before_a_new_window():
    """There is nothing to acknowledge, so the last one counts."""
    assert shape(read(window(5) + window(4, 1) + window(1) + events(1))) == [(2, 1, [1])]


@pytest.mark.parametrize("version", [1, 2])
def test_a_window_of_zero(version):
    """It asks for an ACK 0 of its version, and sets no size for events behind it."""
    data = window(3) + events(1) + window(0, version) + events(2, 3)
    batches = read(data)
    assert shape(batches) == [(2, 3, [1]), (version, 0, []), (2, 1, [2]), (2, 1, [3])]
    assert acks(batches[1]) == [(version, 0)]
    assert (batches[1].events, batches[1].compressed) == ([], None)
    assert batches[1]  # It must be acknowledged, although its length is 0.
    assert len(batches[1]) == 0


def test_events_without_a_window():
    assert shape(read(events(4, 5))) == [(2, 1, [4]), (2, 1, [5])]


def test_the_version_is_that_of_the_batch():
    """Versions change between batches, with and without a W frame."""
    first, second = DataFrame(1, 1, ()).encode(), DataFrame(1, 2, ()).encode()
    data = window(1, 1) + first + events(3) + window(2, 1) + first + second + window(1) + events(1)
    assert [batch.version for batch in read(data)] == [1, 2, 1, 2]


def test_json_in_version_1():
    """A client sends J frames with version 1; the batch says that they are JSON."""
    (batch,) = read(window(2, 1) + events(1, 2, version=1))
    assert (batch.version, batch.is_json, batch.events) == (1, True, [b"1", b"2"])


def test_pairs():
    """The event is the number of pairs, and the pairs."""
    frames = DataFrame(1, 7, ((b"a", b"b"), (b"", b""))).encode(), DataFrame(1, 8, ()).encode()
    (batch,) = read(window(2, 1) + b"".join(frames))
    assert batch.events == [frame[6:] for frame in frames]
    assert not batch.is_json
    assert acks(batch) == [(1, 8)]


class TestCompressed:
    def test_one_frame_with_exactly_the_events(self):
        """The payload is kept, to be stored as it came."""
        frame = compressed(events(1, 2))
        (batch,) = read(window(2) + frame)
        assert batch.compressed == frame[6:]
        assert shape([batch]) == [(2, 2, [1, 2])]

    def test_short_and_sticky_batches(self):
        """Also if the window is short, sticky or unknown."""
        one, two = compressed(events(1)), compressed(events(2, 3))
        short, full, sticky, rest = read(window(3) + one + window(2) + two + two + one)
        assert [short.compressed, rest.compressed] == [one[6:], one[6:]]
        assert [full.compressed, sticky.compressed] == [two[6:], two[6:]]
        (alone,) = read(one)
        assert alone.compressed == one[6:]

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(window(3) + compressed(events(1)) + events(2, 3), id="an event behind"),
            pytest.param(window(3) + events(1) + compressed(events(2, 3)), id="an event before"),
            pytest.param(window(3) + compressed(events(1)) + compressed(events(2, 3)), id="two"),
            pytest.param(compressed(window(3), events(1, 2, 3)), id="the window inside"),
            pytest.param(window(9) + compressed(events(1, 2, 3), window(1)), id="a window behind"),
        ],
    )
    def test_batches_that_came_in_another_way(self, data):
        batches = read(data + window(1) + events(1))
        assert shape(batches)[0][2] == [1, 2, 3]
        assert batches[0].compressed is None

    def test_more_events_than_the_window(self):
        """The others form sticky windows; no event is dropped."""
        batches = read(window(2) + compressed(events(1, 2, 3, 4, 5)) + events(6, 7))
        assert shape(batches) == [(2, 2, [1, 2]), (2, 2, [3, 4]), (2, 2, [5, 6]), (2, 2, [7])]
        assert [batch.compressed for batch in batches] == [None] * 4

    def test_a_frame_without_frames(self):
        """It changes nothing, between batches and inside one."""
        empty = compressed()
        full = compressed(events(1))
        data = empty + window(2) + empty + full + empty + window(1) + events(1) + empty
        short, batch = read(data)
        assert short.compressed == full[6:]
        assert shape([short, batch]) == [(2, 2, [1]), (2, 1, [1])]

    def test_an_empty_frame_before_a_window_of_zero(self):
        """Its payload belongs to no batch."""
        for data in (compressed() + window(0), window(2) + compressed() + window(0)):
            (batch,) = read(data)
            assert batch.compressed is None

    def test_windows_inside(self):
        """A client announces its window in the compressed frame."""
        inner = window(1) + events(1) + window(0) + window(2) + events(1)
        assert shape(read(compressed(inner) + events(2))) == [
            (2, 1, [1]),
            (2, 0, []),
            (2, 2, [1, 2]),
        ]

    def test_version_1(self):
        frames = [DataFrame(1, n, ((b"k", b"v"),)).encode() for n in (7, 8)]
        (batch,) = read(window(2, 1) + compressed(*frames, version=1))
        assert acks(batch) == [(1, 8)]
        assert batch.compressed is not None

    @pytest.mark.parametrize(
        ("data", "match"),
        [
            (compressed(compressed(events(1))), "contains another compressed frame"),
            (compressed(events(1, version=1)), "of version 2 contains version 1"),
            (compressed(window(1, 1)), "of version 2 contains version 1"),
            (compressed(window(1, 1), version=1) + events(1), "version 1 contains a frame"),
            (window(1, 1) + compressed(events(1)), "version 1 contains a frame of version 2"),
            (compressed(ack(1)), "ACK frame"),
            (compressed(b"junk"), "no frame begins"),
            (compressed(events(1)[:-1]), "cut off"),
            (compressed(b"2"), "cut off"),
            (b"2C\0\0\0\0", "is empty"),
            (b"2C\0\0\0\3abc", "no zlib stream"),
        ],
    )
    def test_refused(self, data, match):
        assert refuse(data, match) == []

    def test_nothing_of_a_bad_frame_is_delivered(self):
        """The checksum comes last: batches that were complete before it are not acknowledged."""
        good = window(1) + events(1)
        payload = compressed(events(1, 2), window(1), events(1))[6:-1] + b"\0"
        bad = b"2C" + len(payload).to_bytes(4) + payload
        assert shape(refuse(good + window(2) + bad, "incorrect data check")) == [(2, 1, [1])]


class TestRefused:
    @pytest.mark.parametrize(
        ("data", "match"),
        [
            (b"\x16", "TLS begins with 16 03"),
            (b"\x16\x03\x01\x02", "TLS begins with 16 03"),
            (b"G", "HTTP request"),
            (b"POST / HTTP/1.1\r\n", "HTTP request"),
            (b"PRI * HTTP/2.0\r\n", "HTTP request"),
            (b"\0", "no frame begins with the byte 0x00:"),
            (b"2Q", "no frame type 0x51"),
            (b"2A", "ACK frame"),
            (b"2D", "only version 1 has D frames"),
            (b"2J\0\0\0\5\0\0\0\0", "JSON text of sequence 5 is empty"),
        ],
    )
    def test_frames(self, data, match):
        """The error comes with the first byte that shows it, and only complete batches before."""
        assert refuse(window(1) + events(1) + events(2)[:-1] + b"2" + data, match) != []
        reader = BatchReader()
        with pytest.raises(RemoteProtocolError, match=match):
            reader.feed(data)

    @pytest.mark.parametrize(
        "before", [b"", window(1) + event(1), window(2) + b"2J\0\0\0\1\0\0\0\1x"]
    )
    def test_errors_do_not_show_contents(self, before):
        """The text goes to the log; behind a wrong length, contents stand where a head is due."""
        with pytest.raises(RemoteProtocolError) as info:
            feed_to_the_end(BatchReader(), before + b"password=hunter2")
        text = str(info.value)
        assert text == "no frame begins with the byte 0x70: the version must be '1' or '2'"

    @pytest.mark.parametrize("data", [b"GIT /", b"\x16\x04", b"<13>", b"{}"])
    def test_no_protocol_that_is_known(self, data):
        with pytest.raises(RemoteProtocolError, match=r"the version must be '1' or '2'$"):
            BatchReader().feed(data)

    def test_two_kinds_of_events_in_one_window(self):
        """They would have to be told apart one by one."""
        pairs = DataFrame(1, 2, ()).encode()
        refuse(window(2, 1) + events(1, version=1) + pairs, "D frames and J frames")
        refuse(window(2, 1) + pairs + events(1, version=1), "D frames and J frames")
        assert len(read(window(1, 1) + pairs + events(1, version=1))) == 2

    def test_the_version_changes_in_a_window(self):
        refuse(window(3) + events(1) + events(2, version=1), "version 2 contains a frame of")
        refuse(window(1, 1) + events(1), "version 1 contains a frame of version 2")

    def test_it_is_final(self):
        """Batches before the fault are returned once; then every call raises a fresh error."""
        reader = BatchReader()
        assert len(reader.feed(window(1) + events(1, 2) + window(9) + events(1) + b"x")) == 2
        assert reader.refused
        found = []
        for data in (b"", b"2W", window(1)):
            with pytest.raises(
                RemoteProtocolError, match="no frame begins with the byte 0x78"
            ) as info:
                reader.feed(data)
            found.append(info.value)
        assert len({id(error) for error in found}) == 3
        assert reader.flush() is None
        assert reader.state is ReaderState.BETWEEN


class TestAcks:
    def test_partial(self):
        """Version 2 has ACKs for the first events of a batch."""
        (batch,) = read(window(3) + events(5, 7, 9))
        assert [batch.acks_for(n) for n in range(4)] == [[], [5], [7], [9]]

    def test_version_1_has_only_the_last(self):
        """Its clients take any ACK for that of the whole window."""
        (batch,) = read(window(3, 1) + events(5, 6, 7, version=1))
        assert [batch.acks_for(n) for n in range(4)] == [[], [], [], [7]]

    @pytest.mark.parametrize(
        ("numbers", "version", "expected"),
        [
            ([TOP - 1, TOP, 0], 2, [TOP, 0]),
            ([TOP, 0], 2, [TOP, 0]),
            ([0], 2, [0]),
            ([TOP - 1, TOP, 0, 1], 2, [1]),
            ([TOP - 1, TOP, 0], 1, [0]),
            ([TOP - 1, TOP], 2, [TOP]),
        ],
    )
    def test_the_roll_over(self, numbers, version, expected):
        """An ACK 0 looks like a keep-alive, so the one before it goes first."""
        (batch,) = read(window(len(numbers), version) + events(*numbers, version=version))
        assert batch.acks_for(len(numbers)) == expected

    @pytest.mark.parametrize("n", [-1, 4])
    def test_of_events_that_do_not_exist(self, n):
        (batch,) = read(window(3) + events(5, 7, 9))
        with pytest.raises(ValueError, match="event number"):
            batch.acks_for(n)


def test_bytearrays_are_accepted():
    """Some streams of trio give them. The events are bytes, and do not change with them."""
    reader = BatchReader()
    data = bytearray(window(2) + events(1, 2))
    (batch,) = reader.feed(data)
    data[:] = bytes(len(data))
    assert batch.events == [b"1", b"2"]
    assert {type(each) for each in batch.events} == {bytes}
