"""The decoder reads any messages in any pieces, and refuses what is none."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.rsio.limits import RsioLimits
from rsocket_trio.rsio.wire.decoder import MessageDecoder
from rsocket_trio.rsio.wire.messages import (
    ClientHello,
    Extension,
    OnNext,
    OnNextPacked,
    encode,
)
from rsocket_trio.rsio.wire.violations import Handling, ProtocolViolation, ViolationCode
from tests.rsio.generated import messages, pieces_of, size_for, size_of


def joined(found):
    """Messages, with neighbouring blocks of one stream as one block."""
    result = []
    for message in found:
        last = result[-1] if result else None
        if type(message) is OnNextPacked is type(last) and message.subscriber == last.subscriber:
            result[-1] = OnNextPacked(
                last.subscriber,
                last.count + message.count,
                last.elements + message.elements,
                last.element_size,
            )
        else:
            result.append(message)
    return result


def read(pieces, limits=None):
    """The messages in pieces of bytes, and the decoder."""
    decoder = MessageDecoder(limits or RsioLimits(), size_of)
    found = []
    for piece in pieces:
        decoder.feed(piece)
        while (message := decoder.next_message()) is not None:
            found.append(message)
    return found, decoder


@given(st.lists(messages(), max_size=8), st.data())
def test_any_messages_in_any_pieces(sent, data):
    """However the bytes are cut, the messages are those that were sent."""
    octets = b"".join(encode(each, element_size=size_for(each)) for each in sent)
    found, decoder = read(pieces_of(octets, data.draw))
    assert joined(found) == joined(sent)
    assert not decoder.pending


@given(st.lists(messages(), max_size=4))
def test_octet_by_octet(sent):
    """So they are if each octet comes alone."""
    octets = b"".join(encode(each, element_size=size_for(each)) for each in sent)
    found, _ = read([octets[at : at + 1] for at in range(len(octets))])
    assert joined(found) == joined(sent)


@given(st.binary(max_size=60), st.data())
def test_any_bytes(octets, data):
    """Any bytes are messages, or a documented violation; how they are cut makes no difference."""

    def outcome(pieces):
        decoder = MessageDecoder(RsioLimits(), size_of)
        found = []
        try:
            for piece in pieces:
                decoder.feed(piece)
                while (message := decoder.next_message()) is not None:
                    found.append(message)
        except ProtocolViolation as violation:
            handling = violation.handling
            with pytest.raises(ProtocolViolation):
                decoder.next_message()
            return joined(found), handling, str(violation)
        return joined(found), decoder.pending

    whole = outcome([octets])
    assert whole[1] in {True, False, Handling.CONNECTION_ERROR, Handling.VERSION_MISMATCH}
    assert outcome(pieces_of(octets, data.draw)) == whole


LIMITS = RsioLimits(
    max_publisher_size=10,
    max_text_size=11,
    max_extensions=2,
    max_extension_size=12,
    max_element_size=13,
    max_part_size=9,
)


@pytest.mark.parametrize(
    ("octets", "limit"),
    [
        ("100b", "publisher name 11, at most 10"),
        ("030c", "goodbye reason 12, at most 11"),
        ("23010c", "error text 12, at most 11"),
        ("010003", "number of extensions 3, at most 2"),
        ("400d", "extension message 13, at most 12"),
        ("21010e", "element 14, at most 13"),
        ("20010e", "elementSize 14, at most 13"),
        ("240404", "packed block 16, at most 13"),
        ("2404ffffffffffffffff7f", "packed block 36893488147419103228, at most 13"),
        ("2501000a", "part 10, at most 9"),
        ("2601000a", "part 10, at most 9"),
    ],
)
def test_a_limit_is_checked_at_the_length(octets, limit):
    """No octet behind a length has to arrive; one octet before, nothing is refused."""
    data = bytes.fromhex(octets)
    found, decoder = read([data[:-1]], LIMITS)
    assert found == []
    decoder.feed(data[-1:])
    with pytest.raises(ProtocolViolation, match=limit) as refused:
        decoder.next_message()
    assert refused.value.code is ViolationCode.LIMIT


@pytest.mark.parametrize(
    "octets",
    ["100a" + 10 * "61" + "0000", "030b" + 11 * "61", "0100020102", "400c" + 12 * "00",
     "21010d" + 13 * "00", "240403" + 12 * "00", "25010009" + 9 * "00"],
)  # fmt: skip
def test_a_limit_can_be_reached(octets):
    """The largest lengths that are allowed are accepted."""
    assert len(read([bytes.fromhex(octets)], LIMITS)[0]) == 1


def test_packed_elements_come_as_they_arrive():
    """Whole elements of a packed message are returned before the rest of it is there."""
    data = encode(OnNextPacked(4, 4, b"aaaabbbbccccdddd", 4))
    decoder = MessageDecoder(RsioLimits(), size_of)
    decoder.feed(data[:13])
    assert decoder.next_message() == OnNextPacked(4, 2, b"aaaabbbb", 4)
    assert decoder.next_message() is None
    assert decoder.pending
    decoder.feed(data[13:] + b"\x40\x00")
    assert decoder.next_message() == OnNextPacked(4, 2, b"ccccdddd", 4)
    assert decoder.next_message() == Extension(0x40, b"")
    assert not decoder.pending


def test_a_packed_element_larger_than_what_is_read_at_once():
    """An element of many reads is returned when it is whole."""
    decoder = MessageDecoder(RsioLimits(), lambda _: 100)
    element = bytes(range(100))
    data = encode(OnNextPacked(4, 2, element + element, 100)) + b"\x40\x00"
    found = []
    for at in range(0, len(data), 7):
        decoder.feed(data[at : at + 7])
        while (message := decoder.next_message()) is not None:
            found.append(message)
    assert found == [OnNextPacked(4, 1, element, 100)] * 2 + [Extension(0x40, b"")]


def test_one_octet_reads_of_a_large_element_are_linear():
    """A large element that arrives octet by octet is joined once, and not copied each time."""
    size = 100_000
    decoder = MessageDecoder(RsioLimits())
    decoder.feed(encode(OnNext(1, bytes(size)))[:-size])
    assert decoder.next_message() is None
    tracemalloc.start()
    try:
        for _ in range(size - 1):
            decoder.feed(b"x")
            assert decoder.next_message() is None
        assert tracemalloc.get_traced_memory()[1] < 2 * size
        decoder.feed(b"x")
        assert decoder.next_message() == OnNext(1, b"x" * size)
    finally:
        tracemalloc.stop()


def test_nothing_is_read_behind_a_violation():
    """The bytes behind a violation are dropped, and it is raised again."""
    decoder = MessageDecoder(RsioLimits())
    decoder.feed(encode(ClientHello(0)) + b"\x00" + bytes(99))
    assert decoder.next_message() == ClientHello(0)
    for _ in range(2):
        with pytest.raises(ProtocolViolation, match="unknown-type 0x00"):
            decoder.next_message()
        decoder.feed(encode(ClientHello(0)))
        assert not decoder.pending


def test_another_version_is_read_no_further():
    """What follows the version of another protocol has no meaning here."""
    decoder = MessageDecoder(RsioLimits())
    decoder.feed(b"\x01\x07\xff\xff\xff")
    with pytest.raises(ProtocolViolation) as refused:
        decoder.next_message()
    assert refused.value.handling is Handling.VERSION_MISMATCH
    assert refused.value.reason == "unsupported version 7"


def test_messages_that_come_in_pieces_leave_nothing_behind():
    """An exception that is raised again and again would keep the octets of each time."""
    decoder = MessageDecoder(RsioLimits())
    octets = encode(OnNext(0, bytes(10_000)))
    tracemalloc.start()
    try:
        for _ in range(300):
            for at in range(0, len(octets), 6000):
                decoder.feed(octets[at : at + 6000])
                message = decoder.next_message()
            assert message is not None
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
