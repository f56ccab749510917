"""Frames that are handled, ignored or refused, judged by their headers."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames import FrameType, decode
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, IGNORE, METADATA, NEXT, read_header
from rsocket_trio.protocol.frame_rules import (
    REQUEST_TYPES,
    Verdict,
    judge,
    payload_event,
)
from rsocket_trio.protocol.legality import Event

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "rsocket.json").read_text())
ESTABLISHED = [v for v in VECTORS if v["kind"] == "malformed" and "first frame" not in v["context"]]
# The header alone does not decide about these: streams, values or negotiation do.
NEEDS_STATE = {
    "error_rejected_setup_after_establishment",
    "error_setup_code_at_server",
    "error_stream_code_on_zero",
    "error_unknown_stream",
    "lease_not_negotiated",
    "payload_unknown_stream",
    "request_n_unknown_stream",
    "request_n_zero",
    "request_on_stream_in_use",
}

STREAM_ONLY = [
    FrameType.PAYLOAD,
    FrameType.REQUEST_N,
    FrameType.CANCEL,
]
ZERO_ONLY = [FrameType.KEEPALIVE, FrameType.LEASE, FrameType.METADATA_PUSH]
FLAGS = st.integers(0, 0x3FF)


@given(st.sampled_from(STREAM_ONLY), FLAGS, st.integers(1, 2**31 - 1), st.booleans())
def test_frames_of_streams(frame_type, flags, stream_id, client):
    """They are handled on any stream and ignored on stream 0, with any flags."""
    assert judge(frame_type, flags, stream_id, client=client) is Verdict.HANDLE
    assert judge(frame_type, flags, 0, client=client) is Verdict.IGNORE


@given(st.sampled_from(ZERO_ONLY), FLAGS, st.integers(1, 2**31 - 1), st.booleans())
def test_frames_of_the_connection(frame_type, flags, stream_id, client):
    """They are handled on stream 0 and ignored on others."""
    assert judge(frame_type, flags, 0, client=client) is Verdict.HANDLE
    assert judge(frame_type, flags, stream_id, client=client) is Verdict.IGNORE


@given(FLAGS, st.integers(0, 2**31 - 1), st.booleans())
def test_errors_are_handled_on_all_streams(flags, stream_id, client):
    """An ERROR has a meaning on stream 0 and on all others."""
    assert judge(FrameType.ERROR, flags, stream_id, client=client) is Verdict.HANDLE


@given(st.sampled_from(sorted(REQUEST_TYPES)), FLAGS, st.integers(0, 2**31 - 1))
def test_requests_need_the_peers_parity(frame_type, flags, stream_id):
    """A server handles odd requests, a client even ones; both ignore those on stream 0."""
    odd, even = stream_id % 2 == 1, stream_id % 2 == 0 and stream_id > 0
    at_server = judge(frame_type, flags, stream_id, client=False)
    at_client = judge(frame_type, flags, stream_id, client=True)
    assert at_server is (Verdict.HANDLE if odd else Verdict.IGNORE)
    assert at_client is (Verdict.HANDLE if even else Verdict.IGNORE)


@pytest.mark.parametrize("stream_id", [0, 1, 2])
@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("frame_type", [FrameType.SETUP, FrameType.RESUME_OK])
def test_late_setup_and_resume_ok_are_ignored(frame_type, client, stream_id):
    """A second SETUP, a SETUP at a client and an unexpected RESUME_OK have no effect."""
    assert judge(frame_type, 0, stream_id, client=client) is Verdict.IGNORE


def test_a_late_resume_is_refused_by_a_server():
    """RESUME after SETUP ends a server's connection; clients and other streams ignore it."""
    assert judge(FrameType.RESUME, 0, 0, client=False) is Verdict.REFUSE
    assert judge(FrameType.RESUME, 0, 0, client=True) is Verdict.IGNORE
    assert judge(FrameType.RESUME, 0, 1, client=False) is Verdict.IGNORE


@given(
    st.integers(0, 63).filter(lambda code: code not in set(FrameType) or code == FrameType.EXT),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)
def test_unknown_types_and_extensions(frame_type, stream_id, client):
    """They are skipped with the I flag and refused without."""
    assert judge(frame_type, IGNORE, stream_id, client=client) is Verdict.IGNORE
    assert judge(frame_type, METADATA, stream_id, client=client) is Verdict.REFUSE


def verdict(frame, client):
    try:
        decode(frame)
        frame_type, flags, stream_id = read_header(frame)
    except MalformedFrame as malformed:
        return Verdict.IGNORE if malformed.ignorable else Verdict.REFUSE
    return judge(frame_type, flags, stream_id, client=client)


@pytest.mark.parametrize("vector", ESTABLISHED, ids=lambda vector: vector["name"])
def test_golden_frames(vector):
    """The expected effects of the vectors are the verdicts of decoder and rules."""
    result = verdict(bytes.fromhex(vector["hex"]), vector["context"].startswith("client"))
    expected = vector["expect"]
    if vector["name"] in NEEDS_STATE:
        assert result is Verdict.HANDLE
    elif expected["action"] == "ignore":
        assert result is Verdict.IGNORE
    elif expected["close_connection"]:
        assert result is Verdict.REFUSE
    else:
        assert result is Verdict.HANDLE


@pytest.mark.parametrize(
    ("flags", "event"),
    [
        (NEXT, Event.NEXT),
        (COMPLETE, Event.COMPLETE),
        (NEXT | COMPLETE, Event.NEXT_COMPLETE),
        (NEXT | METADATA | IGNORE, Event.NEXT),
        (COMPLETE | FOLLOWS, Event.COMPLETE),
        (0, None),
        (METADATA, None),
    ],
)
def test_the_event_of_a_payload(flags, event):
    """N is an item, C a completion, and without both a PAYLOAD has no effect."""
    assert payload_event(flags) is event


@pytest.mark.parametrize(
    ("flags", "event"),
    [
        (0, Event.NEXT),
        (NEXT, Event.NEXT),
        (COMPLETE, Event.NEXT_COMPLETE),
        (NEXT | COMPLETE, Event.NEXT_COMPLETE),
    ],
)
def test_payload_event_of_fragments(flags, event):
    """A payload in fragments is an item even if N is missing from them."""
    assert payload_event(flags, reassembled=True) is event
