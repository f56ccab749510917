"""Runs of onNext are read fast, and exactly as far as the ordinary way would read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.rsio.limits import RsioLimits
from rsocket_trio.rsio.wire.decoder import MessageDecoder
from rsocket_trio.rsio.wire.messages import OnNext, encode, encode_elements
from rsocket_trio.rsio.wire.runs import read_fixed_run, read_run

SIZES = st.sampled_from([0, 1, 5, 5, 5, 127, 128, 200, 16383, 16384])


@given(st.lists(SIZES, max_size=12), st.integers(0, 300), st.integers(0, 40), st.integers(1, 13))
def test_a_run_of_any_sizes(sizes, subscriber, cut, at_most):
    """A run is whole elements of one stream, no more than asked for, in order."""
    elements = [bytes([number]) * size for number, size in enumerate(sizes)]
    prefix = encode(OnNext(subscriber, b""))[:-1]
    octets = b"".join(encode(OnNext(subscriber, each)) for each in elements)
    data = octets[: len(octets) - cut]
    found, at = read_run(b"??" + data, 2, prefix, at_most, 2**24)
    assert found == elements[: len(found)]
    assert len(found) <= at_most
    rest = data[at - 2 :]
    assert b"".join(encode(OnNext(subscriber, each)) for each in found) + rest == data


@given(st.lists(SIZES, max_size=12), st.integers(0, 300), st.binary(max_size=5))
def test_fast_and_slow_agree(sizes, subscriber, behind):
    """With and without the fast path, the same elements are read."""
    data = encode_elements(subscriber, [bytes(size) for size in sizes]) + behind
    limits = RsioLimits(max_element_size=16384)
    assert read_all(data, limits, fast=True) == read_all(data, limits, fast=False)


def read_all(data, limits, *, fast):
    """All elements in the bytes, up to the first that is not one, and what ended it."""
    decoder = MessageDecoder(limits)
    decoder.feed(data)
    elements = []
    while True:
        if fast and (run := decoder.next_elements(5)):
            elements += [OnNext(run[0], each) for each in run[1]]
            continue
        try:
            message = decoder.next_message()
        except Exception as error:  # which one is compared
            return elements, str(error)
        if message is None:
            return elements, decoder.pending
        elements.append(message)


@given(st.integers(1, 9), st.integers(0, 9), st.binary(max_size=12), st.integers(1, 12))
def test_a_run_of_one_size(size, count, behind, at_most):
    """Elements of one size have no length; a run ends where another message begins."""
    elements = [bytes([number]) * size for number in range(count)]
    data = b"".join(b"\x21\x07" + each for each in elements) + behind
    found, at = read_fixed_run(data, 0, b"\x21\x07", at_most, size)
    assert found[:count] == elements[: len(found)]
    assert len(found) <= at_most
    assert at == len(found) * (size + 2)


def test_the_limit_of_an_element_ends_a_run():
    """A run does not pass an element that is too long: the ordinary way refuses it."""
    data = encode_elements(1, [b"ab", b"abc", b"ab"])
    assert read_run(data, 0, b"\x21\x01", 9, 2) == ([b"ab"], 5)


def test_a_length_with_an_octet_too_many_ends_a_run():
    """A run does not accept what the ordinary way refuses."""
    assert read_run(b"\x21\x01\x01a\x21\x01\x81\x00a", 0, b"\x21\x01", 9, 99) == ([b"a"], 4)
