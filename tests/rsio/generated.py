"""Any messages of rsio, and any pieces of bytes, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from rsocket_trio.rsio.wire.messages import (
    Cancel,
    ClientHello,
    Extension,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextLastPart,
    OnNextPacked,
    OnNextPart,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from rsocket_trio.rsio.wire.varint import MAX_VARINT

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, MAX_VARINT))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
ELEMENTS = st.one_of(st.binary(max_size=6), st.integers(0, 300).map(bytes))


def size_of(subscriber):
    """The size of the elements of a stream: streams 4 to 9 have elements of one size."""
    return subscriber if 4 <= subscriber <= 9 else 0


def size_for(message):
    """The size of elements that `encode` needs for a message."""
    return size_of(message.subscriber) if type(message) is OnNext else 0


@st.composite
def messages(draw):
    """Any message that can be decoded alone."""
    subscriber = draw(NUMBERS)
    size = size_of(subscriber)
    element = draw(st.binary(min_size=size, max_size=size)) if size else draw(ELEMENTS)
    fixed = draw(st.integers(4, 9))
    block = draw(
        st.integers(1, 5).flatmap(lambda n: st.binary(min_size=n * fixed, max_size=n * fixed))
    )
    number, data = draw(NUMBERS), draw(ELEMENTS)
    extensions = tuple(draw(st.lists(NUMBERS, max_size=4)))
    return draw(
        st.sampled_from(
            [
                ClientHello(0, extensions),
                ServerHello(0, extensions),
                Goodbye(draw(TEXTS)),
                Subscribe(draw(TEXTS), subscriber, number),
                Request(subscriber, number),
                Cancel(subscriber),
                Subscribed(subscriber, min(number, 2**24)),
                OnNext(subscriber, element),
                OnComplete(subscriber),
                OnError(subscriber, draw(TEXTS)),
                OnNextPacked(fixed, len(block) // fixed, block, fixed),
                OnNextPart(subscriber, number, data),
                OnNextLastPart(subscriber, number, data),
                Extension(draw(st.integers(0x40, 0x7F)), data),
            ]
        )
    )


def pieces_of(octets, draw):
    """Bytes, cut anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(octets)), max_size=8)))
    ends = [*cuts, len(octets)]
    return [octets[begin:end] for begin, end in zip([0, *cuts], ends, strict=True)]
