"""Messages as text and as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.rsio.wire.dump import (
    MessageCutter,
    SizedMessage,
    as_fields,
    cut_frames,
    describe,
    frame_cutter,
)
from rsocket_trio.rsio.wire.messages import Subscribed, encode
from tests.rsio.generated import messages, size_for, size_of
from tests.rsio.golden import CONVERSATIONS, MALFORMED, MESSAGES, by_id


@pytest.mark.parametrize("vector", MESSAGES, ids=by_id)
def test_fields(vector):
    """A message has the fields of its vector, and its name."""
    (frame,) = cut_frames(bytes.fromhex(vector["hex"]))
    assert as_fields(frame) == {"message": vector["message"], **vector["fields"]}
    assert describe(frame).startswith(vector["message"] + " ")


@given(st.lists(messages(), max_size=5))
def test_any_messages_are_cut(sent):
    """Concatenated messages are cut where they were joined; sizes are remembered."""
    cutter = frame_cutter()
    for subscriber in range(4, 10):
        list(cutter(encode(Subscribed(subscriber, size_of(subscriber)))))
    sent = [each for each in sent if type(each) is not Subscribed]
    parts = [encode(each, element_size=size_for(each)) for each in sent]
    if parts:
        frames = list(cutter(b"".join(parts)))
        assert frames == parts
        for frame in frames:
            assert describe(frame).split()[0] == as_fields(frame)["message"]


@given(st.binary(max_size=40))
def test_any_bytes(data):
    """Any bytes are cut into messages and at most one error, the last; nothing else is raised."""
    *before, last = cut_frames(data)
    for frame in before:
        as_fields(frame)
    if not isinstance(last, ValueError):
        as_fields(last)
    assert "\n" not in describe(data)


def test_conversations():
    """The messages of a whole conversation are cut, with the sizes that it declares."""
    conversation = next(each for each in CONVERSATIONS if each["id"] == "C07")
    cutter = MessageCutter()
    names = [
        as_fields(frame)["message"]
        for step in conversation["steps"]
        for frame in cutter(bytes.fromhex(step["hex"]))
    ]
    assert names == ["subscribe", "subscribed", "onNext", "onNextPacked", "onComplete"]


# Those that can be known without the state of a connection.
CODEC = {"E01", "E04", "E14", "E17", "E18", "E25", "E27", "E28", "E29"}


@pytest.mark.parametrize("vector", [each for each in MALFORMED if each["id"] in CODEC], ids=by_id)
def test_malformed(vector):
    """What is no message is an error, and is described as malformed."""
    (problem,) = cut_frames(bytes.fromhex(vector["hex"]))
    assert isinstance(problem, ValueError)
    assert str(problem).startswith(vector.get("code", "incomplete message"))
    assert describe(bytes.fromhex(vector["hex"])).startswith("malformed (")


@pytest.mark.parametrize(
    ("octets", "elements"),
    [("21020000002a", "0000002a"), ("240202aabbccdd", ["aabb", "ccdd"]), ("2102000102", "000102")],
)
def test_a_stream_that_was_not_declared(octets, elements):
    """A single message is read with the size that makes it one."""
    (frame,) = cut_frames(bytes.fromhex(octets))
    fields = as_fields(frame)
    assert fields.get("element", fields.get("elements")) == elements


@pytest.mark.parametrize(
    "octets", ["2402", "240203aabbccdd", "240200", "2481", "2180", "218100", "2102ff"]
)
def test_no_size_makes_it_a_message(octets):
    """What no size explains stays an error."""
    (problem,) = cut_frames(bytes.fromhex(octets))
    assert isinstance(problem, ValueError)


def test_more_than_one_message():
    """A table is of one message."""
    with pytest.raises(MalformedFrame, match="1 bytes follow the message"):
        as_fields(bytes.fromhex("120100"))


def test_long_texts_are_cut():
    """A line about a message has a bounded length."""
    assert len(describe(b"\x03\xe8\x07" + b"x" * 1000)) < 300
    frame = SizedMessage(b"\x24\x01\x7f" + b"x" * 127 * 8)
    frame.element_size = 8
    assert describe(frame).endswith("...")
    assert describe(b"\x40\x7f" + b"x" * 127).endswith("...")
