"""Data chosen to cost time: equal hashes, and nested unions."""

import json
import sys
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.codecs.registry import explain
from rsocket_trio.metadata.mime_types import MIME

from .annotated import (
    Animal,
    BoxOfColours,
    Cat,
    Circle,
    Colour,
    Day,
    Dog,
    LooseAndMore,
    MoreOptions,
    Node,
    Pair,
    Place,
    Square,
)

MODULUS = 2**61 - 1
"""The hash of an int is its remainder by this number."""


class Compared(int):
    """A number that counts its comparisons."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other):
        Compared.compared += 1
        return int(self) == int(other)


def alike(count, first=1):
    return [MODULUS * (number + first) + 7 for number in range(count)]


@pytest.mark.parametrize(
    ("annotation", "data", "mime_type"),
    [
        (dict[int, int], json.dumps({str(n): 0 for n in alike(5000)}).encode(), MIME.JSON),
        (set[int], json.dumps(alike(5000)).encode(), MIME.JSON),
        (frozenset[int | None], json.dumps(alike(5000)).encode(), MIME.JSON),
        (set, json.dumps(alike(5000)).encode(), MIME.JSON),
        (set[Any], cbor2.dumps(alike(5000)), MIME.CBOR),
        (set[Decimal], json.dumps([str(n) for n in alike(5000)]).encode(), MIME.JSON),
        (set[tuple[int, int]], json.dumps([[n, 1] for n in alike(5000)]).encode(), MIME.JSON),
    ],
)
def test_keys_with_one_hash_are_refused(annotation, data, mime_type):
    """A set of numbers with one hash takes quadratic time: it is not made."""
    with pytest.raises(CodecError, match="more than 64 of 5000 have the same hash"):
        DEFAULT_CODECS.decode(data, annotation, mime_type)


def test_the_number_of_comparisons():
    """Each of 5 000 keys with one hash is compared with at most 64 others."""
    Compared.compared = 0
    data = json.dumps(alike(5000)).encode()
    with pytest.raises(CodecError, match="have the same hash"):
        DEFAULT_CODECS.decode(data, set[Compared], MIME.JSON)
    assert 0 < Compared.compared < 65 * 65


@pytest.mark.parametrize("count", [1024, 1025])
def test_few_keys_with_one_hash_are_accepted(count):
    """Up to 1024 parts hashes are not counted; of more parts, 64 may have the same."""
    numbers = alike(64) + [n * 3 for n in range(count - 64)]
    data = json.dumps(numbers).encode()
    assert DEFAULT_CODECS.decode(data, set[int], MIME.JSON) == set(numbers)
    numbers = alike(65) + [n * 3 for n in range(count - 65)]
    data = json.dumps(numbers).encode()
    if count == 1024:
        assert DEFAULT_CODECS.decode(data, set[int], MIME.JSON) == set(numbers)
    else:
        with pytest.raises(CodecError, match="more than 64 of 1025 have the same hash"):
            DEFAULT_CODECS.decode(data, set[int], MIME.JSON)


def test_equal_keys_are_not_counted():
    """A list with repeated items becomes a set; and hashes of text cannot be chosen."""
    assert DEFAULT_CODECS.decode(b"[1" + b",1" * 9999 + b"]", set[int], MIME.JSON) == {1}
    numbers = {str(n): n for n in range(5000)}
    data = json.dumps(numbers).encode()
    assert DEFAULT_CODECS.decode(data, dict[str, int], MIME.JSON) == numbers
    assert len(DEFAULT_CODECS.decode(data, dict[int, int], MIME.JSON)) == 5000


@dataclass
class Tree:
    left: "Tree | list[Tree] | Leaf | None" = None
    right: "Tree | list[Tree] | Leaf | None" = None
    value: "dict[str, Tree | Leaf] | int | None" = None


@dataclass
class Leaf:
    leaf: int
    left: int = 0


def test_nested_unions_take_linear_time():
    """A value that is wrong at the bottom is not tried in all combinations."""
    value = {"leaf": "wrong"}
    for level in range(90):
        value = [{"value": {"a": value}}, {"left": [value]}, {"right": value}][level % 3]
    data = cbor2.dumps(value)
    count = SimpleNamespace(calls=0)

    def profile(_frame, event, _arg):
        count.calls += event == "call"

    decode = DEFAULT_CODECS.decoder(Tree, MIME.CBOR)
    with pytest.raises(CodecError):
        decode(cbor2.dumps({"left": 0.5}))  # to compile everything first
    sys.setprofile(profile)
    try:
        with pytest.raises(CodecError, match="leaf: expected int, got str"):
            decode(data)
    finally:
        sys.setprofile(None)
    assert count.calls < 2000


WORDS = """deep wide high name key value must may item more size colour left right children
by_name date int kind radius side bark meow leaf a 1"""

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["red", "green", "circle", "box", "a", "2024-05-06", "1", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS.split()), inner, max_size=5)
    ),
    max_leaves=12,
)
ANNOTATIONS = [
    MoreOptions,
    LooseAndMore,
    Place,
    Pair[Colour | int],
    BoxOfColours,
    Node,
    Day,
    Circle | Square,
    Dog | Cat | Animal,
    Tree,
    list[Dog | int | None],
    dict[str, Place | Node],
    dict[int, set[Colour]],
    set[Place],
    tuple[int, Colour | str],
    list[MoreOptions | LooseAndMore | list[int]],
]


@settings(max_examples=400)
@given(plain, st.sampled_from(ANNOTATIONS), st.sampled_from([MIME.CBOR, MIME.JSON]))
def test_any_value_is_read_or_refused_with_a_place(value, annotation, mime_type):
    """The only error is a CodecError with a place; a value that is read can be written again."""
    data = DEFAULT_CODECS.encode(value, object, mime_type)
    try:
        made = DEFAULT_CODECS.decode(data, annotation, mime_type)
    except CodecError as error:
        text = explain(error, "value")
        assert text.startswith("value")
        assert ": expected " in text
        return
    again = DEFAULT_CODECS.encode(made, annotation, mime_type)
    assert DEFAULT_CODECS.decode(again, annotation, mime_type) == made
