"""What one peer can take is bounded: streams, parts, cancelled ids, work in one turn, texts."""

from __future__ import annotations

import tracemalloc

import pytest

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.rsio.rules.events import (
    CancelReceived,
    ElementsReceived,
    ErrorReceived,
    PackedReceived,
    RequestReceived,
    SubscribeReceived,
    Violation,
)
from rsocket_trio.rsio.wire.messages import OnNextPart, Request, Subscribe, encode
from rsocket_trio.rsio.wire.varint import MAX_VARINT
from rsocket_trio.rsio.wire.violations import ViolationCode
from tests.rsio.pairs import give, opened_pair


def subscribed(client, server, demand, size=0):
    """Open a stream from the client to the server."""
    subscriber, octets = client.subscribe("any", demand)
    give(server, octets)
    give(client, server.subscribed(subscriber, size))
    return subscriber


def test_one_turn_has_a_bound():
    """A flood of small messages is handled some at a time."""
    client, server = opened_pair()
    subscriber = subscribed(client, server, 0)
    server.feed(encode(Request(subscriber, 1)) * 1000)
    turns = []
    while not server.needs_data:
        turns.append(len(server.events(300)))
    assert turns == [300, 300, 300, 100]


def test_messages_without_effect_count_too():
    """Requests and cancels of unknown streams are ignored, but not without a bound."""
    _, server = opened_pair()
    server.feed(b"\x12\x07" * 1000)
    assert server.events(300) == []
    assert not server.needs_data
    assert give(server, b"") == []
    assert server.needs_data


def test_elements_count_one_by_one_and_blocks_once():
    """A run of elements is cut at the bound; a packed block is one message."""
    client, server = opened_pair()
    subscriber = subscribed(client, server, 100)
    client.feed(server.elements(subscriber, [b"x"] * 50))
    assert client.events(30) == [ElementsReceived(subscriber, [b"x"] * 30)]
    assert client.events(30) == [ElementsReceived(subscriber, [b"x"] * 20)]
    packed = subscribed(client, server, 100, size=1)
    client.feed(server.packed(packed, b"y" * 60))
    assert client.events(1) == [PackedReceived(packed, b"y" * 60, 1, 60)]


def test_too_many_streams_are_refused_and_the_connection_goes_on():
    """One stream more than the limit is marked, so that it can be refused."""
    client, server = opened_pair(max_subscriptions=2)
    for number in range(3):
        (event,) = give(server, client.subscribe("any", 1)[1])
        assert event == SubscribeReceived(number, "any", 1, excess=number == 2)
    octets = server.refuse(2, "too many")
    assert isinstance(give(client, octets)[-1], ErrorReceived)
    give(server, client.cancel(0))
    server.acknowledge_cancel(0)
    (event,) = give(server, client.subscribe("any", 1)[1])
    assert not event.excess


def test_more_streams_may_be_cancelled_at_once_than_may_be_unconfirmed():
    """The publisher breaks no rule: it could not confirm any of them yet."""
    client, server = opened_pair(max_cancelled=3)
    octets = [client.subscribe("any", 1) for _ in range(9)]
    give(server, b"".join(each for _, each in octets))
    assert give(server, b"".join(client.cancel(each) for each, _ in octets))
    assert give(client, b"") == []
    with pytest.raises(LocalProtocolError, match="max_cancelled"):
        client.subscribe("any", 1)
    assert give(client, b"".join(server.acknowledge_cancel(each) for each, _ in octets)) == []
    client.subscribe("any", 1)


def test_no_stream_begins_before_the_publisher_has_confirmed_some():
    """So a burst of cancels, which the publisher could not confirm yet, breaks nothing."""
    client, server = opened_pair(max_cancelled=3)
    for _ in range(3):
        subscriber, octets = client.subscribe("any", 1)
        give(server, octets + client.cancel(subscriber))
    with pytest.raises(LocalProtocolError, match="max_cancelled"):
        client.subscribe("any", 1)
    give(client, server.acknowledge_cancel(subscriber))
    client.subscribe("any", 1)


def test_confirmed_cancels_do_not_count():
    client, server = opened_pair(max_cancelled=3)
    for _ in range(20):
        subscriber, octets = client.subscribe("any", 1)
        give(server, octets + client.cancel(subscriber))
        give(client, server.acknowledge_cancel(subscriber))
    assert subscriber < 2


def part(element_id, data=b"x", subscriber=0):
    return encode(OnNextPart(subscriber, element_id, data))


SMALL_PARTS = {"max_element_size": 5, "max_parts_memory": 5}


@pytest.mark.parametrize(
    ("limits", "octets", "message"),
    [
        ({"max_open_elements": 2}, part(0) + part(1) + part(2), "open split elements of stream 0"),
        ({"max_element_size": 5}, part(0, b"abc") + part(0, b"abc"), "element 6, at most 5"),
        (SMALL_PARTS, part(0, b"abc") + part(1, b"abc"), "split elements 6, at most 5"),
    ],
)
def test_parts_are_bounded(limits, octets, message):
    """Elements that have begun are bounded in number and size, for a stream and a connection."""
    client, server = opened_pair(**limits)
    subscribed(client, server, 100)
    (violation,) = give(client, octets)
    assert violation.code is ViolationCode.LIMIT
    assert message in violation.reason


