"""Valid and invalid first frames, and the SETUP that a client makes of its settings."""

import json
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.errors import (
    ErrorCode,
    InvalidSetup,
    LocalProtocolError,
    MalformedFrame,
    RejectedResume,
    RejectedSetup,
    SetupError,
    UnsupportedSetup,
)
from rsocket_trio.frames import (
    CancelFrame,
    KeepaliveFrame,
    RequestFnfFrame,
    ResumeFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.setup import (
    build_setup,
    check_first_frame,
    check_setup,
    limit_lifetime,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "rsocket.json").read_text())
FIRST_FRAMES = [
    v
    for v in VECTORS
    if v["kind"] == "malformed" and v["context"].startswith("server, first frame")
]
GOOD = SetupFrame(1, 0, 500, 10_000)


def build(**changes):
    settings = {
        "keepalive_interval": 20.0,
        "max_lifetime": 90.0,
        "data_mime_type": "application/cbor",
        "metadata_mime_type": "message/x.rsocket.composite-metadata.v0",
    }
    return build_setup(**settings | changes)


def test_a_plain_setup_is_accepted():
    """A SETUP of version 1.0 on stream 0 passes both checks."""
    assert check_first_frame(GOOD) is GOOD
    check_setup(GOOD)


@pytest.mark.parametrize(
    "frame",
    [
        KeepaliveFrame(respond=True, position=0, data=b""),
        CancelFrame(1),
        RequestFnfFrame(1),
        attrs.evolve(GOOD, stream_id=1),
        ResumeFrame(1, 0, b"token", 0, 0, stream_id=2),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_any_other_first_frame_is_invalid(frame):
    """A frame that is neither SETUP nor RESUME on stream 0 is refused with INVALID_SETUP."""
    with pytest.raises(InvalidSetup):
        check_first_frame(frame)


def test_resume_is_rejected():
    """A RESUME gets its own answer, REJECTED_RESUME."""
    with pytest.raises(RejectedResume) as caught:
        check_first_frame(ResumeFrame(1, 0, b"token", 0, 0))
    assert caught.value.code == ErrorCode.REJECTED_RESUME


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"stream_id": 1}, InvalidSetup),
        ({"major": 2}, InvalidSetup),
        ({"minor": 1}, InvalidSetup),
        ({"major": 0, "minor": 2}, InvalidSetup),
        ({"keepalive_interval_ms": 0}, InvalidSetup),
        ({"max_lifetime_ms": 0}, InvalidSetup),
        ({"resume_token": b"t"}, RejectedSetup),
        ({"resume_token": b""}, RejectedSetup),
        ({"lease": True}, UnsupportedSetup),
        ({"major": 2, "resume_token": b"t", "lease": True}, InvalidSetup),
    ],
)
def test_a_refusal_has_its_own_code(changes, error):
    """Each setting that a server does not accept is refused with its own code."""
    with pytest.raises(SetupError) as caught:
        check_setup(attrs.evolve(GOOD, **changes))
    assert type(caught.value) is error
    assert caught.value.message


def test_offered_extensions_are_accepted():
    """Resumption and leases pass where the server offers them; an empty token never does."""
    check_setup(attrs.evolve(GOOD, resume_token=b"t"), resume_offered=True)
    check_setup(attrs.evolve(GOOD, lease=True), lease_offered=True)
    with pytest.raises(InvalidSetup, match="token"):
        check_setup(attrs.evolve(GOOD, resume_token=b""), resume_offered=True)


def test_mime_types_are_not_checked():
    """The application judges the MIME types."""
    check_setup(attrs.evolve(GOOD, data_mime_type="?!", metadata_mime_type=""))


def outcome(vector):
    """Return the code that the client gets, or None if no check refuses."""
    offered = "resume server" in vector["context"]
    try:
        check_setup(check_first_frame(decode(bytes.fromhex(vector["hex"]))), resume_offered=offered)
    except MalformedFrame:
        return ErrorCode.INVALID_SETUP
    except (SetupError, RejectedResume) as refused:
        return refused.code
    return None


