"""SETUP frames."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import SetupFrame, decode

U16 = st.integers(0, 2**16 - 1)
U31 = st.integers(0, 2**31 - 1)
MIME = st.text(st.characters(max_codepoint=127), max_size=255)
PLAIN = SetupFrame(1, 0, 500, 10_000, metadata_mime_type="a/b", data_mime_type="c/d")


@given(
    st.builds(
        SetupFrame,
        U16,
        U16,
        U31,
        U31,
        st.none() | st.binary(max_size=50),
        st.booleans(),
        MIME,
        MIME,
        st.none() | st.binary(max_size=50),
        st.binary(max_size=50),
        U31,
    )
)
def test_round_trip(frame):
    """All fields of a SETUP come back: zeros, an empty token, an illegal stream id."""
    assert decode(frame.encode()) == frame


def test_the_longest_fields():
    """A token of 65,535 bytes and MIME types of 255 characters fit: lengths are unsigned."""
    frame = attrs.evolve(
        PLAIN, resume_token=bytes(65_535), metadata_mime_type="m" * 255, data_mime_type="d" * 255
    )
    assert decode(frame.encode()) == frame


def test_every_prefix_up_to_the_data_is_malformed():
    """A SETUP cut off in any of its fields is malformed."""
    frame = attrs.evolve(PLAIN, resume_token=b"token", metadata=b"metadata").encode()
    for size in range(len(frame)):
        with pytest.raises(MalformedFrame):
            decode(frame[:size])


@pytest.mark.parametrize("offset", [10, 14], ids=["keepalive", "lifetime"])
def test_the_reserved_bits(offset):
    """The highest bit of either time is not part of it."""
    frame = bytearray(PLAIN.encode())
    frame[offset] |= 0x80
    with pytest.raises(MalformedFrame, match="reserved bit before a time"):
        decode(bytes(frame))


@pytest.mark.parametrize("name", [b"a/b", b"c/d"])
def test_a_mime_type_that_is_not_ascii(name):
    """MIME types are US-ASCII: other bytes are refused when they are read."""
    frame = PLAIN.encode().replace(name, b"\xff/\x00")
    with pytest.raises(MalformedFrame, match="not US-ASCII"):
        decode(frame)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"major": 2**16}, "major"),
        ({"minor": -1}, "minor"),
        ({"keepalive_interval_ms": 2**31}, "keepalive interval"),
        ({"max_lifetime_ms": -1}, "max lifetime"),
        ({"resume_token": bytes(65_536)}, "resume token"),
        ({"metadata_mime_type": "ä/b"}, "US-ASCII"),
        ({"data_mime_type": "d" * 256}, "length of a MIME type"),
        ({"metadata": bytes(0x1000000)}, "metadata length"),
        ({"data": bytes(0xFFFFFF)}, "frame length"),
        ({"stream_id": 2**31}, "stream id"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_values_that_do_not_fit(change, what):
    """A value that is too large for its field or frame, or not US-ASCII, is a local error."""
    with pytest.raises(LocalProtocolError, match=what):
        attrs.evolve(PLAIN, **change).encode()


def test_secrets_are_not_in_the_repr():
    """Token and payload of a SETUP may be credentials, so its repr must not put them into logs."""
    text = repr(attrs.evolve(PLAIN, resume_token=b"hush", metadata=b"hush", data=b"hush"))
    assert "hush" not in text
