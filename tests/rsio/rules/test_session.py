"""Two sessions speak with each other."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.rsio.rules.events import (
    CancelReceived,
    CompleteReceived,
    ElementsReceived,
    ErrorReceived,
    GoodbyeReceived,
    PackedReceived,
    RequestReceived,
    SubscribedReceived,
    SubscribeReceived,
)
from tests.rsio.pairs import give, opened_pair


def test_a_stream():
    """A stream is subscribed, asked for, and ends; its id is then used again."""
    client, server = opened_pair()
    subscriber, octets = client.subscribe("ticks", 1)
    assert give(server, octets) == [SubscribeReceived(subscriber, "ticks", 1)]
    octets = server.subscribed(subscriber) + server.next(subscriber, b"1")
    assert give(client, octets) == [
        SubscribedReceived(subscriber, 0),
        ElementsReceived(subscriber, [b"1"]),
    ]
    assert server.demand(subscriber) == 0
    assert give(server, client.request(subscriber, 2)) == [RequestReceived(subscriber, 2)]
    octets = server.elements(subscriber, [b"2", b"3"]) + server.complete(subscriber)
    assert give(client, octets) == [
        ElementsReceived(subscriber, [b"2", b"3"]),
        CompleteReceived(subscriber),
    ]
    assert client.request(subscriber, 1) == client.cancel(subscriber) == b""
    assert client.events() == []
    assert client.subscribe("ticks", 1)[0] == subscriber


def test_packed_elements():
    """A block of elements arrives as a block."""
    client, server = opened_pair()
    subscriber, octets = client.subscribe("ints", 4)
    give(server, octets)
    give(client, server.subscribed(subscriber, 2))
    assert give(client, server.packed(subscriber, b"aabbcc")) == [
        PackedReceived(subscriber, b"aabbcc", 2, 3)
    ]
    assert server.demand(subscriber) == 1
    with pytest.raises(LocalProtocolError, match="exceed the demand of 1"):
        server.packed(subscriber, b"ddee")


def test_a_cancel_is_confirmed():
    """What arrives behind a cancel gives no events, and the id is free after the last message."""
    client, server = opened_pair()
    subscriber, octets = client.subscribe("ticks", 5)
    give(server, octets)
    late = server.subscribed(subscriber) + server.next(subscriber, b"late")
    assert give(server, client.cancel(subscriber)) == [CancelReceived(subscriber)]
    assert client.subscribe("other", 0)[0] != subscriber
    assert give(client, late + server.acknowledge_cancel(subscriber)) == []
    client.events()
    assert client.subscribe("third", 0)[0] == subscriber


def test_a_refused_subscription():
    """An unknown publisher is subscribed and fails (rule 1.9)."""
    client, server = opened_pair()
    subscriber, octets = client.subscribe("nope", 1)
    give(server, octets)
    assert give(client, server.refuse(subscriber, "no such publisher: nope")) == [
        SubscribedReceived(subscriber, 0),
        ErrorReceived(subscriber, "no such publisher: nope"),
    ]


def test_goodbyes():
    """Each side sends one goodbye, and nothing behind it."""
    client, server = opened_pair()
    subscriber, octets = client.subscribe("ticks", 1)
    give(server, octets)
    assert give(server, client.goodbye("done")) == [GoodbyeReceived("done")]
    assert server.subscribed(subscriber) == b""
    assert give(client, server.goodbye("")) == [GoodbyeReceived("")]
    assert client.goodbye("again") == server.goodbye("again") == b""


def test_a_split_element():
    """A large element is sent in parts, and arrives as one."""
    client, server = opened_pair(split_size=4)
    subscriber, octets = client.subscribe("big", 2)
    give(server, octets)
    give(client, server.subscribed(subscriber))
    parts = list(server.split(subscriber, b"0123456789"))
    assert len(parts) == 3
    assert give(client, b"".join(parts)) == [ElementsReceived(subscriber, [b"0123456789"])]
    assert give(client, b"".join(server.split(subscriber, b""))) == [
        ElementsReceived(subscriber, [b""])
    ]
