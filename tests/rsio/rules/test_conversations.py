"""The golden conversations: a session on one side, the script on the other."""

from __future__ import annotations

import pytest

from rsocket_trio.rsio.rules.events import Violation
from rsocket_trio.rsio.rules.session import Session
from tests.rsio.golden import CONVERSATIONS, by_id
from tests.rsio.pairs import give

HELLOS = {"client": bytes.fromhex("010000"), "server": bytes.fromhex("020000")}


def all_events(session):
    """All events of what was fed."""
    events = session.events()
    while not session.needs_data:
        events += session.events()
    return events


class Mirror:
    """A session that does what the script says about one side.

    Each message of the script is read by a session of the other side, and done by this one, which
    has to produce the same bytes.
    """

    def __init__(self, role):
        self.session = Session(role)
        self.reader = Session("server" if role == "client" else "client")
        self.reader.hello()
        self.sent = b""

    def does(self, data):
        """Do what these bytes say, as an application would, and note the bytes that are sent."""
        self.reader.feed(data)
        for event in all_events(self.reader):
            self.sent += self.act(event)

    def act(self, event):
        session = self.session
        match type(event).__name__:
            case "PeerHello":
                return session.hello()
            case "SubscribeReceived":
                subscriber, octets = session.subscribe(event.publisher, event.initial_demand)
                # The reader, as a publisher, has the same stream.
                assert subscriber == event.subscriber
                return octets
            case "RequestReceived":
                return session.request(event.subscriber, event.demand)
            case "CancelReceived":
                return session.cancel(event.subscriber)
            case "SubscribedReceived":
                return session.subscribed(event.subscriber, event.element_size)
            case "ElementsReceived":
                return session.elements(event.subscriber, event.elements)
            case "PackedReceived":
                return session.packed(event.subscriber, event.elements)
            case "CompleteReceived":
                return session.complete(event.subscriber)
            case "ErrorReceived":
                return session.error(event.subscriber, event.text)
            case "GoodbyeReceived":
                return session.goodbye(event.reason)
        raise AssertionError(event)

    def hears(self, data):
        """Read what the other side has sent; its reader notes it as done."""
        events = give(self.session, data)
        for event in events:
            match type(event).__name__:
                case "SubscribeReceived":
                    got, _ = self.reader.subscribe(event.publisher, event.initial_demand)
                    assert got == event.subscriber
                case "RequestReceived":
                    self.reader.request(event.subscriber, event.demand)
                case "SubscribedReceived":
                    self.reader.subscribed(event.subscriber, event.element_size)
                case "CompleteReceived":
                    self.reader.complete(event.subscriber)
                case "ErrorReceived":
                    self.reader.error(event.subscriber, event.text)
        return events


# C08 has ids from 1, which our sessions would not choose; C14 ends in a violation.
MIRRORED = ["C02", "C04", "C09", "C10", "C13"]


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize(
    "conversation", [each for each in CONVERSATIONS if each["id"] in MIRRORED], ids=by_id
)
def test_one_side_of_a_conversation(conversation, role):
    """A session that does what the script says sends the bytes of the script, and no violation."""
    mirror = Mirror(role)
    other = "server" if role == "client" else "client"
    steps = [step for step in conversation["steps"] if step["from"] != "both"]
    whole = {side: "".join(s["hex"] for s in steps if s["from"] == side) for side in HELLOS}
    prelude = dict.fromkeys(HELLOS, b"")
    if not whole["client"].startswith("010000"):
        prelude = dict(HELLOS)  # These conversations begin behind the hellos.
    mirror.does(prelude[role])
    mirror.hears(prelude[other])
    for step in steps:
        data = bytes.fromhex(step["hex"])
        if step["from"] == role:
            mirror.does(data)
        else:
            assert not any(isinstance(event, Violation) for event in mirror.hears(data))
    assert mirror.sent == prelude[role] + bytes.fromhex(whole[role])


def subscriber_of(conversation):
    """A client whose subscriptions have the ids of the script."""
    client = Session("client")
    client.hello()
    give(client, HELLOS["server"])
    server = Session("server")
    server.hello()
    give(server, HELLOS["client"])
    (request,) = [step for step in conversation["steps"] if step["from"] == "client"]
    for event in give(server, bytes.fromhex(request["hex"])):
        while client.subscribe(event.publisher, event.initial_demand)[0] != event.subscriber:
            pass
    (answer,) = [step for step in conversation["steps"] if step["from"] == "server"]
    return client, bytes.fromhex(answer["hex"])


def shown(events):
    """Events as short tuples."""
    for event in events:
        match type(event).__name__:
            case "ElementsReceived":
                yield from ((event.subscriber, each) for each in event.elements)
            case "PackedReceived":
                elements, size = event.elements, event.size
                yield from (
                    (event.subscriber, elements[at : at + size])
                    for at in range(0, len(elements), size)
                )
            case "SubscribedReceived" | "CompleteReceived" as name:
                yield (event.subscriber, name)


def conversation_of(name):
    return next(each for each in CONVERSATIONS if each["id"] == name)


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_c07_plain_and_packed_elements(piece):
    """Both forms arrive in order, and use up the demand of five."""
    client, answer = subscriber_of(conversation_of("C07"))
    events = []
    for at in range(0, len(answer), piece):
        events += give(client, answer[at : at + piece])
    elements = [(2, number.to_bytes(4)) for number in range(1, 6)]
    assert list(shown(events)) == [
        (2, "SubscribedReceived"),
        *elements,
        (2, "CompleteReceived"),
    ]


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_c08_split_elements(piece):
    """Elements come in the order of the messages that complete them."""
    client, answer = subscriber_of(conversation_of("C08"))
    events = []
    for at in range(0, len(answer), piece):
        events += give(client, answer[at : at + piece])
    found = list(shown(events))
    assert [each for each in found if each[0] == 1] == [
        (1, "SubscribedReceived"),
        (1, b"AAA"),
        (1, b"cc"),
        (1, b"bbb"),
        (1, "CompleteReceived"),
    ]
    assert [each for each in found if each[0] == 2] == [
        (2, "SubscribedReceived"),
        (2, b"0"),
        (2, "CompleteReceived"),
    ]


def test_c14_a_protocol_error():
    """The server answers with its hello and a goodbye that names the violation."""
    first, answer = conversation_of("C14")["steps"][:2]
    server = Session("server")
    *_, violation = give(server, bytes.fromhex(first["hex"]))
    assert server.goodbye(violation.reason).hex() == answer["hex"]


def test_every_conversation_is_played():
    """A conversation that nobody plays would test nothing."""
    assert {each["id"] for each in CONVERSATIONS} == {*MIRRORED, "C07", "C08", "C14"}