@pytest.mark.parametrize("end", [b"\x26\x00\x00\x00", b"\x23\x00\x00", "cancel"])
def test_parts_give_their_memory_back(end):
    """An element that has ended, failed or is not wanted any more does not count."""
    client, server = opened_pair(**SMALL_PARTS)
    subscribed(client, server, 100)
    give(client, part(0, b"abcde"))
    if end == "cancel":
        client.cancel(0)
    else:
        give(client, end)
    other = subscribed(client, server, 100)
    assert give(client, part(0, b"abcde", other)) == []
    (violation,) = give(client, part(0, b"a", other))
    assert isinstance(violation, Violation)


@pytest.mark.limits_row("rsio: parts of an element")
def test_small_parts_take_only_their_size():
    """A part of one octet takes about one byte, and an empty one none."""
    client, server = opened_pair()
    subscribed(client, server, 1)
    flood = part(0) * 10_000 + part(0, b"") * 10_000
    tracemalloc.start()
    try:
        client.feed(flood)
        while not client.needs_data:
            assert client.events() == []
        del flood
        client.feed(b"")
        assert tracemalloc.get_traced_memory()[0] < 60_000
    finally:
        tracemalloc.stop()


def test_texts_are_cut_before_they_are_sent():
    """The texts that we send are shorter than those that we accept."""
    client, server = opened_pair(sent_text_size=4)
    subscriber = subscribed(client, server, 1)
    (event,) = give(client, server.error(subscriber, "häuser"))
    assert event.text == "häu"
    assert give(client, server.goodbye("goodbye"))[0].reason == "good"


def test_demand_has_a_maximum():
    """Demand that adds up to 2^63-1 is without a bound, and stays so (rule 3.17)."""
    client, server = opened_pair()
    subscriber = subscribed(client, server, MAX_VARINT - 1)
    assert give(server, client.request(subscriber, MAX_VARINT)) == [
        RequestReceived(subscriber, MAX_VARINT)
    ]
    give(client, server.elements(subscriber, [b""] * 3))
    assert server.demand(subscriber) == MAX_VARINT


def test_an_id_is_used_again_before_its_cancel_is_confirmed():
    """The draft lets a subscriber do so. The old stream ends first, then the new one begins."""
    _, server = opened_pair()
    give(server, encode(Subscribe("old", 5, 1)))
    server.subscribed(5)
    server.feed(b"\x12\x05" + encode(Subscribe("new", 5, 2)) + encode(Request(5, 1)))
    assert server.events() == [CancelReceived(5)]
    assert server.next(5, b"late") == b"\x21\x05\x04late"  # It is still the old stream.
    assert server.acknowledge_cancel(5) == b"\x22\x05"
    assert server.events() == [SubscribeReceived(5, "new", 2), RequestReceived(5, 1)]
    assert server.demand(5) == 3


def test_a_cancel_that_is_not_confirmed_is_a_fault_of_ours():
    """The caller has to confirm before it goes on."""
    _, server = opened_pair()
    server.feed(encode(Subscribe("old", 5, 1)) + b"\x12\x05" + encode(Subscribe("new", 5, 2)))
    assert server.events()[-1] == CancelReceived(5)
    with pytest.raises(LocalProtocolError, match="was not acknowledged"):
        server.events()


def test_a_cancel_within_a_split_element_is_confirmed_by_an_error():
    """A completion would promise the rest of the element. The subscriber sees neither."""
    client, server = opened_pair(split_size=2)
    subscriber = subscribed(client, server, 1)
    give(client, next(server.split(subscriber, b"abcdef")))
    give(server, client.cancel(subscriber))
    octets = server.acknowledge_cancel(subscriber)
    assert octets[:2] == bytes([0x23, subscriber])
    assert give(client, octets) == []


def test_a_cancel_before_subscribed_is_confirmed_with_it():
    """The first message of a stream is always subscribed."""
    client, server = opened_pair()
    subscriber, octets = client.subscribe("any", 1)
    give(server, octets + client.cancel(subscriber))
    octets = server.acknowledge_cancel(subscriber)
    assert octets == bytes([0x20, subscriber, 0, 0x22, subscriber])
    assert give(client, octets) == []


def test_nothing_counts_behind_our_goodbye_but_the_goodbye_of_the_peer():
    """What the peer has sent before it knew gives no events."""
    client, server = opened_pair()
    subscriber = subscribed(client, server, 10)
    octets = server.elements(subscriber, [b"x", b"y"]) + server.subscribe("back", 1)[1]
    client.goodbye("done")
    assert give(client, octets + server.complete(subscriber)) == []
    assert not client.goodbye_received
    assert len(give(client, server.goodbye(""))) == 1
    assert client.goodbye_received
    assert give(client, b"\x00\x00") == []