@pytest.mark.parametrize("vector", FIRST_FRAMES, ids=lambda vector: vector["name"])
def test_golden_first_frames(vector):
    """Every bad first frame among the vectors is refused with a code that is expected for it.

    The exception is a token in use, which only a server with sessions can know.
    """
    expected = vector["expect"]
    codes = [expected["error_code"], *expected.get("acceptable_alternatives", [])]
    code = outcome(vector)
    if vector["name"] == "setup_token_in_use":
        assert code is None
    else:
        assert any(f"{ErrorCode(code).name}(" in text for text in codes)


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        (20.0, 20_000),
        (0.001, 1),
        (0.0001, 1),
        (1e-9, 1),
        (0.0016, 2),
        (1.2345, 1234),
        ((2**31 - 1) / 1000, 2**31 - 1),
    ],
)
def test_times_are_rounded_to_milliseconds(seconds, milliseconds):
    """Times are sent in whole milliseconds, and never as 0, which is refused."""
    frame = build(keepalive_interval=seconds, max_lifetime=seconds)
    assert frame.keepalive_interval_ms == frame.max_lifetime_ms == milliseconds
    check_setup(check_first_frame(decode(frame.encode())))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 2**31 / 1000, 2.0**31])
@pytest.mark.parametrize("name", ["keepalive_interval", "max_lifetime"])
def test_times_that_do_not_fit_are_refused(name, seconds):
    """A time that is too large for the field is a local error."""
    with pytest.raises(LocalProtocolError):
        build(**{name: seconds})


@given(
    st.floats(1e-6, (2**31 - 1) / 1000),
    st.floats(1e-6, (2**31 - 1) / 1000),
    st.none() | st.binary(max_size=20),
    st.binary(max_size=20),
)
def test_every_setup_of_a_client_is_accepted(interval, lifetime, metadata, data):
    """A server accepts every SETUP of legal settings, and reads the same settings."""
    frame = build(
        keepalive_interval=interval, max_lifetime=lifetime, payload=Payload(data, metadata)
    )
    received = check_first_frame(decode(frame.encode()))
    check_setup(received)
    assert received == frame
    assert (received.data, received.metadata) == (data, metadata)
    assert abs(received.keepalive_interval_ms - interval * 1000) <= 1


@pytest.mark.parametrize(
    "changes",
    [
        {"data_mime_type": "text/plain\0"},
        {"metadata_mime_type": "\0"},
        {"data_mime_type": "téxt/plain"},
        {"data_mime_type": "a" * 256},
        {"resume_token": b""},
        {"resume_token": bytes(65_536)},
    ],
)
def test_fields_that_do_not_fit_are_refused(changes):
    """A field that the wire cannot or must not carry is a local error."""
    with pytest.raises(LocalProtocolError):
        build(**changes)


def test_options_reach_the_frame():
    """The resume token and the request for leases are in the frame."""
    frame = build(resume_token=b"token", lease=True)
    assert (frame.resume_token, frame.lease) == (b"token", True)


@pytest.mark.parametrize("metadata", [None, b"", b"meta"])
def test_a_setup_payload_must_fit_one_frame(metadata):
    """SETUP is not fragmented: a payload that fills the frame passes, one byte more does not."""
    room = MAX_FRAME_SIZE - len(build(payload=Payload(b"", metadata)).encode())
    frame = build(payload=Payload(bytes(room), metadata))
    assert len(frame.encode()) == MAX_FRAME_SIZE
    with pytest.raises(LocalProtocolError, match="fragmented"):
        build(payload=Payload(bytes(room + 1), metadata))


@pytest.mark.parametrize(("metadata", "data"), [(None, b"12345"), (b"12", b"345"), (b"12345", b"")])
def test_the_size_of_the_payload_is_limited(metadata, data):
    """Metadata and data count together, up to the limit itself."""
    frame = attrs.evolve(GOOD, metadata=metadata, data=data)
    check_setup(frame, max_size=5)
    with pytest.raises(RejectedSetup, match="more than 4 bytes"):
        check_setup(frame, max_size=4)


@pytest.mark.parametrize(
    ("at_most", "milliseconds"),
    [(20.0, 10_000), (10.0, 10_000), (9.9996, 10_000), (0.5, 500), (0.0001, 1)],
)
def test_the_max_lifetime_is_limited(at_most, milliseconds):
    """It is never longer than the limit, in milliseconds, and nothing else changes."""
    limited = limit_lifetime(GOOD, at_most)
    assert limited == attrs.evolve(GOOD, max_lifetime_ms=milliseconds)
