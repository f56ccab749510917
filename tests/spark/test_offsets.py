"""Offsets are the same text for the same places, and anything else is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.spark.spool_source.offsets import Offsets, parse_starting_offsets

spools = st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 2**63 - 1), max_size=5)


@given(spools, st.randoms())
def test_they_are_canonical(places, random):
    """The text does not depend on the order in which they were found."""
    shuffled = list(places.items())
    random.shuffle(shuffled)
    epochs = {each: "e" * (1 + n) for n, each in enumerate(places) if n % 2}
    offsets = Offsets(places, epochs, "me" if len(places) % 2 else None)
    text = json.dumps(offsets.as_json())
    other = Offsets(dict(shuffled), dict(reversed(epochs.items())), offsets.instance)
    assert text == json.dumps(other.as_json())
    assert text == json.dumps(json.loads(text), sort_keys=True)
    assert Offsets.from_json(json.loads(text)) == offsets


def test_a_checkpoint_of_version_1():
    """It is read. What it does not have comes with the next batch."""
    found = Offsets.from_json({"s": {"a": 5}, "v": 1})
    assert (found.spools, found.epochs, found.instance) == ({"a": 5}, {}, None)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["s", "v", "x"]), inner, max_size=3),
    ),
    max_leaves=5,
)


@given(json_values)
def test_anything_else_is_refused(value):
    try:
        found = Offsets.from_json(value)
    except ValueError:
        return
    assert found.as_json() == {**value, "v": 2}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"s": {}, "v": 3}, "the offsets have the version 3"),
        ({"s": {}, "v": True}, "the offsets have the version True"),
        ({"s": {}}, "offsets are like"),
        ({"s": {}, "v": 1, "x": 1}, "offsets are like"),
        ({"s": {"a": 1}, "e": {"b": "x"}, "v": 2}, "epochs of offsets are"),
        ({"s": {"a": 1}, "e": {"a": 1}, "v": 2}, "1 is no name of an epoch or an instance"),
        ({"s": {"a": 1}, "i": "", "v": 2}, "'' is no name of an epoch or an instance"),
        ({"s": {"a": 1}, "i": "x" * 201, "v": 2}, "is no name of an epoch or an instance"),
        ({"s": {"a": -1}, "v": 1}, "-1 is no offset of the spool a"),
        ({"s": {"a": 2**63}, "v": 1}, "is no offset of the spool a"),
        ({"s": {"a": True}, "v": 1}, "True is no offset of the spool a"),
        ({"s": {"a": 1.0}, "v": 1}, "1.0 is no offset of the spool a"),
        ({"s": {"": 1}, "v": 1}, "'' is no spool id"),
        ({"s": {str(n): 0 for n in range(100_001)}, "v": 1}, "more than 100000 spools"),
    ],
)
def test_what_is_wrong(value, text):
    with pytest.raises(ValueError, match=text):
        Offsets.from_json(value)


def test_starting_offsets():
    assert parse_starting_offsets("Earliest") == "earliest"
    assert parse_starting_offsets(" latest") == "latest"
    assert parse_starting_offsets('{"v": 1, "s": {"a": 5}}') == Offsets({"a": 5})


@pytest.mark.parametrize("text", ["newest", "", "{}", "[" * 100_000, '{"v": 1, "s": {"a": "x"}}'])
def test_wrong_starting_offsets(text):
    with pytest.raises(
        ValueError, match=r"endingOffsets must be earliest, latest, or offsets in JSON"
    ):
        parse_starting_offsets(text, option="endingOffsets")
