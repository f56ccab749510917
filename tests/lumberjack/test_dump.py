"""Frames as text and as fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.lumberjack import (
    CompressedFrame,
    DataFrame,
    as_fields,
    cut_frames,
    describe,
    encode_batch,
)
from rsocket_trio.lumberjack.wire.dump import SHOWN_FRAMES, SHOWN_INFLATED
from tests.lumberjack.vectors import FRAMES, ack, compressed, event, window

HI_HEX = b'{"message":"hi"}'.hex()


@pytest.mark.parametrize("vector", FRAMES, ids=lambda vector: vector["name"])
def test_vectors(vector):
    """Each vector is cut into frames, and a compressed one shows the bytes inside."""
    frames = list(cut_frames(bytes.fromhex(vector["hex"])))
    assert b"".join(frames).hex() == vector["hex"]
    fields = [as_fields(frame) for frame in frames]
    assert {each["version"] for each in fields} == {int(vector["hex"][1])}
    assert [each["type_code"] for each in fields] == [chr(frame[1]) for frame in frames]
    if "inner_hex" in vector:
        assert fields[-1]["inner_hex"] == vector["inner_hex"]
        assert fields[-1]["inner_complete"] is True
    for frame, each in zip(frames, fields, strict=True):
        assert describe(frame).startswith(f"{each['type']} version={each['version']} ")


@pytest.mark.parametrize(
    ("frame", "fields", "text"),
    [
        (window(3), {"type": "WINDOW", "version": 2, "window": 3}, "window=3"),
        (ack(9, 1), {"type": "ACK", "version": 1, "sequence": 9}, "sequence=9"),
        (
            event(7),
            {"type": "JSON", "version": 2, "sequence": 7, "data_hex": HI_HEX},
            'sequence=7 data=16 bytes b\'{"message":"hi"}\'',
        ),
        (
            event(7, b"x" * 40),
            {"type": "JSON", "version": 2, "sequence": 7, "data_hex": "78" * 40},
            f"sequence=7 data=40 bytes b'{'x' * 32}'...",
        ),
        (
            DataFrame(1, 2, ((b"a", b""),)).encode(),
            {"type": "DATA", "version": 1, "sequence": 2, "pairs_hex": [["61", ""]]},
            "sequence=2 pairs=1 b'a': b''",
        ),
        (
            DataFrame(1, 2, ((b"a", b"b"),) * 4).encode(),
            {"type": "DATA", "version": 1, "sequence": 2, "pairs_hex": [["61", "62"]] * 4},
            "sequence=2 pairs=4 b'a': b'b' b'a': b'b' b'a': b'b' b'a': b'b'",
        ),
        (
            DataFrame(1, 2, ((b"a", b"b"),) * 5).encode(),
            {"type": "DATA", "version": 1, "sequence": 2, "pairs_hex": [["61", "62"]] * 5},
            "sequence=2 pairs=5 b'a': b'b' b'a': b'b' b'a': b'b' b'a': b'b' ...",
        ),
    ],
)
def test_fields_and_text(frame, fields, text):
    assert as_fields(frame) == {**fields, "type_code": chr(frame[1])}
    assert describe(frame) == f"{fields['type']} version={fields['version']} {text}"


def test_a_compressed_frame():
    """It shows the frames inside it."""
    frame = compressed(window(1), event(7))
    fields = as_fields(frame)
    assert fields["inner"] == [as_fields(window(1)), as_fields(event(7))]
    assert fields["payload_hex"] == frame[6:].hex()
    size = len(frame) - 6
    assert describe(frame) == (
        f"COMPRESSED version=2 payload={size} bytes frames=2 [WINDOW version=2 window=1, ...]"
    )
    assert describe(compressed()).endswith(" frames=0")
    assert as_fields(compressed())["inner"] == []


def test_a_compressed_frame_inside_another_one():
    """It is shown, but not opened: each level could multiply the size."""
    inner = compressed(event(1))
    (shown,) = as_fields(compressed(inner))["inner"]
    expected = {"type": "COMPRESSED", "type_code": "C", "version": 2}
    assert shown == {**expected, "payload_hex": inner[6:].hex()}
    assert describe(compressed(inner)).endswith(" frames=1")


@pytest.mark.parametrize(
    ("frames", "shown"),
    [
        ([event(n) for n in range(SHOWN_FRAMES + 1)], SHOWN_FRAMES),
        ([event(n, bytes(SHOWN_INFLATED // 3)) for n in range(4)], 2),
    ],
    ids=["frames", "bytes"],
)
def test_much_content_is_cut_off(frames, shown):
    fields = as_fields(compressed(*frames))
    assert fields["inner_complete"] is False
    assert fields["inner"] == [as_fields(frame) for frame in frames[:shown]]
    assert len(bytes.fromhex(fields["inner_hex"])) <= SHOWN_INFLATED
    assert f"frames=more than {shown} [" in describe(compressed(*frames))


def test_exactly_the_limit_is_complete():
    frames = [event(n) for n in range(SHOWN_FRAMES)]
    assert as_fields(compressed(*frames))["inner_complete"] is True


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (b"", "cut off: there are 0 bytes"),
        (b"2J", "cut off: there are 2 bytes"),
        (b"2C\0\0\0\0", "is empty"),
        (CompressedFrame(2, b"junk").encode(), "no zlib stream"),
        (compressed(b"junk"), "in a compressed frame: no frame begins"),
        (compressed(event(1)[:-1]), "in a compressed frame: the frame is cut off"),
        (event(1) + b"2", "1 bytes behind the frame"),
    ],
)
def test_malformed(frame, match):
    with pytest.raises(MalformedFrame, match=match):
        as_fields(frame)
    assert describe(frame).startswith("malformed (")


def test_cutting_ends_with_an_error():
    """What is whole comes first."""
    batch = encode_batch([b"{}", b"[]"], compression_level=0)
    *frames, error = cut_frames(batch + b"2W\0")
    assert b"".join(frames) == batch
    assert str(error) == "the frame is cut off: there are 3 bytes of it"
    (error,) = cut_frames(b"")
    assert "0 bytes" in str(error)


@given(st.binary(max_size=60))
def test_any_bytes_have_a_description(data):
    assert describe(data)
