"""Establishing a connection and SETUP, checked from the wire."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio import connect
from rsocket_trio.config import ConnectionConfig
from rsocket_trio.errors import (
    ErrorCode,
    InvalidSetup,
    LocalProtocolError,
    RejectedSetup,
    UnsupportedSetup,
)
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

VECTORS = {
    vector["name"]: vector
    for vector in json.loads((Path(__file__).parents[1] / "vectors" / "rsocket.json").read_text())
}
GOOD_SETUP = SetupFrame(1, 0, 1000, 2000)


class Refusing(Responder):
    """Refuses every connection, and notes requests that should never have been run."""

    def __init__(self, error):
        self.error = error
        self.ran = []

    async def accept(self, setup, requester):
        raise self.error

    async def fire_and_forget(self, payload):
        self.ran.append(payload)

    async def request_response(self, payload):
        self.ran.append(payload)
        return payload


async def test_a_client_begins_with_setup():
    """R-CONN-01, R-SETUP-01: the first frame is SETUP, on stream 0, and at once."""
    async with frame_peer_server() as (peer, _):
        assert isinstance(peer.received[0], SetupFrame)
        assert peer.received[0].stream_id == 0


@pytest.mark.parametrize(
    "frame",
    [
        KeepaliveFrame(respond=True),
        RequestResponseFrame(1, data=b"hello"),
        RequestFnfFrame(1, data=b"hello"),
        RequestNFrame(1, 1),
        CancelFrame(1),
        PayloadFrame(1, next=True),
        ErrorFrame(0, ErrorCode.CONNECTION_ERROR),
        LeaseFrame(1000, 1),
        MetadataPushFrame(b"m"),
        ResumeOkFrame(0),
        SetupFrame(1, 0, 1000, 2000, stream_id=1),
    ],
    ids=lambda frame: f"{frame.frame_type.name} {frame.stream_id}",
)
async def test_a_connection_that_does_not_begin_with_setup_is_refused(frame):
    """R-CONN-02, R-SETUP-01: a server answers it with INVALID_SETUP, closes, and runs nothing."""
    responder = KnownAnswers()
    async with frame_peer_client(responder, setup=False) as peer:
        await peer.send(frame, GOOD_SETUP, RequestFnfFrame(3, data=b"never"))
        await peer.expect_closed(ErrorCode.INVALID_SETUP)
    assert responder.last_fire_and_forget == b""


async def test_requests_right_behind_setup_are_answered():
    """R-CONN-03: requests that a client pipelines behind its SETUP are answered."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.send(GOOD_SETUP, RequestResponseFrame(1, data=b"early"))
        assert (await peer.receive(PayloadFrame)).data == b"early"


async def test_a_server_may_ask_first():
    """R-CONN-04: the server's requester works before the client has asked for anything."""
    answers = []

    async def acceptor(setup, requester):
        nursery.start_soon(ask, requester)
        return Responder()

    async def ask(requester):
        answers.append(await requester.request_response(Payload(b"who are you")))

    async with trio.open_nursery() as nursery:
        async with frame_peer_client(acceptor, setup=False) as peer:
            await peer.send(GOOD_SETUP)
            assert (await peer.receive(RequestResponseFrame)).data == b"who are you"
            await peer.send(PayloadFrame(2, next=True, complete=True, data=b"me"))
            await trio.testing.wait_all_tasks_blocked()
            assert answers == [Payload(b"me")]


@pytest.mark.parametrize(
    "error", [InvalidSetup("why"), UnsupportedSetup("why"), RejectedSetup("why")], ids=repr
)
async def test_a_refused_setup_ends_the_connection(error):
    """R-CONN-05, R-CONN-09: the client gets code and reason, then the end; no request runs."""
    responder = Refusing(error)
    async with frame_peer_client(responder, setup=False) as peer:
        await peer.send(
            GOOD_SETUP, RequestFnfFrame(1, data=b"f"), RequestResponseFrame(3, data=b"r")
        )
        reason = await peer.expect_closed(error.code)
        assert reason.data == b"why"
        assert [type(frame) for frame in peer.received] == [ErrorFrame]
    assert responder.ran == []


@pytest.mark.parametrize(
    "frame",
    [
        KeepaliveFrame(respond=False),
        RequestFnfFrame(2, data=b"f"),
        RequestResponseFrame(2, data=b"r"),
        LeaseFrame(1000, 1),
    ],
    ids=lambda frame: frame.frame_type.name,
)
async def test_frames_that_accept_a_setup(frame, nursery):
    """R-CONN-06: the echo of a client's KEEPALIVE, a request or a LEASE accept its SETUP."""
    client_end, server_end = memory_transport_pair()

    async def accept():
        await peer.receive(SetupFrame)
        await peer.receive(KeepaliveFrame)
        await peer.send(frame)

    async with FramePeer(server_end) as peer:
        nursery.start_soon(accept)
        with trio.fail_after(30):
            async with connect(client_end, responder=KnownAnswers()):
                await peer.aclose()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.INVALID_SETUP, InvalidSetup),
        (ErrorCode.UNSUPPORTED_SETUP, UnsupportedSetup),
        (ErrorCode.REJECTED_SETUP, RejectedSetup),
    ],
)
async def test_codes_that_refuse_a_setup(code, error, nursery):
    """R-CONN-07: each code of a refusal is an exception of ``connect``, with the reason."""
    client_end, server_end = memory_transport_pair()

    async def refuse():
        await peer.receive(SetupFrame)
        await peer.send(ErrorFrame(0, code, b"full up"))
        await peer.aclose()

    async with FramePeer(server_end) as peer:
        nursery.start_soon(refuse)
        with pytest.raises(error, match="full up"):
            async with connect(client_end):
                raise AssertionError("entered")


