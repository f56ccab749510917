"""The rules of the draft on SETUP, KEEPALIVE and LEASE, with raw frames."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    InvalidSetup,
    Lease,
    LeaseGranter,
    LeaseOptions,
    Payload,
    RejectedSetup,
    UnsupportedSetup,
    connect,
)
from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ClosedByPeer
from rsocket_trio.reactivesocket.frames import (
    ErrorFrame,
    ExtFrame,
    KeepaliveFrame,
    LeaseFrame,
    RequestResponseFrame,
    ResponseFrame,
    SetupFrame,
)
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

SETUP = SetupFrame(0, 20_000, 90_000)


async def nothing(requester):
    await requester.wait_closed()


async def test_the_setup_of_a_client(draft_server):
    """V0-CONN-01, D.3 no. 5: version 0, stream 0, the first frame, and no extra bit."""
    async with draft_server(nothing) as peer:
        assert peer.setup == SetupFrame(
            0,
            20_000,
            90_000,
            metadata_mime_type="message/x.rsocket.composite-metadata.v0",
            data_mime_type="application/cbor",
        )


@pytest.mark.parametrize(
    "first",
    [
        RequestResponseFrame(2, data=b"x"),
        KeepaliveFrame(True),
        SetupFrame(0, 1, 1, stream_id=2),
        SetupFrame(2, 1, 1),
        SetupFrame(0x00010000, 1, 1),
        ExtFrame(0, 7, ignore=True),
        bytes.fromhex("000180"),
        bytes.fromhex("0001000000000000 00000000"),
        bytes.fromhex("000e8000 00000000"),
    ],
    ids=repr,
)
async def test_an_invalid_first_frame(draft_client, first):
    """V0-CONN-02, V0-CONN-04, V0-SETUP-01, V0-SETUP-04: INVALID_SETUP and close."""
    async with draft_client(setup=None, protocols=["reactivesocket"]) as peer:
        await peer.send(first, RequestResponseFrame(2, data=b"x"))
        await peer.expect_closed(0x001)


async def test_a_setup_that_must_be_ignored(draft_client):
    """V0-META-03 holds for SETUP too; the next frame is then the first."""
    async with draft_client(setup=None, protocols=["reactivesocket"]) as peer:
        broken = SetupFrame(0, 1, 1, metadata=b"m").encode().replace(b"\0\0\0\5m", b"\0\0\0\6m")
        await peer.send(broken, SETUP)
        await peer.expect_alive()


async def test_requests_right_behind_the_setup(draft_client):
    """V0-CONN-03: without L a client may request at once."""
    async with draft_client(setup=None) as peer:
        await peer.send(SETUP, RequestResponseFrame(2, data=b"x"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")


@pytest.mark.parametrize("version", [0, 1])
async def test_the_fields_of_a_setup(draft_client, version):
    """V0-SETUP-02, V0-SETUP-03, V0-SETUP-05: acceptors get all of them, S included."""
    seen = []

    async def acceptor(setup, requester):
        seen.append(setup)
        return KnownAnswers()

    setup = SetupFrame(
        version, 500, 2500, strict=True, metadata_mime_type="m\0", data_mime_type="caf\xe9",
        metadata=b"meta", data=b"data",
    )  # fmt: skip
    async with draft_client(acceptor, setup):
        (facts,) = seen
    assert (facts.data, facts.metadata) == (b"data", b"meta")
    assert (facts.metadata_mime_type, facts.data_mime_type) == ("m", "caf?")
    assert (facts.keepalive_interval, facts.max_lifetime) == (0.5, 2.5)
    assert facts.transport.extra == {"protocol": "reactivesocket", "strict": True}


@pytest.mark.parametrize("times", [(0, 0), (0, 10), (500, 0), (2**32 - 1, 2**32 - 1)])
async def test_times_of_zero_in_a_setup(draft_client, autojump_clock, times):
    """D.3 no. 16, V0-KEEP-04: 0 for either means no limit on silence, except the server's."""
    async with draft_client(setup=SetupFrame(0, *times)) as peer:
        await trio.sleep(890)
        await peer.expect_alive()
        await trio.sleep(890)
        await peer.expect_alive()
        await trio.sleep(910)
        await peer.expect_closed(0x101)
    config = ConnectionConfig(limits=Limits(max_client_lifetime=2_000_000))
    async with draft_client(setup=SetupFrame(0, *times), config=config) as peer:
        await trio.sleep(1_000_000)
        await peer.expect_alive()


async def test_a_refused_setup(draft_client):
    """V0-CONN-04: SETUP_ERROR with the acceptor's code and reason, then close."""

    async def acceptor(setup, requester):
        raise RejectedSetup("not today")

    async with draft_client(acceptor, None) as peer:
        await peer.send(SETUP)
        assert (await peer.expect_closed(0x003)).data == b"not today"


