"""Reassembly is exact, and bounded in bytes and in fragments for any peer."""

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.account import Account
from rsocket_trio.errors import ErrorCode, RemoteProtocolError
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, METADATA, NEXT
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.reassembly import (
    FRAGMENT_COST,
    Reassembler,
    has_payload,
    is_followed,
)


def feed(whole, fragments):
    for fragment in fragments:
        whole.add(*fragment)


FRAGMENTS = st.lists(st.tuples(st.none() | st.binary(max_size=40), st.binary(max_size=40)))


@given(FRAGMENTS)
def test_parts_are_joined_in_order(fragments):
    """Metadata and data are joined separately; metadata after data is accepted."""
    whole = Reassembler(100_000)
    for metadata, data in fragments:
        whole.add(metadata, data)
    parts = [metadata for metadata, _ in fragments if metadata is not None]
    expected = Payload(b"".join(d for _, d in fragments), b"".join(parts) if parts else None)
    assert whole.size == len(expected.data) + len(expected.metadata or b"")
    assert whole.finish() == expected
    assert whole.size == 0


def test_empty_and_absent_metadata_are_told_apart():
    """Metadata of no bytes are not absent."""
    whole = Reassembler(10)
    whole.add(b"", b"x")
    assert whole.finish() == Payload(b"x", b"")


@pytest.mark.parametrize("limit", [1, 31, 64, 1000])
@pytest.mark.parametrize("size", [32, 55, 61])
def test_a_payload_of_exactly_the_limit_passes(limit, size):
    """Fragments may fill the limit to the last byte; one byte more is refused."""
    whole = Reassembler(limit)
    rest = limit
    while rest:
        whole.add(None, bytes(min(size, rest)))
        rest -= min(size, rest)
    with pytest.raises(RemoteProtocolError) as caught:
        whole.add(None, b"x")
    assert caught.value.code == ErrorCode.INVALID


def test_a_refused_payload_is_dropped():
    """Past the limit its bytes are freed, and the error names its stream."""
    budget = Account(1000, "max_reassembly_size", "are not whole")
    whole = Reassembler(100, budget, stream_id=7)
    whole.add(b"m" * 50, b"d" * 40)
    with pytest.raises(RemoteProtocolError) as caught:
        whole.add(b"m" * 5, b"d" * 6)
    assert (caught.value.stream_id, caught.value.code) == (7, ErrorCode.INVALID)
    assert whole.size == budget.held == 0
    assert whole.finish() == Payload()


@pytest.mark.parametrize("fragment", [(None, b""), (b"", b""), (None, b"x")])
def test_the_number_of_fragments_is_limited(fragment):
    """Fragments with few bytes in them are limited in number."""
    whole = Reassembler(3200)
    with pytest.raises(RemoteProtocolError, match="fragments"):
        feed(whole, [fragment] * (3200 // FRAGMENT_COST + 10))


def test_an_endless_payload_costs_its_limit_only():
    """Tiny fragments up to the limit cost memory for their bytes, not for their number."""
    limit = 2**20
    whole = Reassembler(limit)
    piece = bytes(FRAGMENT_COST)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            feed(whole, itertools.repeat((None, piece)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The buffer grows by an eighth, and while it is moved the old one exists beside the new one.
    assert peak < 2.5 * limit


def test_the_budget_is_shared():
    """All unfinished payloads stay within one budget; a payload that exceeds it is refused."""
    budget = Account(100, "max_reassembly_size", "are not whole")
    first, second = Reassembler(90, budget), Reassembler(90, budget, stream_id=3)
    first.add(None, bytes(60))
    second.add(None, bytes(40))
    assert budget.held == 100
    with pytest.raises(RemoteProtocolError) as caught:
        second.add(None, bytes(1))
    assert (caught.value.stream_id, caught.value.code) == (3, ErrorCode.CANCELED)
    assert budget.held == 60  # The bytes of the refused payload are given back.


def test_finish_and_discard_give_back_once():
    """The budget gets back the charged bytes once, also after a second call."""
    budget = Account(1000, "max_reassembly_size", "are not whole")
    first, second = Reassembler(500, budget), Reassembler(500, budget)
    first.add(b"abc", b"")
    second.add(None, bytes(200))
    assert budget.held == FRAGMENT_COST + 200
    first.discard()
    first.discard()
    assert budget.held == 200
    assert second.finish() == Payload(bytes(200))
    second.discard()
    assert budget.held == 0


def test_empty_unfinished_payloads_are_charged():
    """Streams that begin a payload and send no more bytes are bounded by the budget too."""
    budget = Account(10 * FRAGMENT_COST, "max_reassembly_size", "are not whole")
    kept = [Reassembler(100, budget) for _ in range(11)]
    for whole in kept[:10]:
        whole.add(None, b"")
    with pytest.raises(RemoteProtocolError):
        kept[10].add(None, b"")


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("afd"), st.integers(0, 90))))
def test_the_budget_is_the_sum(steps):
    """In any order of calls, the budget never exceeds its limit or leaks."""
    budget = Account(256, "max_reassembly_size", "are not whole")
    wholes = [Reassembler(200, budget) for _ in range(4)]
    for which, step, size in steps:
        whole = wholes[which]
        if step == "a":
            try:
                whole.add(None, bytes(size))
            except RemoteProtocolError:
                assert whole.size == 0
        elif step == "f":
            whole.finish()
        else:
            whole.discard()
        assert sum(w.size for w in wholes) <= budget.held <= budget.limit
    for whole in wholes:
        whole.discard()
    assert budget.held == 0


def test_the_repr_of_unfinished_payloads():
    """It shows them in a log."""
    whole = Reassembler(10)
    whole.add(b"a", b"bc")
    assert repr(whole) == "<Reassembler 3 bytes in 1 fragments>"


@pytest.mark.parametrize(
    ("flags", "followed"),
    [
        (NEXT, False),
        (NEXT | FOLLOWS, True),
        (FOLLOWS, True),
        (NEXT | FOLLOWS | COMPLETE, True),
        (FOLLOWS | COMPLETE, False),
        (NEXT | COMPLETE, False),
        (COMPLETE, False),
        (METADATA | FOLLOWS, True),
    ],
)
def test_follows_is_ignored_on_completion_without_item(flags, followed):
    """F counts, but on a PAYLOAD with C and no item it is ignored."""
    assert is_followed(flags) is followed
    assert is_followed(flags | METADATA) is followed
    assert has_payload(flags) is (followed or bool(flags & NEXT))


def test_the_most_fragments_of_a_payload():
    """One for each 32 bytes of the limit, and two more: the first and the last may be shorter."""
    whole = Reassembler(320)
    for _ in range(12):
        whole.add(None, b"x")
    with pytest.raises(RemoteProtocolError, match="13 fragments for 13 bytes"):
        whole.add(None, b"x")


def test_a_small_fragment_is_charged_with_32_bytes():
    """Its objects use memory too; a larger one is charged with its bytes."""
    budget = Account(100, "max_reassembly_size", "are not whole")
    whole = Reassembler(1000, budget)
    for data, used in ((b"", 32), (bytes(32), 64), (bytes(33), 97)):
        whole.add(None, data)
        assert budget.held == used