async def test_an_error_right_behind_the_acceptance_is_no_refusal(nursery):
    """R-CONN-07: an error in one read with the accepting frame has its normal meaning.

    A code that is only for setting up has no meaning by then.
    """
    client_end, server_end = memory_transport_pair()

    async def accept():
        await peer.receive(SetupFrame)
        await peer.receive(KeepaliveFrame)
        await peer.send(KeepaliveFrame(respond=False), ErrorFrame(0, ErrorCode.REJECTED_SETUP))

    async with FramePeer(server_end) as peer:
        nursery.start_soon(accept)
        with trio.fail_after(30):
            async with connect(client_end):
                await peer.aclose()


async def test_no_request_leaves_before_the_setup_is_answered():
    """R-CONN-08: a client that waits for its SETUP has sent SETUP and KEEPALIVE only."""
    async with frame_peer_server() as (peer, requester):
        assert [type(frame) for frame in peer.received] == [SetupFrame, KeepaliveFrame]
        await requester.fire_and_forget(Payload(b"now"))
        await peer.receive(RequestFnfFrame)


async def test_mime_types_are_not_interpreted():
    """R-SETUP-03: any MIME types are accepted, and reach the acceptor as they were sent."""
    seen = []

    async def acceptor(setup, requester):
        seen.append((setup.data_mime_type, setup.metadata_mime_type))
        return KnownAnswers()

    for mime_types in [("nonsense; with/// spaces", "?"), ("", ""), ("d" * 255, "m" * 255)]:
        async with frame_peer_client(acceptor, setup=False) as peer:
            await peer.setup(data_mime_type=mime_types[0], metadata_mime_type=mime_types[1])
            await peer.expect_alive()
            assert seen.pop() == mime_types


async def test_the_fields_of_a_sent_setup():
    """R-SETUP-02, R-SETUP-04, R-SETUP-07, R-SETUP-09, R-SETUP-11: all fields are right."""
    config = ConnectionConfig(keepalive_interval=1.5, max_lifetime=7)
    setup = Payload(b"data", b"metadata")
    async with frame_peer_server(setup=setup, config=config) as (peer, _):
        sent = peer.received[0]
    assert isinstance(sent, SetupFrame)
    assert (sent.keepalive_interval_ms, sent.max_lifetime_ms) == (1500, 7000)
    assert (sent.data, sent.metadata) == (b"data", b"metadata")
    assert (sent.lease, sent.resume_token) == (False, None)
    for mime_type in (sent.data_mime_type, sent.metadata_mime_type):
        assert mime_type.isascii()
        assert "/" in mime_type
        assert "\0" not in mime_type


async def test_the_acceptor_sees_the_setup():
    """R-SETUP-02, R-SETUP-07: times, payload and MIME types reach the acceptor."""
    seen = []

    async def acceptor(setup, requester):
        seen.append(setup)
        return KnownAnswers()

    async with frame_peer_client(acceptor, setup=False) as peer:
        await peer.setup(keepalive_interval=0.5, max_lifetime=10, data=b"d", metadata=b"")
        await peer.expect_alive()
    (setup,) = seen
    assert (setup.keepalive_interval, setup.max_lifetime) == (0.5, 10)
    assert (setup.data, setup.metadata) == (b"d", b"")


@pytest.mark.parametrize(("interval", "lifetime"), [(0, 2000), (1000, 0), (0, 0)])
async def test_times_of_zero_are_refused(interval, lifetime):
    """R-SETUP-05, R-SETUP-06: intervals have to be positive, received and sent."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.send(SetupFrame(1, 0, interval, lifetime))
        await peer.expect_closed(ErrorCode.INVALID_SETUP)

    with pytest.raises(ValueError, match="must be greater than 0"):
        ConnectionConfig(keepalive_interval=interval / 1000, max_lifetime=lifetime / 1000)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (SetupFrame(1, 0, 1000, 2000, lease=True), ErrorCode.UNSUPPORTED_SETUP),
        (SetupFrame(1, 0, 1000, 2000, resume_token=b"token"), ErrorCode.REJECTED_SETUP),
        (ResumeFrame(1, 0, b"token", 0, 0), ErrorCode.REJECTED_RESUME),
    ],
    ids=["lease", "resume in SETUP", "RESUME"],
)
async def test_lease_and_resume_are_refused_where_not_offered(frame, code):
    """R-SETUP-08, R-SETUP-10, R-LEASE-09, R-RESUME-12: a server without them refuses L and R."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.send(frame, RequestFnfFrame(1))
        await peer.expect_closed(code)


async def test_a_setup_cut_short_is_invalid():
    """R-SETUP-12: a SETUP cut anywhere before its data is INVALID_SETUP."""
    frame = SetupFrame(1, 0, 1000, 2000).encode()
    for size in range(len(frame)):
        async with frame_peer_client(KnownAnswers(), setup=False) as peer:
            await peer.send(frame[:size])
            await peer.expect_closed(ErrorCode.INVALID_SETUP)


async def test_a_setup_payload_too_large_for_a_frame():
    """R-SETUP-13: SETUP is not fragmented, so one that is too large is the caller's error."""
    client_end, server_end = memory_transport_pair()
    async with FramePeer(server_end) as peer:
        with pytest.raises(LocalProtocolError):
            async with connect(client_end, setup=Payload(bytes(2**24))):
                raise AssertionError("entered")
        await peer.expect_closed()
    assert peer.received == []