async def test_leases_that_are_not_offered(draft_client):
    """A server without leases refuses L with UNSUPPORTED_SETUP."""
    async with draft_client(setup=None) as peer:
        await peer.send(SetupFrame(0, 1000, 1000, lease=True))
        await peer.expect_closed(0x002)


async def test_leases_that_are_required(draft_client):
    """A server that requires leases refuses a SETUP without L, with REJECTED_SETUP."""
    lease = LeaseOptions(Lease(5, 10.0), required=True)
    async with draft_client(setup=None, lease=lease) as peer:
        await peer.send(SetupFrame(0, 1000, 1000))
        await peer.expect_closed(0x003)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (0x001, InvalidSetup),
        (0x002, UnsupportedSetup),
        (0x003, RejectedSetup),
        (0x204, InvalidSetup),
        (0x024, InvalidSetup),
        (0x101, ClosedByPeer),
        (0x011, ClosedByPeer),
    ],
)
async def test_a_client_that_is_refused(code, error):
    """V0-CONN-05: ``connect`` raises the error of the SETUP_ERROR, also with old codes."""
    ours, theirs = memory_transport_pair()

    async def refuse():
        await ours.receive_frames()
        await ours.send_frames([ErrorFrame(0, code, data=b"no").encode()])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        with pytest.raises(error, match="no"):
            async with connect(theirs, protocol="reactivesocket"):
                pass
        ours.close()


async def test_keepalive_is_echoed(draft_client):
    """V0-KEEP-03: with R it comes back without R, with the same data; without R it does not."""
    async with draft_client() as peer:
        await peer.send(KeepaliveFrame(False, b"a"), KeepaliveFrame(True, b"b"))
        assert await peer.receive() == KeepaliveFrame(False, b"b")
        await peer.send(KeepaliveFrame(True, b"c", stream_id=2))
        await peer.expect_alive()


async def test_a_client_sends_keepalive(draft_server, autojump_clock):
    """V0-KEEP-01, V0-KEEP-02: periodically with R; and it answers its server."""
    async with draft_server(nothing) as peer:
        assert await peer.receive(KeepaliveFrame) == KeepaliveFrame(True)
        assert trio.current_time() == pytest.approx(20, abs=0.1)
        await peer.send(KeepaliveFrame(True, b"x"))
        assert await peer.receive(KeepaliveFrame) == KeepaliveFrame(False, b"x")


async def test_unexpected_leases_are_ignored(draft_server):
    """V0-LEASE-01, V0-UNX-06: a LEASE without L has no effect, on stream 0 or another."""

    async def use(requester):
        assert (await requester.request_response(Payload(b"x"))).data == b"y"

    async with draft_server(use) as peer:
        await peer.send(LeaseFrame(0, 0), LeaseFrame(2**32 - 1, 2**32 - 1, b"m"))
        await peer.send(LeaseFrame(0, 0, stream_id=2))
        assert await peer.receive(RequestResponseFrame)
        await peer.send(ResponseFrame(2, complete=True, data=b"y"))


LEASED = SetupFrame(0, 20_000, 90_000, lease=True)


async def test_a_server_grants_leases(draft_client):
    """V0-LEASE-04, V0-LEASE-06, V0-LEASE-07: LEASE first; requests beyond it are REJECTED."""
    lease = LeaseOptions(LeaseGranter(Lease(1, 60.0, b"m")))
    async with draft_client(setup=None, lease=lease) as peer:
        await peer.send(LEASED)
        assert await peer.receive() == LeaseFrame(60_000, 1, b"m")
        await peer.send(RequestResponseFrame(2, data=b"x"), RequestResponseFrame(4, data=b"y"))
        answers = {frame.stream_id: frame for frame in await peer.drain()}
        assert answers[2] == ResponseFrame(2, complete=True, data=b"x")
        assert (type(answers[4]), answers[4].code) == (ErrorFrame, 0x202)


async def test_a_client_waits_for_a_lease(draft_server):
    """V0-LEASE-02 to 05: SETUP with L, then its own LEASE; no request before the server's."""

    async def use(requester):
        assert (await requester.request_response()).data == b"x"

    lease = LeaseOptions(LeaseGranter(Lease(5, 1.0)))
    async with draft_server(use, responder=KnownAnswers(), lease=lease) as peer:
        assert peer.setup.lease
        assert await peer.drain() == [LeaseFrame(1000, 5)]
        await peer.send(LeaseFrame(1000, 0), LeaseFrame(0, 5))
        assert await peer.drain() == []
        await peer.send(LeaseFrame(1000, 1))
        assert await peer.receive() == RequestResponseFrame(2)
        await peer.send(ResponseFrame(2, complete=True, data=b"x"))
