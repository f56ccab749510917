"""ACK frames at the sender. The recorded scripts are in test_exchanges.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame, RemoteProtocolError
from rsocket_trio.lumberjack import AckProgress, AckReader
from tests.lumberjack.vectors import ack, split

TOP = 2**32 - 1


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("piece", [1, 4, 6, 100])
def test_acks_cut_anywhere(version, piece):
    """Numbers come when their frame is complete."""
    reader = AckReader(version)
    numbers = [4, 0, 10, TOP]
    data = b"".join(ack(number, version) for number in numbers)
    assert [n for part in split(data, piece) for n in reader.feed(part)] == numbers
    assert not reader.partial
    reader.feed(bytearray(data[:5]))
    assert reader.partial
    assert reader.feed(bytearray(b"\1")) == [1]


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (2, ack(1, 1)),
        (1, ack(1, 2)),
        (1, b"2A\0\0\1"),
        (2, b"1"),
        (2, b"2W"),
        (2, b"HTTP/1.1 400"),
        (2, b"\x15\x03\x03"),
        (2, b"3A"),
    ],
)
def test_anything_else_is_refused(version, data):
    """Acks before it are returned; then every call raises a fresh error."""
    with pytest.raises(MalformedFrame, match=f"where a frame {version}A is due"):
        AckReader(version).feed(data)
    with pytest.raises(MalformedFrame, match="nothing valid came before"):
        AckReader(version).feed(data)
    reader = AckReader(version)
    assert reader.feed(ack(3, version) + data) == [3]
    assert reader.refused
    found = []
    for more in (b"", ack(4, version)):
        with pytest.raises(MalformedFrame) as info:
            reader.feed(more)
        found.append(info.value)
    assert found[0] is not found[1]
    assert "nothing valid came before" not in str(found[0])
    assert not reader.partial


def test_what_is_refused_is_not_cut_off():
    """An end of the connection behind it is not the reason of the failure."""
    reader = AckReader()
    assert reader.feed(b"2") == []
    with pytest.raises(MalformedFrame):
        reader.feed(b"W")
    assert not reader.partial


@pytest.mark.parametrize("piece", [1, 6])
def test_keep_alives_of_logstash_to_version_1(piece):
    """Logstash sends them with version 2 to every client."""
    reader = AckReader(1)
    data = ack(0) + ack(0) + ack(7, 1)
    assert [n for part in split(data, piece) for n in reader.feed(part)] == [0, 0, 7]


class TestProgress:
    def test_partial_acks(self):
        """Each ACK says how many further events it covers."""
        progress = AckProgress(10)
        assert [progress.acknowledge(n) for n in (4, 4, 2, 7, 0, 10)] == [4, 0, 0, 3, 0, 3]
        assert (progress.acked, progress.done) == (10, True)

    def test_keep_alives_acknowledge_nothing(self):
        """Not even in a window that contains the sequence number 0."""
        progress = AckProgress(3, TOP)
        assert [progress.acknowledge(n) for n in (0, 0, TOP, 0)] == [0, 0, 1, 0]
        assert not progress.done
        assert progress.acknowledge(1) == 2
        assert progress.done

    def test_no_events(self):
        """A window of 0 is answered with 0."""
        progress = AckProgress(0)
        assert not progress.done
        with pytest.raises(RemoteProtocolError, match="ACK 1 is outside the window"):
            progress.acknowledge(1)
        assert progress.acknowledge(0) == 0
        assert progress.done

    @pytest.mark.parametrize(("first", "number"), [(1, 4), (1, TOP), (5, 4), (5, 8), (TOP - 1, 1)])
    def test_an_ack_outside_the_window(self, first, number):
        """It is an error, and changes nothing."""
        progress = AckProgress(3, first)
        with pytest.raises(RemoteProtocolError, match=f"ACK {number} is outside"):
            progress.acknowledge(number)
        assert progress.acked == 0

    @given(
        st.integers(1, 9),
        st.integers(0, TOP) | st.integers(TOP - 9, TOP),
        st.lists(st.integers(0, 12)),
    )
    def test_any_acks(self, count, first, steps):
        """The acknowledged events are as many as the furthest ACK covers, and never fewer again."""
        progress = AckProgress(count, first)
        furthest = 0
        for step in steps:
            number = (first + step) & TOP
            if number == 0:
                assert progress.acknowledge(number) == 0
            elif step < count:
                further = progress.acknowledge(number)
                assert further == max(0, step + 1 - furthest)
                furthest = max(furthest, step + 1)
            else:
                with pytest.raises(RemoteProtocolError):
                    progress.acknowledge(number)
            assert progress.acked == furthest
            assert progress.done is (furthest == count)
