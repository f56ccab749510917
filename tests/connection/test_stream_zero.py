"""The frames of the connection itself, and those that accept a client's SETUP."""

from __future__ import annotations

import pytest

from rsocket_trio import ClosedByPeer, RejectedSetup
from rsocket_trio.connection.lifecycle import Lifecycle
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.stream_zero import StreamZero
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    FrameType,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
)
from rsocket_trio.frames.header import HEADER, RESPOND

T = FrameType

NO_ACCEPTANCE = {T.SETUP, T.RESUME, T.RESUME_OK, T.EXT}
"""Frames that a server may send before it accepts, or never sends at all."""


class Heard:
    """Stands for the receiver of a METADATA_PUSH, or of a LEASE."""

    def __init__(self):
        self.heard = []

    def receive_metadata_push(self, metadata):
        self.heard.append(metadata)

    def receive(self, frame):
        self.heard.append(frame)


class Parts:
    def __init__(self, *, client=True, established=True, leases=True):
        self.lifecycle = Lifecycle(established=established, peer=lambda: "a peer")
        self.outbox = Outbox(100, 100, 10**9)
        self.requests = Heard()
        self.leases = Heard() if leases else None
        self.zero = StreamZero(
            self.lifecycle, self.outbox, self.requests, self.leases, client=client
        )


async def test_a_keepalive_is_answered_once():
    """A KEEPALIVE with R is answered with the same data without R; others are not answered."""
    parts = Parts()
    parts.zero.receive(KeepaliveFrame(respond=True, position=7, data=b"data"))
    parts.zero.receive(KeepaliveFrame(respond=False, data=b"answer"))
    answer = KeepaliveFrame(respond=False, position=0, data=b"data").encode()
    assert await parts.outbox.take() == [answer]


def test_other_frames_are_passed_on():
    """Metadata goes to the requests; a LEASE goes to the leases, if they are in use."""
    for leases in (True, False):
        parts = Parts(leases=leases)
        parts.zero.receive(MetadataPushFrame(b"pushed"))
        parts.zero.receive(LeaseFrame(1000, 1))
        assert parts.requests.heard == [b"pushed"]
        if parts.leases is not None:
            assert parts.leases.heard == [LeaseFrame(1000, 1)]


@pytest.mark.parametrize(
    ("code", "established", "failure", "announced"),
    [
        (ErrorCode.REJECTED_SETUP, False, RejectedSetup, type(None)),
        (ErrorCode.REJECTED_SETUP, True, type(None), type(None)),
        (ErrorCode.CONNECTION_ERROR, True, ClosedByPeer, type(None)),
        (ErrorCode.APPLICATION_ERROR, True, type(None), type(None)),
        (ErrorCode.CONNECTION_CLOSE, True, type(None), ClosedByPeer),
    ],
)
def test_an_error_on_stream_zero(code, established, failure, announced):
    """It refuses the SETUP, ends the connection, announces its end, or is ignored."""
    parts = Parts(established=established)
    parts.zero.receive(ErrorFrame(0, code, b"why"))
    assert type(parts.lifecycle.failure) is failure
    assert type(parts.lifecycle.announced) is announced


@pytest.mark.parametrize("stream_id", [0, 1])
@pytest.mark.parametrize("flags", [0, RESPOND])
@pytest.mark.parametrize("frame_type", FrameType, ids=lambda each: each.name)
def test_frames_that_accept_a_setup(frame_type, flags, stream_id):
    """Frames of a server that has accepted: an ERROR of a stream, an answered KEEPALIVE."""
    parts = Parts(established=False)
    parts.zero.look_for_acceptance(HEADER.pack(stream_id, frame_type << 10 | flags))
    if frame_type is T.ERROR:
        expected = stream_id > 0
    elif frame_type is T.KEEPALIVE:
        expected = not flags
    else:
        expected = frame_type not in NO_ACCEPTANCE
    assert parts.lifecycle.established is expected
    assert parts.lifecycle.acceptance.is_set() is expected


def test_a_malformed_frame_accepts_nothing():
    """The reader reports a header that is cut short."""
    parts = Parts(established=False)
    parts.zero.look_for_acceptance(b"\0\0\0\1\x28")
    assert not parts.lifecycle.established
