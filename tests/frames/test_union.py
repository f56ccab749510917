"""Bytes of unknown type."""

from __future__ import annotations

import typing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames import HEADER, Frame, FrameType, decode
from rsocket_trio.frames.header import IGNORE

SOME_FRAMES = st.builds(
    lambda stream_id, frame_type, flags, body: (
        HEADER.pack(stream_id, frame_type << 10 | flags) + body
    ),
    st.integers(0, 2**31 - 1),
    st.sampled_from(FrameType),
    st.integers(0, 0x3FF),
    st.binary(max_size=60) | st.binary(max_size=20).map(lambda rest: bytes(12) + rest),
)


def decode_or_error(data):
    try:
        return decode(data)
    except MalformedFrame as problem:
        return problem


@given(st.binary(max_size=80) | SOME_FRAMES)
@example(b"")
def test_any_bytes_are_a_frame_or_malformed(data):
    """There is one error only, and a decoded frame encodes to the same frame."""
    outcome = decode_or_error(data)
    if isinstance(outcome, MalformedFrame):
        assert outcome.ignorable == (len(data) >= 6 and bool(data[4] & 0x02))
    else:
        assert outcome.frame_type == data[4] >> 2
        assert outcome.stream_id == int.from_bytes(data[:4], "big")
        assert decode(outcome.encode()) == outcome


@pytest.mark.parametrize("code", sorted({*range(64)} - {*FrameType}))
@pytest.mark.parametrize("flags", [0, IGNORE])
def test_unknown_types(code, flags):
    """They are malformed, 0 too, and the I flag says whether to skip them."""
    with pytest.raises(MalformedFrame, match=f"frame type 0x{code:02x} is not known") as info:
        decode(HEADER.pack(3, code << 10 | flags) + b"body")
    assert (info.value.ignorable, info.value.stream_id) == (bool(flags), 3)


def test_each_type_has_one_class():
    """The union has exactly one class for each type."""
    assert sorted(cls.frame_type for cls in typing.get_args(Frame)) == sorted(FrameType)
