"""Any value becomes valid JSON in UTF-8, and within its size."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from rsocket_trio.lumberjack import decode_json
from rsocket_trio.lumberjack.log_handler.json_text import (
    MAX_ITEMS,
    MAX_TEXT,
    MAX_VALUES,
    as_text,
    encode_event,
)

LARGE = 2**20


class Odd:
    def __repr__(self):
        raise KeyError("no repr")


def through(value):
    return json.loads(encode_event({"value": value}, LARGE))["value"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/a/b"), "/a/b"),
        (b"\xff", r"b'\xff'"),
        ({1, 2}, "{1, 2}"),
        (float("nan"), "nan"),
        ([float("inf"), 1.5], ["inf", 1.5]),
        ("half \ud800", "half ?"),
        ({"\udfff": "\udfff"}, {"?": "?"}),
        ({(1, 2): 3, None: 4}, {"(1, 2)": 3, "None": 4}),
        (Odd(), "<Odd whose repr raises KeyError>"),
        (object, "<class 'object'>"),
        (10**20, 10**20),
        ([-(2**64) + 1, 2**64, float("nan")], [-(2**64) + 1, hex(2**64), "nan"]),
        ([10**5000], [hex(10**5000)[:MAX_TEXT] + "..."]),
        ({"a": (True, None)}, {"a": [True, None]}),
    ],
)
def test_values(value, found):
    assert through(value) == found


def test_a_value_that_contains_itself():
    loop = []
    loop.append(loop)
    assert "..." in json.dumps(through(loop))
    tree = {}
    tree["me"] = tree
    assert "..." in json.dumps(through(tree))


def test_nodes_that_know_their_parent():
    tree = {"name": "root", "children": []}
    tree["children"] += [{"name": number, "parent": tree} for number in range(900)]
    found = through(tree)  # Without a check of loops, these are 900 * 900 * 900 nodes.
    assert found["children"] == [{"name": number, "parent": "..."} for number in range(900)]


def test_a_value_that_contains_others_many_times():
    value = float("nan")
    for _ in range(6):
        value = [value] * 100  # A text of 100 ** 6 values.
    assert len(json.dumps(through(value))) < 20 * MAX_VALUES


@pytest.mark.parametrize(("before", "last"), [(986, ["nan"]), (987, "...")])
def test_the_last_of_all_values(before, last):
    """A container that has no room for any of its values is not shown as an empty one."""
    nan = float("nan")
    full = [nan] * MAX_ITEMS
    # The event, the value and nine lists are in front, each with itself.
    assert 2 + 9 * (1 + MAX_ITEMS) + 1 + 986 == MAX_VALUES - 2
    assert through([*[full] * 9, [nan] * before, [nan]])[-1] == last


@pytest.mark.parametrize("levels", [300, 100_000])
def test_a_deep_value(levels):
    """Also one that `json` writes, and receivers do not read."""
    deep = []
    for _ in range(levels):
        deep = [deep]
    assert through(deep)


def test_the_text_of_a_value_is_cut():
    class Long:
        def __repr__(self):
            return "x" * 10_000_000

    assert through(Long()) == "x" * MAX_TEXT + "..."
    assert len(as_text("x" * 5000)) == MAX_TEXT + 3


# All that is wrong with values, and texts whose JSON is up to six times as long.
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary()
    | st.text(st.characters(categories=None)) | st.builds(Odd),
    lambda inner: st.lists(inner)
    | st.dictionaries(st.text(st.characters(categories=None)) | st.integers() | st.none(), inner),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.text(), anything), st.integers(20, 2000))
def test_any_event(event, max_size):
    """Our strict reader accepts each text, and it has the size."""
    text = encode_event(event, max_size)
    if text is not None:
        assert len(text) <= max_size
        assert isinstance(decode_json(text), dict)
    whole = encode_event(event, LARGE)
    assert whole is not None
    assert (text == whole) == (len(whole) <= max_size)


def test_at_the_edge_of_the_size():
    event = {"message": "x" * 1000, "log": {"level": "info"}}
    size = len(encode_event(event, LARGE))
    assert len(encode_event(event, size)) == size
    short = json.loads(encode_event(event, size - 1))
    assert short["message"].endswith("x...")
    assert short["log"] == {"level": "info", "flags": ["truncated"]}


@pytest.mark.parametrize("text", ["x", "\0", "é", "\N{GRINNING FACE}", "\ud800"])
def test_a_huge_text_fits_and_much_of_it_stays(text):
    found = encode_event({"message": text * 300_000}, 10_000)
    assert 1000 < len(found) <= 10_000


def test_what_cannot_be_made_shorter():
    assert encode_event({f"key {number}": 1 for number in range(900)}, 1000) is None
