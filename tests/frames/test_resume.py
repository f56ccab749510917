"""RESUME and RESUME_OK frames."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import ResumeFrame, ResumeOkFrame, decode

U16 = st.integers(0, 2**16 - 1)
U31 = st.integers(0, 2**31 - 1)
U63 = st.integers(0, 2**63 - 1)
RESUME = ResumeFrame(1, 0, b"token", 10, 20)
RESUME_OK = ResumeOkFrame(30)


@given(
    st.builds(ResumeFrame, U16, U16, st.binary(max_size=50), U63, U63, U31)
    | st.builds(ResumeOkFrame, U63, U31)
)
def test_round_trip(frame):
    """All their fields come back: zeros, an empty token, an illegal stream id."""
    assert decode(frame.encode()) == frame


@pytest.mark.parametrize("frame", [RESUME, RESUME_OK], ids=["resume", "resume_ok"])
def test_every_byte_is_needed(frame):
    """Bytes after the last field are ignored."""
    encoded = frame.encode()
    for size in range(len(encoded)):
        with pytest.raises(MalformedFrame):
            decode(encoded[:size])
    assert decode(encoded + b"more") == frame


@pytest.mark.parametrize(
    ("frame", "offset"),
    [(RESUME, 17), (RESUME, 25), (RESUME_OK, 6)],
    ids=["last-server", "first-client", "last-client"],
)
def test_the_reserved_bits(frame, offset):
    """The highest bit of a position is not part of it."""
    encoded = bytearray(frame.encode())
    encoded[offset] |= 0x80
    with pytest.raises(MalformedFrame, match=r"reserved bit before (a|the) position"):
        decode(bytes(encoded))


@pytest.mark.parametrize(
    ("frame", "change", "what"),
    [
        (RESUME, {"major": -1}, "major"),
        (RESUME, {"minor": 2**16}, "minor"),
        (RESUME, {"token": bytes(65_536)}, "resume token"),
        (RESUME, {"last_received_server_position": 2**63}, "last received server"),
        (RESUME, {"first_available_client_position": -1}, "first available client"),
        (RESUME, {"stream_id": -1}, "stream id"),
        (RESUME_OK, {"last_received_client_position": 2**63}, "last received client"),
        (RESUME_OK, {"stream_id": 2**31}, "stream id"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_values_that_do_not_fit(frame, change, what):
    """A value that is too large for its field is a local error."""
    with pytest.raises(LocalProtocolError, match=what):
        attrs.evolve(frame, **change).encode()


def test_the_token_is_not_in_the_repr():
    """A token gives access to its session, so its repr must not put it into logs."""
    assert "token'" not in repr(RESUME)
