"""What each side may do and send in each state of a stream and of a connection."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.rsio.rules.events import Violation
from rsocket_trio.rsio.rules.session import Session
from tests.rsio.pairs import give, opened_pair

# What we do with a stream of the peer to our publisher, in each of its states.
# bytes: they are sent. None: it is refused as our fault.
OURS = {
    "subscribed": lambda session: session.subscribed(0, 4),
    "refuse": lambda session: session.refuse(0, ""),
    "next": lambda session: session.next(0, b"abcd"),
    "packed": lambda session: session.packed(0, b"abcd"),
    "split": lambda session: b"".join(session.split(0, b"abcd")),
    "complete": lambda session: session.complete(0),
    "error": lambda session: session.error(0, ""),
    "acknowledge": lambda session: session.acknowledge_cancel(0),
}
SENT = {
    "subscribed": "200004",
    "refuse": "200000230000",
    "next": "210061626364",
    "packed": "24000161626364",
    "split": "25000000" + "2600000461626364",
    "complete": "2200",
    "error": "230000",
    "acknowledge": "2200",
}
WAITING = {"subscribed", "refuse"}
ACTIVE = {"next", "packed", "split", "complete", "error"}
STATES_OF_OURS = {
    "unknown": set(),
    "waiting": WAITING,
    "active": ACTIVE,
    "no demand": {"complete", "error"},
    "variable": ACTIVE - {"packed"},
    "cancelled": {*ACTIVE, "acknowledge"},
    "cancelled, waiting": {*WAITING, "acknowledge"},
    "splitting": ACTIVE - {"complete"},
    "ended": set(),
}


def publishing(state):
    """A server in this state of a stream with id 0."""
    client, server = opened_pair(split_size=3)
    if state == "unknown":
        return server
    give(server, client.subscribe("any", 0 if state == "no demand" else 9)[1])
    if "waiting" not in state:
        server.subscribed(0, 0 if state == "variable" else 4)
    if state == "splitting":
        next(server.split(0, b"wxyz"))
    if "cancelled" in state:
        give(server, client.cancel(0))
    if state == "ended":
        server.complete(0)
    return server


@pytest.mark.parametrize("action", OURS)
@pytest.mark.parametrize("state", STATES_OF_OURS)
def test_what_we_send_as_a_publisher(state, action):
    """Each action is sent where it is allowed; elsewhere it is an error and changes nothing."""
    session = publishing(state)
    if action == "acknowledge" and state in ("unknown", "ended"):
        assert OURS[action](session) == b""  # the stream has ended since the cancel was read
        return
    if action not in STATES_OF_OURS[state]:
        with pytest.raises(LocalProtocolError):
            OURS[action](session)
        assert session.is_open
        return
    octets = OURS[action](session)
    if action == "acknowledge" and "waiting" in state:
        assert octets.hex() == "2000002200"
    elif state == "variable" and action == "next":
        assert octets.hex() == "21000461626364"
    elif action == "split":
        element_id = "01" if state == "splitting" else "00"
        assert octets.hex() == f"2500{element_id}03616263" + f"2600{element_id}0164"
    else:
        assert octets.hex() == SENT[action]


# What a publisher may send to us, in each state of our subscription with id 0.
THEIRS = {
    "subscribed": "200000",
    "onNext": "21000161",
    "onNext of 4": "210061626364",
    "onComplete": "2200",
    "onError": "230000",
    "packed": "24000161626364",
    "part": "2500000161",
    "last part": "2600000161",
}
STATES_OF_THEIRS = {
    "unknown": set(),
    "waiting": {"subscribed"},
    "active": {"onNext", "onComplete", "onError", "part"},
    "no demand": {"onComplete", "onError"},
    "fixed": {"onNext of 4", "onComplete", "onError", "packed", "part"},
    "part open": {"onNext", "onError", "part", "last part"},
    "cancelled": {"onNext", "onComplete", "onError", "part", "last part"},
    "cancelled, waiting": {"subscribed"},
    "ended": set(),
}


def subscribing(state):
    """A client in this state of a stream with id 0."""
    client, server = opened_pair()
    if state == "unknown":
        return client
    give(server, client.subscribe("any", 0 if state == "no demand" else 9)[1])
    if "waiting" not in state:
        give(client, server.subscribed(0, 4 if state == "fixed" else 0))
    if state == "part open":
        give(client, bytes.fromhex("2500000161"))
    if "cancelled" in state:
        client.cancel(0)
    if state == "ended":
        give(client, server.complete(0))
    return client


@pytest.mark.parametrize(
    ("state", "message"),
    # Without its length, an element has a meaning only in a stream of elements of one size.
    [
        (state, message)
        for state in STATES_OF_THEIRS
        for message in THEIRS
        if state == "fixed" or message != "onNext of 4"
    ],
)
def test_what_a_publisher_may_send(state, message):
    """Each message is accepted where it is allowed, and elsewhere a connection error."""
    client = subscribing(state)
    events = give(client, bytes.fromhex(THEIRS[message]))
    refused = any(isinstance(event, Violation) for event in events)
    assert refused == (message not in STATES_OF_THEIRS[state] and (state, message) != _INCOMPLETE)
    if "cancelled" in state and not refused:
        assert events == []


# In a stream of four-byte elements, this is the beginning of one.
_INCOMPLETE = ("fixed", "onNext")

# What a subscriber may send to us, in each state of its stream with id 0: does it have an effect?
STATES_OF_SUBSCRIBERS = {
    "unknown": {"subscribe"},
    "waiting": {"request", "cancel"},
    "active": {"request", "cancel"},
    "cancelled": {"subscribe"},
    "ended": {"subscribe"},
}
FROM_SUBSCRIBERS = {"subscribe": "10000000", "request": "110001", "cancel": "1200"}


@pytest.mark.parametrize("message", FROM_SUBSCRIBERS)
@pytest.mark.parametrize("state", STATES_OF_SUBSCRIBERS)
def test_what_a_subscriber_may_send(state, message):
    """A request or cancel of a closed stream is ignored; a second subscribe is refused."""
    server = publishing(state)
    if state == "cancelled" and message == "subscribe":
        server.acknowledge_cancel(0)
    events = give(server, bytes.fromhex(FROM_SUBSCRIBERS[message]))
    if message in STATES_OF_SUBSCRIBERS[state]:
        (event,) = events
        assert not isinstance(event, Violation)
    elif message == "subscribe":
        (event,) = events
        assert event.code == "duplicate-id"
    else:
        assert events == []


def test_a_client_says_hello_first():
    """Before its hello a client sends nothing; behind it, it need not wait for the server's."""
    client = Session("client")
    with pytest.raises(LocalProtocolError):
        client.subscribe("any", 1)
    client.hello()
    assert client.subscribe("any", 1)[1]
    with pytest.raises(LocalProtocolError, match="already sent"):
        client.hello()


