"""What a peer may not send, at the earliest octet: the golden vectors, and more of them."""

from __future__ import annotations

import random

import pytest

from rsocket_trio.rsio.rules.events import StreamViolation, Violation
from rsocket_trio.rsio.rules.session import Session
from rsocket_trio.rsio.wire.violations import Handling
from tests.rsio.golden import MALFORMED, by_id, sizes_of
from tests.rsio.pairs import give

OF_BYTES = [each for each in MALFORMED if not each.get("well_formed")]
OF_STATE = [each for each in MALFORMED if each.get("well_formed")]
UNKNOWN_IDS = {"E19", "E20"}


def session_for(vector):
    """A session in the state in which a vector arrives.

    The streams of its context are open, unless the vector says that they are not.
    """
    session = Session(vector["receiver_role"])
    session.hello()
    if vector["after_hello"]:
        give(session, bytes.fromhex("010000" if vector["receiver_role"] == "server" else "020000"))
        for subscriber, size in sizes_of(vector).items():
            open_stream(session, subscriber, size, demand=1000)
        if vector["hex"].startswith("2001"):
            open_stream(session, 1, None, demand=1000)  # It waits for this message.
    return session


def open_stream(session, subscriber, size, demand):
    """Subscribe at the peer, with this id."""
    while session.subscribe("any", demand)[0] != subscriber:
        pass
    if size is not None:
        give(session, bytes([0x20, subscriber, size]))


def positions(vector, count, seed):
    """Where to cut: nowhere, everywhere, and at random places."""
    yield []
    yield list(range(1, count))
    dice = random.Random(seed)
    for _ in range(5):
        yield sorted(dice.sample(range(count + 1), k=min(3, count)))


@pytest.mark.parametrize("vector", OF_BYTES, ids=by_id)
def test_malformed(vector):
    """A vector has its violation, or needs more, however it is cut."""
    data = bytes.fromhex(vector["hex"])
    for cuts in positions(vector, len(data), vector["id"]):
        session = session_for(vector)
        events = []
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            events += give(session, data[begin:end])
        if vector["expect"] == "need-more":
            assert events == []
            assert session.pending
        else:
            (violation,) = events
            assert isinstance(violation, Violation)
            assert violation.handling == vector["expect"]
            assert violation.code == vector["code"]


@pytest.mark.parametrize(
    "vector", [each for each in OF_BYTES if "detectable_at_octet" in each], ids=by_id
)
def test_the_earliest_octet(vector):
    """The violation comes with the octet of the vector, and not before."""
    data = bytes.fromhex(vector["hex"])
    at = vector["detectable_at_octet"]
    session = session_for(vector)
    for octet in data[:at]:
        assert give(session, bytes([octet])) == []
    (violation,) = give(session, data[at : at + 1])
    assert violation.code == vector["code"]


def publisher_side(*, active):
    """A server; the client has subscribed with id 1."""
    session = Session("server")
    session.hello()
    give(session, bytes.fromhex("010000"))
    if active:
        give(session, bytes.fromhex("10057469636b730105"))
        session.subscribed(1)
    return session


def subscriber_side(subscriber, size, demand, *, part=b""):
    """A client that has subscribed, and perhaps a part of an element has come."""
    session = Session("client")
    session.hello()
    give(session, bytes.fromhex("020000"))
    open_stream(session, subscriber, size, demand)
    assert give(session, part) == []
    return session


# For each vector: the session in the state that its text describes, and the code.
STATES = {
    "E30": (lambda: publisher_side(active=True), "demand-zero", 2),
    "E32": (lambda: publisher_side(active=True), None, None),
    "E33": (lambda: publisher_side(active=True), "duplicate-id", 7),
    "E35": (lambda: subscriber_side(2, 4, 2), "demand", 2),
    "E36": (lambda: subscriber_side(1, None, 9), "not-subscribed", 1),
    "E37": (lambda: subscriber_side(1, 0, 9), "subscribed-twice", 1),
    "E39": (lambda: subscriber_side(1, 0, 9), "part-missing", 2),
    "E40": (
        lambda: subscriber_side(1, 0, 9, part=bytes.fromhex("2501000161")),
        "parts-open",
        1,
    ),
    "E41": (lambda: subscriber_side(2, 4, 9), "element-size", 10),
}


