"""What parent and workers say to each other, and what a first frame shows: without I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.frames.resume import ResumeFrame
from rsocket_trio.frames.setup import SetupFrame
from rsocket_trio.workers.first_frame import LONGEST, Incomplete, resume_token
from rsocket_trio.workers.messages import (
    MAX_SIZE,
    Answer,
    Ask,
    Closing,
    Counts,
    Handed,
    Malformed,
    Returned,
    Session,
    Unready,
    decode,
    encode,
    token_hash,
)

NUMBERS = st.integers(0, 2**64 - 1)
MESSAGES = st.one_of(
    st.builds(Handed, NUMBERS, st.booleans()),
    st.builds(Ask, st.booleans()),
    st.builds(Unready),
    st.builds(Answer, st.booleans(), st.booleans(), st.binary(max_size=100)),
    st.tuples(NUMBERS, NUMBERS).map(lambda two: Counts(max(two), min(two))),
    st.builds(Returned, NUMBERS),
    st.builds(Session, st.binary().map(token_hash), st.booleans()),
    st.builds(Closing),
)


@given(MESSAGES)
def test_each_message_is_read_as_it_was_written(message) -> None:
    """One datagram is one message."""
    assert decode(encode(message)) == message


@given(
    st.binary(max_size=40)
    | st.tuples(st.sampled_from(b"CAPUNRSX"), st.binary(max_size=20)).map(
        lambda two: bytes([two[0]]) + two[1]
    )
)
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    """Nothing else is raised; what is a message has these bytes and no others."""
    try:
        message = decode(data)
    except Malformed:
        return
    assert encode(message) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no message"),
        (b"X ", "no message"),
        (encode(Handed(1))[:-1] + b"\2", "unknown flags 2"),
        (b"N" + bytes(15) + b"\0" + b"", "more connections|no message"),
        (b"N" + bytes(8) + bytes(7) + b"\1", "more connections have ended"),
        (b"P" + bytes(MAX_SIZE), "no message"),
    ],
)
def test_what_is_malformed(data: bytes, why: str) -> None:
    """The text says what is wrong, and not what the bytes are."""
    if why.startswith("more connections|"):
        assert decode(data) == Counts(0, 0)
        return
    with pytest.raises(Malformed, match=why):
        decode(data)


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(3) + frame


def resume(token: bytes) -> bytes:
    frame = ResumeFrame(
        major=1,
        minor=0,
        token=token,
        last_received_server_position=0,
        first_available_client_position=0,
    )
    return framed(frame.encode())


@given(st.binary(min_size=1, max_size=LONGEST - 15))
def test_the_token_of_a_resume(token: bytes) -> None:
    """It is known as soon as its last byte is there, and not before."""
    head = resume(token)
    for end in range(15 + len(token)):
        assert resume_token(head[:end]) is Incomplete.INCOMPLETE
    for end in range(15 + len(token), len(head) + 1):
        assert resume_token(head[:end]) == token


def test_a_token_that_is_too_long() -> None:
    """It is not waited for: the connection goes to any worker."""
    assert resume_token(resume(b"x" * LONGEST)) is None


@pytest.mark.parametrize(
    "head",
    [
        framed(
            SetupFrame(
                major=1,
                minor=0,
                keepalive_interval_ms=1000,
                max_lifetime_ms=1000,
                metadata_mime_type="a/b",
                data_mime_type="a/b",
            ).encode()
        ),
        b"GET /rsocket HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        framed(b"\0\0\0\1" + resume(b"x" * 16)[7:]),
    ],
    ids=["setup", "http", "tls", "another stream"],
)
def test_what_is_no_resume(head: bytes) -> None:
    """It is known early, so nobody waits for a client that sends no more."""
    assert resume_token(head) is None
    assert resume_token(head[:8]) is None


@given(st.binary(max_size=60))
def test_any_bytes_have_an_answer(head: bytes) -> None:
    """Nothing is raised, whatever a stranger sends."""
    assert resume_token(head) in (None, Incomplete.INCOMPLETE) or head[15:]
