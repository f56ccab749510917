"""Texts about frames for people."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rsocket_trio.frames
import rsocket_trio.reactivesocket.frames
from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames import (
    HEADER,
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    FrameType,
    KeepaliveFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestResponseFrame,
    ResumeFrame,
    SetupFrame,
    as_fields,
    describe,
)

SECRET = b"hush-hush"


@given(
    st.binary(max_size=80)
    | st.builds(
        lambda frame_type, flags, body: HEADER.pack(1, frame_type << 10 | flags) + body,
        st.sampled_from(FrameType),
        st.integers(0, 0x3FF),
        st.binary(max_size=60),
    )
)
def test_any_bytes_are_described_in_one_line(data):
    """For any bytes there is exactly one line, in printable ASCII."""
    line = describe(data)
    assert line.isascii()
    assert line.isprintable()


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (CancelFrame(7), "CANCEL stream_id=7"),
        (
            PayloadFrame(1, next=True, complete=True, metadata=b"m", data=b"pong\n"),
            r"PAYLOAD stream_id=1 flags=MCN metadata=1 bytes data=5 bytes b'pong\n'",
        ),
        (
            ErrorFrame(1, 0x201, b"no"),
            "ERROR stream_id=1 code=APPLICATION_ERROR data=2 bytes b'no'",
        ),
        (ErrorFrame(1, 0x301), "ERROR stream_id=1 code=0x00000301 data=0 bytes"),
        (KeepaliveFrame(True, 9), "KEEPALIVE stream_id=0 flags=R position=9 data=0 bytes"),
        (
            SetupFrame(1, 0, 5, 6, SECRET, True, "a/b", "c/d", SECRET, SECRET),
            (
                "SETUP stream_id=0 flags=MRL major=1 minor=0 keepalive=5 lifetime=6 token=9 bytes"
                " metadata_mime='a/b' data_mime='c/d' metadata=9 bytes data=9 bytes"
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_lines(frame, line):
    """A line has the type, the stream, the flags that are set, and the fields."""
    assert describe(frame.encode()) == line


def test_long_data_is_shortened():
    """Only the beginning of the data is shown."""
    line = describe(RequestResponseFrame(1, data=b"a" * 33).encode())
    assert line.endswith(f"data=33 bytes b'{'a' * 32}'...")
    assert describe(RequestResponseFrame(1, data=b"a" * 32).encode()).endswith("a'")


@pytest.mark.parametrize(
    "frame",
    [
        SetupFrame(1, 0, 5, 6, SECRET, metadata=SECRET, data=SECRET),
        ResumeFrame(1, 0, SECRET, 0, 0),
        MetadataPushFrame(SECRET),
        RequestResponseFrame(1, metadata=SECRET),
    ],
    ids=lambda frame: frame.frame_type.name,
)
def test_secrets_are_not_shown(frame):
    """Metadata, tokens and the setup payload are hidden, wherever the frame is cut."""
    encoded = frame.encode()
    for size in range(len(encoded) + 1):
        line = describe(encoded[:size])
        assert "hush" not in line
        assert SECRET.hex(" ")[:8] not in line


def test_malformed_frames_are_described_by_their_header():
    """The reason, the size and the first six bytes are shown."""
    line = describe(bytes.fromhex("000000012920ffffff") + b"text")
    assert line.startswith("malformed (the metadata")
    assert line.endswith("): 13 bytes, 00 00 00 01 29 20")


def test_the_fields_of_a_frame():
    """Fields are plain values: bytes as hexadecimal text, the absent as None."""
    assert as_fields(PayloadFrame(5, next=True, data=b"\x00\xff").encode()) == {
        "type": "PAYLOAD",
        "type_code": "0x0a",
        "flags": ["N"],
        "flags_hex": "0x020",
        "stream_id": 5,
        "metadata_hex": None,
        "data_hex": "00ff",
        "follows": False,
        "complete": False,
        "next": True,
    }


def test_flags_as_sent_and_as_defined():
    """``flags_hex`` has the flags as sent, ``flags`` only those that the type defines."""
    fields = as_fields(bytes.fromhex("0000000127ff"))
    assert (fields["flags_hex"], fields["flags"]) == ("0x3ff", [])
    fields = as_fields(ExtFrame(1, 2, ignore=True, metadata=b"").encode())
    assert (fields["flags_hex"], fields["flags"]) == ("0x300", ["I", "M"])


def test_malformed_frames_have_no_fields():
    """Malformed bytes raise, as they do in ``decode``."""
    with pytest.raises(MalformedFrame):
        as_fields(b"\x00")


LETTERS_ONLY = {"ignore", "has_metadata", "n_flag"}
"""Flags of the draft's frames that have no entry of their own in a table of fields."""


@pytest.mark.parametrize("protocol", [rsocket_trio.frames, rsocket_trio.reactivesocket.frames])
def test_no_field_is_left_out(protocol):
    """Each field of a frame, of both protocols, has its name in the table of fields."""
    kinds = [
        kind
        for kind in vars(protocol).values()
        if isinstance(kind, type) and hasattr(kind, "frame_type")
    ]
    assert len(kinds) >= 14
    for kind in kinds:
        # Each field has its own value, to find it again.
        values = {field.name: sample(field, at) for at, field in enumerate(attrs.fields(kind), 1)}
        frame = kind(**values)
        table = protocol.as_fields(frame.encode())
        for name, value in values.items():
            shown = value.hex() if isinstance(value, bytes) else value
            if protocol is rsocket_trio.frames or name not in LETTERS_ONLY:
                assert shown in table.values(), f"{kind.__name__}.{name}"
                assert not isinstance(value, bool) or name in table


def sample(field, at):
    if "bool" in str(field.type):
        return True
    if "bytes" in str(field.type):
        return b"%d" % at
    return f"text/{at}" if "str" in str(field.type) else at
