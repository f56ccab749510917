"""The bounded buffer, without threads: exact edges, and any sequence of steps beside a model."""

from __future__ import annotations

from itertools import chain

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rsocket_trio.lumberjack.log_handler.buffer import OVERHEAD, Buffer, Taken, cost_of

ANY = 10**9


def filled(count, *, max_records=3, max_size=ANY, drop_oldest=False):
    buffer = Buffer(max_records, max_size, drop_oldest=drop_oldest)
    for number in range(count):
        buffer.offer(b"%d" % number)
    return buffer


def waiting(buffer):
    taken = buffer.take(ANY, ANY)
    return list(taken.events) if taken else []


def test_the_newest_is_dropped_at_the_edge():
    buffer = filled(3)
    assert buffer.pending == 3
    assert not buffer.dropped
    assert buffer.is_full
    buffer.offer(b"x")
    assert buffer.dropped == {"full": 1}
    assert waiting(buffer) == [b"0", b"1", b"2"]


def test_the_oldest_is_dropped_at_the_edge():
    buffer = filled(3, drop_oldest=True)
    assert not buffer.dropped
    assert not buffer.is_full
    buffer.offer(b"x")
    assert buffer.dropped == {"oldest": 1}
    assert waiting(buffer) == [b"1", b"2", b"x"]


def test_the_size_counts_to_the_byte():
    exact = 2 * (10 + OVERHEAD)
    buffer = Buffer(ANY, exact, drop_oldest=False)
    buffer.offer(bytes(10))
    assert buffer.has_room(bytes(10))
    assert not buffer.has_room(bytes(11))
    buffer.offer(bytes(11))
    buffer.offer(bytes(10))
    assert buffer.dropped == {"full": 1}
    assert buffer.pending_size == exact


def test_a_large_event_drops_as_many_old_ones_as_it_needs():
    buffer = Buffer(ANY, 3 * (10 + OVERHEAD), drop_oldest=True)
    for _ in range(3):
        buffer.offer(bytes(10))
    buffer.offer(bytes(11))
    assert buffer.dropped == {"oldest": 2}
    assert list(map(len, waiting(buffer))) == [10, 11]


def test_an_event_that_can_never_fit_drops_no_other():
    buffer = Buffer(ANY, 1000, drop_oldest=True)
    buffer.offer(b"old")
    buffer.offer(bytes(1001 - OVERHEAD))
    assert buffer.dropped == {"too_large": 1}
    assert waiting(buffer) == [b"old"]


def test_events_that_are_being_sent_make_no_room():
    """The new event is dropped, and no other, if the room that can be made is too little."""
    buffer = filled(2, max_records=3, drop_oldest=True)
    assert buffer.take(2, ANY)
    buffer.offer(b"a")
    buffer.offer(b"b")
    assert buffer.dropped == {"oldest": 1}
    taken = buffer.take(2, ANY)
    assert taken.events == [b"b"]
    assert buffer.is_full
    buffer.offer(b"c")
    assert buffer.dropped == {"oldest": 1, "full": 1}


def test_the_rest_of_a_batch_is_taken_first_and_as_it_was():
    buffer = filled(3)
    first = buffer.take(2, ANY)
    second = buffer.take(2, ANY)
    buffer.settle(second, 0)
    buffer.settle(first, 1)
    assert buffer.oldest == 1
    assert buffer.waits_from_before(0)
    assert buffer.waiting == 2
    assert buffer.take(ANY, ANY) == Taken(1, [b"1"])
    assert buffer.take(ANY, ANY) == Taken(2, [b"2"])
    assert buffer.take(ANY, ANY) is None


def test_a_batch_has_one_event_at_least():
    buffer = filled(3)
    assert buffer.take(ANY, 1).events == [b"0"]
    assert buffer.take(ANY, 2 * cost_of(b"0")).events == [b"1", b"2"]