def test_a_server_waits_for_the_hello_of_the_client():
    """A server may say hello first, but sends nothing else before the client's hello."""
    server = Session("server")
    server.hello()
    with pytest.raises(LocalProtocolError):
        server.subscribe("any", 1)
    give(server, b"\x01\x00\x00")
    assert server.subscribe("any", 1)[1]


def test_a_goodbye_without_a_hello_begins_with_one():
    """A hello is the first message of each side, also if it has nothing else to say."""
    assert Session("server").goodbye("no").hex() == "020000" + "03026e6f"


@pytest.mark.parametrize("demand", [-1, 2**63])
def test_no_such_demand(demand):
    """Demand is from 0 for a subscribe and from 1 for a request, to 2^63-1."""
    client, _ = opened_pair()
    with pytest.raises(LocalProtocolError):
        client.subscribe("any", demand)
    client.subscribe("any", 1)
    for wrong in (demand, 0):
        with pytest.raises(LocalProtocolError):
            client.request(0, wrong)


@pytest.mark.parametrize("name", ["x" * 1025, "\ud800"])
def test_no_such_name(name):
    """The name of a publisher fits the limit, and is text."""
    client, _ = opened_pair()
    with pytest.raises(LocalProtocolError):
        client.subscribe(name, 1)
    assert client.subscribe("", 1)[0] == 0


def test_extensions_in_use_are_those_of_both():
    """A message of an extension is sent and accepted if both hellos name it."""
    client = Session("client", extensions={1: {0x40}, 300: {0x41, 0x42}})
    server = Session("server", extensions={300: {0x41, 0x42}, 7: {0x43}})
    with pytest.raises(LocalProtocolError):
        client.extension(0x41, b"too early")
    (hello,) = give(server, client.hello())
    assert hello.extensions == (1, 300)
    assert hello.in_use == {300}
    with pytest.raises(LocalProtocolError):
        server.extension(0x41, b"our hello was not sent")
    give(client, server.hello())
    (event,) = give(server, client.extension(0x41, b"content"))
    assert (event.type, event.content) == (0x41, b"content")
    with pytest.raises(LocalProtocolError):
        client.extension(0x40, b"the server does not know it")
    (violation,) = give(server, b"\x40\x00")
    assert violation.code == "unknown-type"


def test_an_extension_message_before_our_hello_is_refused():
    """The peer cannot know yet that we support it (RSIO-13)."""
    server = Session("server", extensions={300: {0x41}})
    give(server, bytes.fromhex("010001ac02"))
    (violation,) = give(server, b"\x41\x00")
    assert violation.code == "unknown-type"


@pytest.mark.parametrize("extensions", [{0: ()}, {1: {0x3F}}, {1: {0x80}}, {2**63: ()}])
def test_no_such_extension(extensions):
    """Ids begin at 1, and the types of messages are 0x40 to 0x7f."""
    with pytest.raises(ValueError, match="extension"):
        Session("client", extensions=extensions)


@pytest.mark.parametrize("ours", [True, False])
def test_after_a_goodbye_nothing_is_sent(ours):
    """Behind a goodbye of either side, what belongs to streams gives no bytes."""
    client, server = opened_pair(extensions={1: {0x40}})
    give(server, client.subscribe("any", 9)[1])
    server.subscribed(0, 4)
    server.subscribe("back", 1)
    if ours:
        server.goodbye("")
    else:
        give(server, client.goodbye(""))
    assert not server.is_open
    for action in OURS.values():
        assert action(server) == b""
    assert server.request(0, 1) == server.cancel(0) == server.extension(0x40, b"") == b""
    assert server.demand(0) == 0
    with pytest.raises(LocalProtocolError):
        server.subscribe("more", 1)
