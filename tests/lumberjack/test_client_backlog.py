"""The queue of events and the windows on the way, against a model: nothing is lost or doubled."""

from __future__ import annotations

import copy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from rsocket_trio.lumberjack import ShipError
from rsocket_trio.lumberjack.client.backlog import Backlog
from rsocket_trio.lumberjack.client.deliveries import Delivery
from rsocket_trio.lumberjack.client.flight import Flight


class Shipping(RuleBasedStateMachine):
    """Two connections and any number of calls.

    The model has for each event one of these states: waiting, on the way, acknowledged.
    """

    calls = Bundle("calls")

    def __init__(self):
        super().__init__()
        self.rings = 0
        self.backlog = Backlog(self.ring)
        self.flights = [Flight(2, 30, None), Flight(2, 30, None)]
        self.model = [[], []]  # Of each connection: the windows, as lists of (call, index).
        self.waiting = []  # (call, index), in the order in which they have to leave.
        self.acknowledged = {}
        self.finished = []
        self.deliveries = {}
        self.dropped = set()

    def ring(self):
        self.rings += 1

    @rule(target=calls, count=st.integers(1, 9))
    def send(self, count):
        number = len(self.deliveries)
        delivery = Delivery(number, list(range(count)), lambda: self.finished.append(number))
        self.deliveries[number] = delivery
        self.acknowledged[number] = set()
        before = self.rings
        self.backlog.add(delivery)
        assert self.rings == before + 1
        self.waiting += [(number, index) for index in range(count)]
        return number

    @rule(which=st.integers(0, 1), size=st.integers(1, 12))
    def launch(self, which, size):
        flight = self.flights[which]
        if not flight.has_room or not self.backlog.waiting:
            return
        pieces = self.backlog.take(size)
        taken = [
            (piece.delivery.number, index)
            for piece in pieces
            for index in range(piece.start, piece.stop)
        ]
        assert taken == self.waiting[:size]
        del self.waiting[:size]
        assert flight.launch(pieces, 0) == len(taken)
        self.model[which].append((len(taken), taken))

    @rule(size=st.integers(1, 12))
    def take_and_give_back(self, size):
        """A window that is not sent changes nothing."""
        if self.backlog.waiting:
            pieces = self.backlog.take(size)
            piece = pieces[-1]
            if len(piece) > 1:
                pieces.append(piece.delivery.split(piece, piece.start + 1))
            assert self.backlog.give_back(pieces) == sum(map(len, pieces))

    @precondition(lambda self: self.model[0])
    @rule(data=st.data())
    def ack_of_the_first(self, data):
        self.ack(0, data)

    @precondition(lambda self: self.model[1])
    @rule(data=st.data())
    def ack_of_the_second(self, data):
        self.ack(1, data)

    def ack(self, which, data):
        size, rest = self.model[which][0]
        number = data.draw(st.integers(1, size))
        complete = self.flights[which].acknowledge([number], 0)
        further = max(0, number - (size - len(rest)))
        for call, index in rest[:further]:
            self.acknowledged[call].add(index)
        del rest[:further]
        assert complete == ([] if rest else [size])
        if not rest:
            del self.model[which][0]

    @rule(which=st.integers(0, 1))
    def lose(self, which):
        back = [event for _, window in self.model[which] for event in window]
        wanted = [event for event in back if event[0] not in self.dropped]
        assert self.backlog.give_back(self.flights[which].land()) == len(wanted)
        self.waiting = sorted([*wanted, *self.waiting])
        self.model[which] = []
        self.flights[which] = Flight(2, 30, None)

    @rule(call=calls)
    def cancel(self, call):
        self.backlog.fail(self.deliveries[call], None)
        if len(self.acknowledged[call]) < len(self.deliveries[call].events):
            self.dropped.add(call)
        self.waiting = [event for event in self.waiting if event[0] != call]

    @rule()
    def give_up(self):
        self.backlog.fail_all(lambda delivery: ShipError("x", delivery.acknowledged))
        for number, delivery in self.deliveries.items():
            complete = len(self.acknowledged[number]) == len(delivery.events)
            if not complete and number not in self.dropped:
                prefix = delivery.failure.acknowledged
                assert set(range(prefix)) <= self.acknowledged[number]
                assert prefix not in self.acknowledged[number]
                self.dropped.add(number)
        self.waiting = []

    @invariant()
    def nothing_is_lost(self):
        assert self.backlog.waiting == len(self.waiting)
        for flight, windows in zip(self.flights, self.model, strict=True):
            assert flight.events == sum(len(rest) for _, rest in windows)
        for number, delivery in self.deliveries.items():
            complete = len(self.acknowledged[number]) == len(delivery.events)
            assert self.finished.count(number) == (complete or number in self.dropped)
            assert delivery.left == len(delivery.events) - len(self.acknowledged[number])


Shipping.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestShipping = Shipping.TestCase


def test_many_small_calls():
    """They leave in order, one by one."""
    backlog = Backlog(lambda: None)
    for number in range(3_000):
        backlog.add(Delivery(number, [b"x"], lambda: None))
    taken = [backlog.take(1)[0].delivery.number for _ in range(3_000)]
    assert taken == list(range(3_000))
    assert not backlog.take(1)


def test_a_ship_error_can_be_copied():
    """Its text, and what is acknowledged, survive."""
    error = copy.copy(ShipError("3 of 4 events are not acknowledged", 1))
    assert (str(error), error.acknowledged) == ("3 of 4 events are not acknowledged", 1)
