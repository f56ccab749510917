"""Two sessions with any legal actions, over any division of the bytes, never see a violation."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.rsio.limits import RsioLimits
from rsocket_trio.rsio.rules.events import (
    CancelReceived,
    CompleteReceived,
    ElementsReceived,
    ErrorReceived,
    GoodbyeReceived,
    PackedReceived,
    StreamViolation,
    SubscribedReceived,
    SubscribeReceived,
    Violation,
)
from rsocket_trio.rsio.rules.session import Session
from rsocket_trio.rsio.wire.varint import MAX_VARINT

LIMITS = RsioLimits(split_size=3, max_cancelled=1000)


class Stream:
    """One subscription, as both applications see it."""

    def __init__(self):
        self.sent = []
        self.received = []
        self.size = 0
        self.parts = None
        self.split = b""
        self.outcome = None
        self.cancelled = False


class Side:
    """One end: a session, its application, and what it has sent and the other has not read."""

    def __init__(self, role, dice):
        self.dice = dice
        self.session = Session(role, LIMITS)
        self.wire = bytearray(self.session.hello())
        self.subscribed = {}  # ours, by id
        self.waiting = []  # subscriptions of the other side, not accepted yet
        self.publishing = {}  # accepted ones
        self.names = {}  # of all streams
        self.over = False

    def act(self):
        """Do one thing that is allowed."""
        choices = []
        if self.session.is_open:
            choices += [self.subscribe, self.request, self.cancel] * bool(self.subscribed)
            choices += [self.subscribe, self.accept, self.publish, self.publish, self.finish]
        if choices:
            self.dice.choice(choices)()

    def subscribe(self):
        stream = Stream()
        name = f"{id(self)}/{len(self.names)}"
        demand = self.dice.choice([0, 1, 5, MAX_VARINT])
        subscriber, octets = self.session.subscribe(name, demand)
        assert subscriber not in self.subscribed
        self.names[name] = self.subscribed[subscriber] = stream
        self.wire += octets

    def request(self):
        self.wire += self.session.request(
            self.dice.choice([*self.subscribed]), self.dice.randint(1, 9)
        )

    def cancel(self):
        subscriber = self.dice.choice([*self.subscribed])
        octets = self.session.cancel(subscriber)
        if octets:
            self.subscribed.pop(subscriber).cancelled = True
        self.wire += octets

    def accept(self):
        if self.waiting:
            subscriber, stream = self.waiting.pop()
            stream.size = self.dice.choice([0, 0, 2, 4])
            self.wire += self.session.subscribed(subscriber, stream.size)
            self.publishing[subscriber] = stream

    def publish(self):
        if not self.publishing:
            return
        subscriber = self.dice.choice([*self.publishing])
        stream = self.publishing[subscriber]
        if stream.parts is not None:
            part = next(stream.parts, None)
            if part is not None:
                self.wire += part
                if part[0] == 0x26:
                    stream.sent.append(stream.split)
                return
            stream.parts = None
        count = min(self.session.demand(subscriber), self.dice.randint(0, 4))
        sizes = [stream.size or self.dice.randint(0, 9) for _ in range(count)]
        elements = [self.dice.randbytes(size) for size in sizes]
        if stream.size and elements and self.dice.random() < 0.5:
            self.wire += self.session.packed(subscriber, b"".join(elements))
            stream.sent += elements
        elif elements and self.dice.random() < 0.4:
            stream.split = elements[0]
            stream.parts = self.session.split(subscriber, elements[0])
        else:
            self.wire += self.session.elements(subscriber, elements)
            stream.sent += elements

    def finish(self):
        if self.publishing and self.dice.random() < 0.3:
            subscriber = self.dice.choice([*self.publishing])
            stream = self.publishing.pop(subscriber)
            if stream.parts is not None or self.dice.random() < 0.3:
                stream.outcome = "failed"
                self.wire += self.session.error(subscriber, "failed")
            else:
                stream.outcome = "complete"
                self.wire += self.session.complete(subscriber)

    def hear(self, other):
        """Read some bytes of the other side."""
        count = self.dice.choice([1, 2, 7, 1000])
        self.session.feed(bytes(other.wire[:count]))
        del other.wire[:count]
        while not self.session.needs_data:
            for event in self.session.events(self.dice.choice([1, 2, 100])):
                self.note(event, other)

    def note(self, event, other):
        assert not isinstance(event, Violation | StreamViolation), event
        match event:
            case SubscribeReceived(subscriber, name):
                self.waiting.append((subscriber, other.names[name]))
            case CancelReceived(subscriber):
                self.waiting = [each for each in self.waiting if each[0] != subscriber]
                self.publishing.pop(subscriber, None)
                self.wire += self.session.acknowledge_cancel(subscriber)
            case SubscribedReceived(subscriber, size):
                assert self.subscribed[subscriber].size == size
            case ElementsReceived(subscriber, elements):
                self.subscribed[subscriber].received += elements
            case PackedReceived(subscriber, elements, size, count):
                assert len(elements) == size * count
                self.subscribed[subscriber].received += [
                    elements[at : at + size] for at in range(0, len(elements), size)
                ]
            case CompleteReceived(subscriber):
                stream = self.subscribed.pop(subscriber)
                assert stream.outcome == "complete"
                assert stream.received == stream.sent
            case ErrorReceived(subscriber):
                stream = self.subscribed.pop(subscriber)
                assert stream.outcome == "failed"
                assert stream.received == stream.sent
            case GoodbyeReceived():
                self.over = True
                self.wire += self.session.goodbye("")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300), st.booleans())
def test_legal_actions_are_never_violations(seed, steps, early_goodbye):
    """What one side sends legally, the other accepts, and gets each element once, in order."""
    dice = random.Random(seed)
    client, server = Side("client", dice), Side("server", dice)
    for _ in range(steps):
        side, other = dice.sample([client, server], 2)
        if dice.random() < 0.5:
            side.act()
        else:
            side.hear(other)
    if early_goodbye:
        client.wire += client.session.goodbye("enough")
    while client.wire or server.wire:
        client.hear(server)
        server.hear(client)
    for side in (client, server):
        for stream in side.subscribed.values():
            if early_goodbye:
                assert stream.received == stream.sent[: len(stream.received)]
            else:
                assert stream.received == stream.sent
    if early_goodbye:
        assert client.over
        assert server.over
        assert client.session.goodbye("") == server.session.goodbye("") == b""


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.sampled_from(["client", "server"]), st.booleans(), st.booleans())
def test_any_bytes_give_events(data, role, greeted, subscribed):
    """Any bytes give events, and at most one violation, the last; never another exception."""
    session = Session(role, RsioLimits(max_subscriptions=2))
    session.hello()
    if greeted:
        session.feed(b"\x02\x00\x00" if role == "client" else b"\x01\x00\x00")
        session.events()
        if subscribed:
            session.subscribe("a", 3)
            session.subscribe("b", MAX_VARINT)
            session.feed(b"\x20\x00\x00\x20\x01\x02")
            session.events()
    events = []
    for piece in (data[:7], data[7:]):
        session.feed(piece)
        while not session.needs_data:
            for event in session.events(3):
                events.append(event)
                if isinstance(event, CancelReceived):
                    session.acknowledge_cancel(event.subscriber)
    assert not any(isinstance(event, Violation) for event in events[:-1])
    session.goodbye("done")