@pytest.mark.parametrize("vector", OF_STATE, ids=by_id)
def test_wrong_in_this_state(vector):
    """Well-formed messages that the state does not allow: refused at the octet that shows it."""
    state, code, earliest = STATES[vector["id"]]
    data = bytes.fromhex(vector["hex"])
    for cuts in positions(vector, len(data), vector["id"]):
        session = state()
        events = []
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            events += give(session, data[begin:end])
        if vector["expect"] == "ignore":
            assert events == []
            assert session.is_open
        elif vector["expect"] == "stream-error":
            (event,) = events
            assert isinstance(event, StreamViolation)
            assert event.handling == "stream-error"
            assert "3.9" in event.reason
            assert session.error(1, event.reason).startswith(b"\x23\x01")
            assert session.is_open
        else:
            (event,) = events
            assert isinstance(event, Violation)
            assert (event.code, event.handling) == (code, vector["expect"])
    if earliest is not None:
        session = state()
        for octet in data[:earliest]:
            assert give(session, bytes([octet])) == []
        assert len(give(session, data[earliest : earliest + 1])) == 1


def test_each_vector_of_a_state_has_one():
    """A vector that nobody plays would test nothing."""
    assert {each["id"] for each in OF_STATE} == set(STATES)


def waiting():
    """A subscriber that has not been answered."""
    return subscriber_side(1, None, 9)


def varying():
    """A subscriber to elements of different sizes."""
    return subscriber_side(1, 0, 9)


def demandless():
    """A subscriber that has asked for nothing."""
    return subscriber_side(1, 0, 0)


def publishing():
    """A server with one subscriber."""
    return publisher_side(active=True)


# More of the same kind: the state, the bytes, the code, the octet that shows it.
MORE = {
    "hello twice": (publishing, "01", "hello-repeated", 0),
    "hello of our own role": (publishing, "02", "hello-repeated", 0),
    "extension not in use": (publishing, "4000", "unknown-type", 0),
    "number of ten octets": (publishing, "11" + "ff" * 9, "varint-too-long", 9),
    "demand used up": (demandless, "21010161", "demand", 1),
    "demand used up, parts": (demandless, "2501000161", "demand", 2),
    "packed, sizes differ": (varying, "240101", "packed-variable", 1),
    "element before subscribed": (waiting, "2101", "not-subscribed", 1),
    "packed before subscribed": (waiting, "2401", "not-subscribed", 1),
    "complete before subscribed": (waiting, "2201", "not-subscribed", 1),
    "error before subscribed": (waiting, "2301", "not-subscribed", 1),
    "part before subscribed": (waiting, "2501", "not-subscribed", 1),
    "behind complete": (varying, "22012201", "unknown-id", 3),
    "part above the size": (lambda: subscriber_side(2, 4, 9), "25020005", "element-size", 3),
    "last part below it": (lambda: subscriber_side(2, 4, 9), "2502000026020003", "element-size", 7),
    "part of nothing": (varying, "260107", "part-missing", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_more_of_them(name):
    """Each is a connection error at the octet that shows it, and not before."""
    state, octets, code, earliest = MORE[name]
    session = state()
    data = bytes.fromhex(octets)
    events = []
    for octet in data[:earliest]:
        events += give(session, bytes([octet]))
    assert not any(isinstance(each, Violation) for each in events)
    (violation,) = give(session, data[earliest : earliest + 1])
    assert violation.code == code
    assert violation.handling is Handling.CONNECTION_ERROR
    assert violation.reason.startswith(f"protocol error: {code} ")


def test_an_error_may_come_with_open_parts():
    """A failure may drop an element that has begun (a completion may not)."""
    session = subscriber_side(1, 0, 9, part=bytes.fromhex("2501000161"))
    (event,) = give(session, bytes.fromhex("230100"))
    assert event.subscriber == 1


def test_nothing_counts_behind_another_version():
    """A server that sees another version discards what was sent optimistically."""
    session = Session("server")
    (violation,) = give(session, bytes.fromhex("010100" + "10057469636b730001"))
    assert violation.handling is Handling.VERSION_MISMATCH
    assert violation.reason == "unsupported version 1"
    assert give(session, bytes.fromhex("10057469636b730001")) == []
    assert not session.is_open
    farewell = session.goodbye(violation.reason)
    assert farewell == bytes.fromhex("020000") + b"\x03\x15unsupported version 1"
