"""Frames as text and as fields."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.ttrpc.wire.dump import as_fields, cut_frames, describe, masked
from rsocket_trio.ttrpc.wire.envelopes import (
    AnyMessage,
    Request,
    Response,
    Status,
    encode_request,
    encode_response,
)
from rsocket_trio.ttrpc.wire.frames import HEADER, encode_frame
from tests.ttrpc.golden import FRAMES, OBSERVED


@pytest.mark.parametrize("vector", FRAMES, ids=lambda vector: vector["name"])
def test_vectors(vector):
    frame = bytes.fromhex(vector["hex"])
    assert as_fields(frame) == vector["decoded"]
    assert describe(frame).startswith(
        f"{vector['decoded']['type_name'].upper()} stream={vector['decoded']['stream_id']} "
    )


def test_frames_behind_one_another():
    data = bytes.fromhex("".join(OBSERVED))
    assert [frame.hex() for frame in cut_frames(data)] == OBSERVED


def test_a_request_with_all_fields():
    request = Request("a.B", "C", b"\x01", -5, (("k", "v"), ("k", "")))
    frame = encode_frame(3, 1, 2, encode_request(request))
    fields = as_fields(frame)
    assert fields["request"] == {
        "service": "a.B",
        "method": "C",
        "payload_hex": "01",
        "timeout_nano": -5,
        "metadata": [["k", "v"], ["k", ""]],
    }
    json.dumps(fields)
    assert describe(frame) == (
        "REQUEST stream=3 flags=0x02 service='a.B' method='C' timeout=-5 ns 'k': 'v' 'k': ''"
        " payload=1 bytes b'\\x01'"
    )


def test_secrets_are_masked():
    """Values whose keys name secrets, at the same size; what is like them elsewhere stays."""
    pairs = (("Authorization", "Bearer S"), ("x-api-key", "1"), ("trace", "11"))
    frame = encode_frame(3, 1, 0, encode_request(Request("a.B", "C", b"1", 0, pairs)))
    hidden = (("Authorization", "*" * 8), ("x-api-key", "*"), ("trace", "11"))
    expected = encode_frame(3, 1, 0, encode_request(Request("a.B", "C", b"1", 0, hidden)))
    assert masked(frame) == expected


def test_a_response_with_all_fields():
    response = Response(Status(-1, "no", (AnyMessage("t", b"\xff"),)), b"x" * 33)
    frame = encode_frame(3, 2, 0, encode_response(response))
    assert as_fields(frame)["response"] == {
        "status": {"code": -1, "message": "no", "details": [["t", "ff"]]},
        "payload_hex": "78" * 33,
    }
    assert describe(frame) == (
        "RESPONSE stream=3 flags=0x00 code=-1 message='no' details=1"
        f" payload=33 bytes b'{'x' * 32}'..."
    )


def test_types_that_are_none():
    """They have a body, and no envelope."""
    frame = encode_frame(1, 9, 0, b"\xff")
    assert as_fields(frame) == {
        "length": 1,
        "stream_id": 1,
        "type": 9,
        "type_name": "unknown",
        "flags": 0,
        "payload_hex": "ff",
    }
    assert describe(frame) == "UNKNOWN stream=1 flags=0x00 type=9 payload=1 bytes b'\\xff'"


def test_long_and_strange_texts():
    """A line stays one line, and short."""
    request = Request("s" * 1000, "a\nb\x1b\u202e", metadata=(("k", "v"),) * 9)
    text = describe(encode_frame(1, 1, 0, encode_request(request)))
    assert f"service='{'s' * 200}'... method='a\\nb\\x1b\\u202e'" in text
    assert text.count("'k': 'v'") == 4
    assert "'k': 'v' ... payload=0 bytes" in text


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (b"", "0 bytes are no frame"),
        (bytes(9), "9 bytes are no frame"),
        (HEADER.pack(1, 1, 3, 0), "the header says 1 bytes, but 0 follow it"),
        (HEADER.pack(0, 1, 3, 0) + b"x", "the header says 0 bytes, but 1 follow it"),
        (HEADER.pack(2**22 + 1, 1, 3, 0), "a body of 4194305 bytes is longer than the maximum"),
        (encode_frame(1, 1, 0, b"\x0a"), "Request, byte 1: a varint is cut off"),
        (encode_frame(1, 2, 0, b"\x07"), "Response, byte 1: 0 is no field number"),
    ],
)
def test_malformed(frame, match):
    with pytest.raises(MalformedFrame, match=match):
        as_fields(frame)
    assert describe(frame).startswith("malformed (")


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        (b"\0", "incomplete header: 1 of 10 bytes"),
        (HEADER.pack(3, 1, 3, 0) + b"x", "incomplete body: 1 of 3 bytes"),
        (HEADER.pack(2**32 - 1, 1, 3, 0), "a body of 4294967295 bytes is longer than the maximum"),
    ],
)
def test_cutting_ends_with_an_error(rest, text):
    """What is whole comes first."""
    first = encode_frame(1, 3, 0, b"abc")
    frame, error = cut_frames(first + rest)
    assert frame == first
    assert text in str(error)


def test_cutting_nothing():
    (error,) = cut_frames(b"")
    assert str(error) == "incomplete header: 0 of 10 bytes"


@given(st.binary(max_size=60))
def test_any_bytes_have_a_description(data):
    assert describe(data)


@given(st.integers(0, 4), st.binary(max_size=40))
def test_any_body_has_fields_or_is_malformed(number, body):
    frame = encode_frame(1, number, 0, body)
    try:
        fields = as_fields(frame)
    except MalformedFrame:
        assert describe(frame).startswith("malformed (")
    else:
        json.dumps(fields)
        assert not describe(frame).startswith("malformed")