def test_what_was_abandoned_cannot_be_settled():
    buffer = filled(3)
    taken = buffer.take(2, ANY)
    buffer.abandon("unsent")
    buffer.settle(taken, 2)
    assert (buffer.acknowledged, buffer.pending, buffer.pending_size) == (0, 0, 0)
    assert buffer.dropped == {"unsent": 3}
    assert buffer.oldest == buffer.next_ordinal


class BufferMachine(RuleBasedStateMachine):
    """Any steps, beside lists that say what must be."""

    @initialize(max_records=st.integers(1, 8), room=st.integers(1, 8), drop_oldest=st.booleans())
    def begin(self, max_records, room, drop_oldest):
        self.max_records, self.max_size = max_records, room * (OVERHEAD + 4)
        self.drop_oldest = drop_oldest
        self.buffer = Buffer(max_records, self.max_size, drop_oldest=drop_oldest)
        self.number = self.offered = self.acknowledged = self.dropped = 0
        self.fresh = []  # (ordinal, event) that wait for the first time
        self.back = []  # lists of them that were given back
        self.flying = []  # (Taken, list of them)

    def pending(self):
        taken = [*self.back, *(each for _, each in self.flying)]
        return [*self.fresh, *chain.from_iterable(taken)]

    def fits(self, event):
        pending = self.pending()
        size = sum(cost_of(each) for _, each in pending) + cost_of(event)
        return len(pending) < self.max_records and size <= self.max_size

    @rule(size=st.integers(1, 20))
    def offer(self, size):
        event = bytes([self.number % 256]) * size
        assert self.buffer.has_room(event) == self.fits(event)
        keep = list(self.fresh)
        lost = 0
        while not self.fits(event) and self.drop_oldest and self.fresh:
            self.fresh.pop(0)
            lost += 1
        if self.fits(event):
            self.fresh.append((self.number, event))
            self.number += 1
            self.dropped += lost
        else:
            self.fresh = keep
            self.dropped += 1
        self.offered += 1
        self.buffer.offer(event)

    @rule(count=st.integers(1, 5), size=st.integers(1, 300))
    def take(self, count, size):
        taken = self.buffer.take(count, size)
        if self.back:
            self.back.sort()
            expected = self.back.pop(0)
        else:
            expected = []
            while self.fresh and len(expected) < count:
                cost = sum(cost_of(each) for _, each in [*expected, self.fresh[0]])
                if expected and cost > size:
                    break
                expected.append(self.fresh.pop(0))
        if not expected:
            assert taken is None
            return
        assert taken.first == expected[0][0]
        assert list(taken.events) == [event for _, event in expected]
        self.flying.append((taken, expected))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), lost=st.sampled_from([None, "undeliverable"]))
    def settle(self, data, lost):
        taken, events = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        done = data.draw(st.integers(0, len(events)))
        self.buffer.settle(taken, done, lost)
        self.buffer.settle(taken, done, lost)  # once more: it counts once
        self.acknowledged += done
        rest = events[done:]
        if rest and lost is None:
            self.back.append(rest)
        else:
            self.dropped += len(rest)

    @rule(rare=st.integers(0, 9))
    def abandon(self, rare):
        if rare:
            return
        self.dropped += len(self.pending())
        self.fresh, self.back, self.flying = [], [], []
        self.buffer.abandon("unsent")

    @invariant()
    def adds_up(self):
        if not hasattr(self, "buffer"):
            return
        buffer, pending = self.buffer, self.pending()
        assert buffer.offered == buffer.acknowledged + sum(buffer.dropped.values()) + buffer.pending
        assert buffer.drops == sum(buffer.dropped.values()) == self.dropped
        assert buffer.offered == self.offered
        assert buffer.acknowledged == self.acknowledged
        assert buffer.pending == len(pending) <= self.max_records
        assert buffer.pending_size == sum(cost_of(each) for _, each in pending) <= self.max_size
        assert buffer.waiting_size == sum(cost_of(each) for _, each in self.fresh)
        assert buffer.waiting == len(self.fresh) + sum(map(len, self.back))
        assert buffer.oldest == min((number for number, _ in pending), default=self.number)
        assert buffer.next_ordinal == self.number


TestBuffer = BufferMachine.TestCase
