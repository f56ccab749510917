"""What a Spark job and the responder of its sink say to each other."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import Invalid
from rsocket_trio.spark.sinks.messages import (
    MAX_MESSAGE,
    AbortRequest,
    CommitReply,
    CommitRequest,
    Opening,
    Staged,
    Welcome,
    decode,
    encode,
)
from tests.spark.sinks.helpers import opening

MESSAGES = [
    opening("a1"),
    Welcome(attempt="a1"),
    Welcome(attempt="a1", committed=True),
    Staged(attempt="a1", rows=2**40),
    CommitRequest(query="q", batch=7, writer="w", winners=["a1", "a2"], rows=3),
    CommitReply(query="q", batch=7, rows=3, repeated=False),
    AbortRequest(query="q", batch=7, writer="w"),
]
CLASSES = sorted({type(each) for each in MESSAGES}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back(message):
    """A message is what it was, after the wire."""
    assert decode(encode(message), type(message)) == message


def test_the_bytes_of_an_opening():
    """The bytes of the documentation: a map with these keys, in any order."""
    found = cbor2.loads(encode(opening("a1", schema="s")))
    assert found == {
        "v": 1, "query": "q", "batch": 0, "partition": 0, "attempt": "a1", "writer": "w",
        "format": "cbor", "schema": "s", "source": "",
    }  # fmt: skip


def test_unknown_keys_are_ignored():
    """A newer peer may say more."""
    data = cbor2.dumps({"attempt": "a", "rows": 1, "checksum": 5})
    assert decode(data, Staged) == Staged(attempt="a", rows=1)


@pytest.mark.parametrize("cls", [Opening, CommitRequest, AbortRequest])
def test_another_version_is_refused_by_its_number(cls):
    """The text says what to do; the other fields may be of any kind in that version."""
    with pytest.raises(Invalid, match="version 2 of the sink protocol is not known"):
        decode(cbor2.dumps({"v": 2, "query": 1}), cls)


WRONG = [
    {"query": ""},
    {"query": "q" * 257},
    {"attempt": ""},
    {"writer": "w" * 300},
    {"batch": -1},
    {"batch": 2**63},
    {"batch": "1"},
    {"batch": True},
    {"batch": 1.0},
    {"partition": -5},
    {"format": "xml"},
    {"format": None},
    {"schema": b"s"},
    {"source": "s" * 257},
    {"source": 1},
]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_fields_are_checked(change):
    """A field of a wrong type, length or range is refused."""
    usual = cbor2.loads(encode(opening("a1")))
    with pytest.raises(Invalid):
        decode(cbor2.dumps(usual | change), Opening)


def test_winners_are_checked():
    """The identities in a commit are as bounded as others."""
    usual = cbor2.loads(encode(MESSAGES[4]))
    for winners in ([""], ["a" * 257], [1], "a"):
        with pytest.raises(Invalid):
            decode(cbor2.dumps(usual | {"winners": winners}), CommitRequest)


def test_large_messages_are_refused_before_they_are_read():
    """A stranger's message has a limit."""
    with pytest.raises(Invalid, match="above"):
        decode(bytes(MAX_MESSAGE + 1), Opening)


@given(data=st.binary(max_size=200), cls=st.sampled_from(CLASSES))
def test_any_bytes_are_a_message_or_invalid(data, cls):
    """No bytes cause another error."""
    try:
        message = decode(data, cls)
    except Invalid:
        return
    assert isinstance(message, cls)


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.floats())


@given(
    data=st.dictionaries(
        st.sampled_from(["v", "query", "batch", "partition", "attempt", "writer", "rows"]),
        st.one_of(_VALUES, st.lists(_VALUES, max_size=3), st.just(1)),
    ),
    cls=st.sampled_from(CLASSES),
)
def test_any_map_is_a_message_or_invalid(data, cls):
    """No values of the keys cause another error."""
    try:
        message = decode(cbor2.dumps(data), cls)
    except Invalid:
        return
    assert isinstance(message, cls)
