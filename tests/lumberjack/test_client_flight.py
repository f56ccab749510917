"""The windows on the way: which ACKs a server may send, and how long it may take."""

from __future__ import annotations

from math import inf

import pytest

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.lumberjack.client.deliveries import Delivery
from rsocket_trio.lumberjack.client.flight import Flight
from tests.lumberjack.test_exchanges import SCRIPTS
from tests.lumberjack.vectors import CLIENT_SIDE


def delivery_of(count):
    return Delivery(0, list(range(count)), lambda: None)


def launched(*counts, timeout=30, total=None):
    flight = Flight(len(counts), timeout, total)
    delivery = delivery_of(sum(counts))
    for count in counts:
        flight.launch([delivery.take(count)], 0)
    return flight, delivery


def test_acks_belong_to_the_oldest_window():
    """Each window begins at 1."""
    flight, delivery = launched(3, 2)
    assert not flight.has_room
    assert flight.acknowledge([2], 1) == []
    assert (delivery.acknowledged, flight.events) == (2, 3)
    assert flight.acknowledge([3, 1], 1) == [3]
    assert flight.has_room
    assert flight.acknowledge([2], 1) == [2]
    assert (delivery.acknowledged, delivery.left, bool(flight)) == (5, 0, False)


@pytest.mark.parametrize("numbers", [[4], [3, 3], [2**32 - 1]])
def test_acks_of_events_that_were_not_sent(numbers):
    """They are refused; those before them count."""
    flight, delivery = launched(3, 2)
    with pytest.raises(RemoteProtocolError, match="is outside the window"):
        flight.acknowledge([*numbers, 3], 1)
    assert delivery.acknowledged == (3 if numbers[0] == 3 else 0)


def test_an_ack_without_a_window():
    flight, _ = launched(1)
    flight.acknowledge([1, 0], 1)  # A keep-alive that crossed the end is harmless.
    with pytest.raises(RemoteProtocolError, match="ACK 1, but no events are on the way"):
        flight.acknowledge([1], 1)


@pytest.mark.parametrize("number", [0, 2])
def test_acks_without_end(number):
    """A thousand in a second that acknowledge nothing are too many; some are not."""
    flight, _ = launched(3)
    flight.acknowledge([2], 0)
    for second in range(100):
        flight.acknowledge([number] * 1000, second)
    with pytest.raises(RemoteProtocolError, match="more than 1000 ACKs in a second"):
        flight.acknowledge([number], 99.5)


def test_ack_timeout():
    """Every sign of life begins it again; with nothing on the way there is none."""
    assert Flight(1, 30, None).deadline == inf
    flight, _ = launched(3, total=100)
    assert flight.deadline == 30
    flight.acknowledge([0], 20)
    assert flight.deadline == 50
    flight.alive(25)
    assert flight.deadline == 55
    assert "for 30 s (ack_timeout)" in flight.overdue()
    flight.acknowledge([3], 25)
    assert flight.deadline == inf


def test_sending_is_no_sign_of_life():
    """A second window does not begin the time of the first one again."""
    flight = Flight(2, 30, None)
    flight.launch([delivery_of(1).take(1)], 0)
    flight.launch([delivery_of(1).take(1)], 20)
    assert flight.deadline == 30


def test_ack_deadline():
    """Keep-alives and partial ACKs do not move it; for the second window it begins later."""
    flight, _ = launched(3, 3, total=100)
    flight.acknowledge([0, 1], 90)
    assert flight.deadline == 100
    assert "within 100 s (ack_deadline)" in flight.overdue()
    flight.acknowledge([3], 95)
    assert flight.deadline == 125
    flight.acknowledge([0], 190)
    assert flight.deadline == 195


def test_a_window_after_a_pause():
    """The time of the pause does not count."""
    flight, delivery = launched(1, total=100)
    flight.acknowledge([1], 5)
    flight.launch([Delivery(1, [1], lambda: None).take(1)], 1000)
    assert flight.deadline == 1030
    assert delivery.left == 0


@pytest.mark.parametrize("script", CLIENT_SIDE, ids=lambda script: script["name"])
def test_scripts(script):
    """The recorded frames of servers lead to the expected progress."""
    expected = SCRIPTS[script["name"]]
    if expected is None:
        return  # It is no ACK frame: `AckReader` refuses it.
    flight, delivery = launched(10)
    seen = []
    for text in script["server_hex"]:
        if not text.startswith("<"):
            flight.acknowledge([int(text[4:], 16)], 0)
            seen.append(delivery.acknowledged)
    assert seen == expected
