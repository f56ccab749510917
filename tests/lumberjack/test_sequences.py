"""Sequence numbers of 32 bits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.lumberjack.wire.sequences import (
    MAX_SEQUENCE,
    distance,
    events_covered,
    last_sequence,
    next_sequence,
)

numbers = st.integers(0, MAX_SEQUENCE) | st.integers(MAX_SEQUENCE - 5, MAX_SEQUENCE)


@given(numbers, st.integers(1, 100))
def test_a_window_anywhere(first, count):
    """The n-th number covers n events, in windows that contain the roll-over too."""
    number = first
    for covered in range(1, count + 1):
        assert number == last_sequence(first, covered)
        assert distance(first, number) == covered - 1
        assert events_covered(first, count, number) == covered
        number = next_sequence(number)
    with pytest.raises(RemoteProtocolError, match=f"ACK {number} is outside"):
        events_covered(first, count, number)


def test_the_roll_over():
    assert next_sequence(MAX_SEQUENCE) == 0
    assert last_sequence(MAX_SEQUENCE, 2) == 0
    assert last_sequence(1, 0) == 0
    assert distance(MAX_SEQUENCE, 1) == 2
    assert distance(1, 0) == MAX_SEQUENCE
    assert events_covered(MAX_SEQUENCE - 1, 5, 2) == 5


def test_a_number_before_the_window():
    """A number that is a little before the window is far behind it."""
    with pytest.raises(RemoteProtocolError, match="ACK 4 is outside the window: 3 events from"):
        events_covered(5, 3, 4)
