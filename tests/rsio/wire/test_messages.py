"""Messages to bytes, and from bytes: the golden vectors."""

from __future__ import annotations

import pytest

from rsocket_trio.rsio.limits import RsioLimits
from rsocket_trio.rsio.wire.decoder import MessageDecoder
from rsocket_trio.rsio.wire.messages import Extension, OnNext, OnNextPacked, encode, truncated
from tests.rsio.golden import MESSAGES, by_id, message_of, sizes_of


def size_of_element(vector):
    """The size of the elements of the only stream of a vector."""
    return next(iter(sizes_of(vector).values()), 0)


@pytest.mark.parametrize("vector", [each for each in MESSAGES if each["id"] != "M28"], ids=by_id)
def test_encode(vector):
    """A message has the bytes of the vector."""
    octets = encode(message_of(vector), element_size=size_of_element(vector))
    assert octets.hex() == vector["hex"]


def decoded(vector, pieces):
    """The messages in pieces of bytes."""
    decoder = MessageDecoder(RsioLimits(), lambda subscriber: sizes_of(vector).get(subscriber, 0))
    messages = []
    for piece in pieces:
        decoder.feed(piece)
        while (message := decoder.next_message()) is not None:
            messages.append(message)
    assert not decoder.pending
    return messages


@pytest.mark.parametrize("vector", MESSAGES, ids=by_id)
def test_decode(vector):
    """The bytes of a vector are one message with its fields."""
    assert decoded(vector, [bytes.fromhex(vector["hex"])]) == [message_of(vector)]


@pytest.mark.parametrize("vector", MESSAGES, ids=by_id)
def test_decode_octet_by_octet(vector):
    """So they are if each octet comes alone. Packed elements come as they arrive."""
    data = bytes.fromhex(vector["hex"])
    messages = decoded(vector, [data[at : at + 1] for at in range(len(data))])
    expected = message_of(vector)
    if type(expected) is OnNextPacked:
        assert [each.count for each in messages] == [1] * expected.count
        joined = b"".join(each.elements for each in messages)
        messages = [
            OnNextPacked(expected.subscriber, len(messages), joined, messages[0].element_size)
        ]
    assert messages == [expected]


@pytest.mark.parametrize(
    "message",
    [
        OnNextPacked(1, 2, b"123", 2),
        OnNextPacked(1, 0, b"", 2),
        OnNextPacked(1, 0, b"", 0),
        Extension(0x3F, b""),
        Extension(0x80, b""),
        OnNext(-1, b""),
    ],
)
def test_what_cannot_be_encoded(message):
    """What no peer could read is not encoded."""
    with pytest.raises(ValueError, match=r"."):
        encode(message)


def test_an_element_of_another_size_cannot_be_encoded():
    """All elements of a stream of elements of one size have this size."""
    with pytest.raises(ValueError, match="has 3 bytes"):
        encode(OnNext(1, b"abc"), element_size=4)


def test_texts_are_cut_between_characters():
    """A text is cut to a number of bytes, but a character stays whole."""
    assert truncated("häuser", 2) == "h"
    assert truncated("häuser", 3) == "hä"
    assert truncated("h\ud800", 9) == "h?"
