"""The rules of the draft (V0-*), with raw frames against our server and our client."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Canceled,
    CustomError,
    InvalidSetup,
    Lease,
    LeaseOptions,
    LeaseSource,
    Payload,
    Rejected,
    RejectedSetup,
    Responder,
    UnsupportedSetup,
    connect,
)
from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ClosedByPeer
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
    SetupFrame,
    encode_length,
)
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

SETUP = SetupFrame(0, 20_000, 90_000)
HOLDING = bytes.fromhex("0004400000000002 80000009 726f757465 70696e67")


async def nothing(requester):
    await requester.wait_closed()


# -- framing and metadata ---------------------------------------------------------------------


async def test_messages_have_no_length(draft_client):
    """V0-FRAME-01: transports that keep messages apart carry no length."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(2, data=b"x"))
        (answer,) = await peer.transport.receive_frames()
        assert answer == ResponseFrame(2, complete=True, data=b"x").encode()


async def test_messages_with_a_length_are_answered_with_one(draft_client):
    """V0-FRAME-01, D.3 no. 2: a client that sends lengths gets them too."""
    async with draft_client(setup=None) as peer:
        setup = SETUP.encode()
        request = RequestResponseFrame(2, data=b"x").encode()
        await peer.send(encode_length(setup) + setup, encode_length(request) + request)
        (answer,) = await peer.transport.receive_frames()
        expected = ResponseFrame(2, complete=True, data=b"x").encode()
        assert answer == encode_length(expected) + expected


async def test_undefined_flags_are_ignored(draft_client):
    """V0-FRAME-03: undefined flag bits have no effect."""
    async with draft_client() as peer:
        await peer.send(bytes.fromhex("00043fff 00000002 78"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")


async def test_unknown_types_are_skipped_or_end_the_connection(draft_client):
    """V0-FRAME-06: an unknown type is skipped with the I flag; without, it ends the connection."""
    async with draft_client() as peer:
        await peer.send(ExtFrame(0, 7, ignore=True), bytes.fromhex("000e8000 00000000"))
        await peer.expect_alive()
        await peer.send(ExtFrame(0, 7))
        await peer.expect_closed(0x101)
    async with draft_client() as peer:
        await peer.send(bytes.fromhex("000e0000 00000000"))
        await peer.expect_closed(0x101)


@pytest.mark.parametrize("length", ["80000009", "0000000a", "00000003", "00000000"])
async def test_an_impossible_metadata_length(draft_client, length):
    """V0-META-02, V0-META-03: the whole frame is ignored, and no other."""
    async with draft_client() as peer:
        frame = bytes.fromhex(f"0004400000000002 {length} 7879797978")
        await peer.send(frame, RequestResponseFrame(2, data=b"x"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")
        await peer.expect_alive()


async def test_empty_metadata(draft_client):
    """V0-META-01, D.3 no. 12: a metadata length of 4 is read, and never sent."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(2, metadata=b"", data=b"x"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")


async def test_frames_past_the_maximum(draft_client):
    """A message longer than the engine's largest frame ends the connection."""
    async with draft_client() as peer:
        await peer.send(RequestFnfFrame(2, data=bytes(0xFFFFFF - 8)))
        await peer.expect_closed(0x101)


# -- stream ids -------------------------------------------------------------------------------


@pytest.mark.parametrize("stream_id", [1, 2, 3, 77, 2**31, 2**32 - 1])
async def test_any_stream_id_of_a_client_is_accepted(draft_client, stream_id):
    """V0-SID-03, D.3 no. 4: parity is not checked, and all 32 bits count."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(stream_id, data=b"x"))
        assert await peer.receive() == ResponseFrame(stream_id, complete=True, data=b"x")


async def test_ids_may_be_used_again(draft_client):
    """V0-SID-04: a finished id may come again, also after CANCEL."""
    async with draft_client() as peer:
        for data in (b"a", b"b"):
            await peer.send(RequestResponseFrame(2, data=data))
            assert await peer.receive() == ResponseFrame(2, complete=True, data=data)
        await peer.send(RequestResponseFrame(2, data=b"never"), CancelFrame(2))
        await peer.send(RequestResponseFrame(2, data=b"c"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"c")


async def test_a_request_on_an_id_in_use_is_ignored(draft_client):
    """V0-SID-02, V0-UNX-07: this holds for every type."""
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 1, data=b"5"))
        assert (await peer.receive()).data == b"0"
        await peer.send(
            RequestResponseFrame(2, data=b"x"),
            RequestFnfFrame(2, data=b"x"),
            RequestStreamFrame(2, 5, data=b"5"),
            RequestSubFrame(2, 5, data=b"5"),
            RequestChannelFrame(2, 5, data=b"5"),
        )
        await peer.expect_alive()
        await peer.send(RequestNFrame(2, 1))
        assert await peer.receive() == ResponseFrame(2, data=b"1")
        await peer.send(RequestResponseFrame(4, data=b"last-fnf"))
        assert (await peer.receive()).data == b""


async def test_requests_on_stream_0_are_ignored(draft_client):
    """V0-SID-01: stream 0 belongs to the connection."""
    async with draft_client() as peer:
        await peer.send(
            RequestResponseFrame(0, data=b"x"),
            RequestStreamFrame(0, 1, data=b"1"),
            RequestChannelFrame(0, 1, data=b"x"),
        )
        await peer.expect_alive()


async def test_a_client_sends_even_ids(draft_server):
    """V0-SID-03: our requests begin at 2 and go up in steps of 2."""

    async def use(requester):
        for _ in range(3):
            await requester.fire_and_forget(Payload(b"x"))

    async with draft_server(use) as peer:
        ids = [(await peer.receive(RequestFnfFrame)).stream_id for _ in range(3)]
        assert ids == [2, 4, 6]


class Asks(Responder):
    """Sends each request back to the client."""

    def __init__(self, requester):
        self.requester = requester

    async def request_response(self, payload):
        return await self.requester.request_response(payload)


@pytest.mark.parametrize(("theirs", "ours"), [(2, 1), (1, 2), (5, 2)])
async def test_a_server_sends_the_other_parity(draft_client, theirs, ours):
    """V0-SID-03: odd ids, unless the client uses odd ids itself."""

    async def acceptor(setup, requester):
        return Asks(requester)

    async with draft_client(acceptor) as peer:
        await peer.send(RequestResponseFrame(theirs, data=b"x"))
        assert await peer.receive() == RequestResponseFrame(ours, data=b"x")
        await peer.send(ResponseFrame(ours, complete=True, data=b"y"))
        assert await peer.receive() == ResponseFrame(theirs, complete=True, data=b"y")


# -- establishment ----------------------------------------------------------------------------


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


# -- keepalive and lease ----------------------------------------------------------------------


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
    lease = LeaseOptions(LeaseSource(Lease(1, 60.0, b"m")))
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

    lease = LeaseOptions(LeaseSource(Lease(5, 1.0)))
    async with draft_server(use, responder=KnownAnswers(), lease=lease) as peer:
        assert peer.setup.lease
        assert await peer.drain() == [LeaseFrame(1000, 5)]
        await peer.send(LeaseFrame(1000, 0), LeaseFrame(0, 5))
        assert await peer.drain() == []
        await peer.send(LeaseFrame(1000, 1))
        assert await peer.receive() == RequestResponseFrame(2)
        await peer.send(ResponseFrame(2, complete=True, data=b"x"))


# -- request_response and fire_and_forget -----------------------------------------------------


async def test_a_response_without_complete_ends_the_request(draft_server):
    """V0-RR-01, V0-RR-04: the request is answered, and its stream is over."""

    async def use(requester):
        assert await requester.request_response(Payload(b"x", b"m")) == Payload(b"pong")
        assert requester.statistics().open_streams == 0

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestResponseFrame(2, b"m", b"x")
        await peer.send(ResponseFrame(2, data=b"pong"), ResponseFrame(2, data=b"again"))


async def test_an_empty_response_is_an_empty_item(draft_server):
    """D.3 no. 7: C without data answers a REQUEST_RESPONSE with an empty payload."""

    async def use(requester):
        assert await requester.request_response() == Payload()

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ResponseFrame(2, complete=True))


async def test_no_response_after_cancel(draft_client):
    """V0-RR-02: a cancelled request is not answered."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(2, data=b"never"))
        await trio.testing.wait_all_tasks_blocked()
        await peer.send(CancelFrame(2, b"why"))
        await peer.expect_alive()


async def test_cancelling_our_request(draft_server):
    """V0-RR-01: a caller that gives up sends CANCEL; a late answer is ignored."""

    async def use(requester):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(requester.request_response, Payload(b"x"))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert (await requester.request_response(Payload(b"y"))).data == b"z"

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestResponseFrame(2, data=b"x")
        assert await peer.receive() == CancelFrame(2)
        await peer.send(ResponseFrame(2, complete=True, data=b"late"))
        assert await peer.receive() == RequestResponseFrame(4, data=b"y")
        await peer.send(ResponseFrame(4, complete=True, data=b"z"))


async def test_fire_and_forget(draft_client):
    """V0-FNF-01: one frame, no answer, and its id is free at once."""
    async with draft_client() as peer:
        await peer.send(RequestFnfFrame(2, data=b"a"), RequestFnfFrame(2, b"m", b"b"))
        await peer.send(RequestResponseFrame(2, data=b"last-fnf"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"b")


# -- streams and subscriptions ----------------------------------------------------------------


async def test_a_stream(draft_client):
    """V0-STREAM-01, V0-FLOW-01: items within the credit, then RESPONSE with C."""
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 1, data=b"3"))
        assert await peer.drain() == [ResponseFrame(2, data=b"0")]
        await peer.send(RequestNFrame(2, 2**32 - 1))
        assert await peer.drain() == [
            ResponseFrame(2, data=b"1"),
            ResponseFrame(2, data=b"2"),
            ResponseFrame(2, complete=True),
        ]


@pytest.mark.parametrize("items", [0, 1, 3])
async def test_a_stream_without_initial_credit(draft_client, items):
    """An initial n of 0 is legal: the first item waits for REQUEST_N, but the end does not."""
    data = [ResponseFrame(2, data=b"%d" % n) for n in range(items)]
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 0, data=b"%d" % items))
        done = [ResponseFrame(2, complete=True)]
        assert await peer.drain() == ([] if items else done)
        await peer.send(RequestNFrame(2, 0))
        await peer.expect_alive()
        await peer.send(RequestNFrame(2, 1))
        assert await peer.drain() == data[:1] + (done if items == 1 else [])
        await peer.send(RequestNFrame(2, 9))
        assert await peer.drain() == (data[1:] + done if items > 1 else [])
        await peer.expect_alive()


async def test_the_credit_of_our_stream(draft_server):
    """V0-STREAM-01, D.3 no. 6: N and the field are set; REQUEST_N follows consumption."""

    async def use(requester):
        async with requester.request_stream(Payload(b"x"), prefetch=4) as stream:
            assert [item.data async for item in stream] == [b"0", b"1", b"2", b"3"]

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestStreamFrame(2, 4, data=b"x", n_flag=True)
        for n in range(3):
            await peer.send(ResponseFrame(2, data=b"%d" % n))
            assert await peer.receive() == RequestNFrame(2, 1)
        await peer.send(ResponseFrame(2, complete=True, data=b"3"))


async def test_errors_of_a_stream(draft_client):
    """V0-ERR-01: ERROR ends the stream, with code and text."""
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 1, data=b"x"))
        frame = await peer.receive(ErrorFrame)
        assert (frame.stream_id, frame.code, frame.metadata) == (2, 0x204, None)


class Ticks(Responder):
    """Two items, and the end."""

    async def request_stream(self, payload):
        yield Payload(b"a")
        yield Payload(b"b")


async def test_a_subscription_never_completes(draft_client):
    """V0-SUB-01: RESPONSEs have no C; if the handler ends, an ERROR follows."""
    async with draft_client(Ticks()) as peer:
        await peer.send(RequestSubFrame(2, 9, data=b"x"))
        assert await peer.drain() == [
            ResponseFrame(2, data=b"a"),
            ResponseFrame(2, data=b"b"),
            ErrorFrame(2, 0x203, None, b"the subscription is over"),
        ]


async def test_a_completed_subscription(draft_server):
    """V0-SUB-01: a C, although against the rules, ends it."""

    async def use(requester):
        async with request_subscription(requester, Payload(b"x"), prefetch=8) as stream:
            assert [item.data async for item in stream] == [b"a"]
        async with request_subscription(requester, Payload(b"y"), prefetch=8) as stream:
            assert (await stream.receive()).data == b"b"

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestSubFrame(2, 8, data=b"x", n_flag=True)
        await peer.send(ResponseFrame(2, data=b"a"), ResponseFrame(2, complete=True))
        assert await peer.receive() == RequestSubFrame(4, 8, data=b"y", n_flag=True)
        await peer.send(ResponseFrame(4, data=b"b"))
        assert await peer.receive() == CancelFrame(4)


# -- channels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [None, 0])
async def test_a_channel(draft_client, n):
    """V0-CHAN-01 to 04: later items are REQUEST_CHANNEL, with N clear or an n of 0."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"))
        granted = await peer.receive(RequestNFrame)
        assert granted.stream_id == 2
        assert await peer.receive() == ResponseFrame(2, data=b"a")
        await peer.send(RequestChannelFrame(2, n, data=b"b"))
        await peer.send(RequestChannelFrame(2, n, data=b"", metadata=b"m"))
        await peer.send(
            RequestChannelFrame(2, n, complete=True, data=b"c"),
            RequestChannelFrame(2, n, data=b"after its end"),
        )
        assert await peer.drain() == [
            ResponseFrame(2, data=b"b"),
            ResponseFrame(2, metadata=b"m"),
            ResponseFrame(2, data=b"c"),
            ResponseFrame(2, complete=True),
        ]
        await peer.expect_alive()


@pytest.mark.parametrize(
    "end",
    [
        RequestChannelFrame(2, None, complete=True),
        RequestChannelFrame(2, 0, complete=True),
        RequestChannelFrame(2, None, complete=True, data=bytes(4)),
    ],
    ids=repr,
)
async def test_completion_without_an_item(draft_client, end):
    """D.3 no. 7 and 8: C alone is no item, nor are four stray zeros without N."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"), end)
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [
            ResponseFrame(2, data=b"a"),
            ResponseFrame(2, complete=True),
        ]


async def test_a_channel_of_one_item(draft_client):
    """V0-CHAN-03: C on the initial frame: the item counts, and is the last one."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, complete=True, data=b"a"))
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [
            ResponseFrame(2, data=b"a"),
            ResponseFrame(2, complete=True),
        ]


async def test_a_channel_without_initial_credit(draft_client):
    """N clear on the initial frame: no credit until REQUEST_N."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, data=b"a"), RequestChannelFrame(2, data=b"b"))
        assert [type(frame) for frame in await peer.drain()] == [RequestNFrame]
        await peer.send(RequestNFrame(2, 2))
        assert await peer.drain() == [ResponseFrame(2, data=b"a"), ResponseFrame(2, data=b"b")]


async def test_our_channel(draft_server):
    """V0-CHAN-01 to 04, D.3 no. 6 and 8: N and the field on every frame, 0 on later ones."""

    async def use(requester):
        source = [Payload(b"a"), Payload(b"b", b"m"), Payload(b"c")]
        async with requester.request_channel(source, prefetch=4) as stream:
            assert [item.data async for item in stream] == [b"x"]

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestChannelFrame(2, 4, data=b"a")
        await peer.send(RequestNFrame(2, 1))
        assert await peer.drain() == [RequestChannelFrame(2, 0, metadata=b"m", data=b"b")]
        await peer.send(RequestNFrame(2, 5))
        assert await peer.drain() == [
            RequestChannelFrame(2, 0, data=b"c"),
            RequestChannelFrame(2, 0, complete=True),
        ]
        await peer.send(ResponseFrame(2, complete=True, data=b"x"))


async def test_the_responder_ends_both_halves(draft_server):
    """V0-CHAN-05: after its C no frame leaves, and the source is stopped."""
    stopped = []

    async def source():
        try:
            yield Payload(b"a")
            await trio.sleep_forever()
        finally:
            stopped.append(True)

    async def use(requester):
        async with requester.request_channel(source(), prefetch=4) as stream:
            assert [item async for item in stream] == []
            await trio.testing.wait_all_tasks_blocked()
            assert stopped
            assert requester.statistics().open_streams == 0

    async with draft_server(use) as peer:
        await peer.receive(RequestChannelFrame)
        await peer.send(RequestNFrame(2, 9), ResponseFrame(2, complete=True))
        assert await peer.drain() == []


class One(Responder):
    """Answers a channel with one item, and ends."""

    async def request_channel(self, payload, payloads):
        yield Payload(b"only")


@pytest.mark.parametrize("n", [None, 0])
async def test_late_items_of_a_channel(draft_client, n):
    """V0-CHAN-05: items that were on the way open no channel; a new request does."""
    async with draft_client(One()) as peer:
        for _ in range(2):
            await peer.send(RequestChannelFrame(2, 9, data=b"a"))
            await peer.receive(RequestNFrame)
            assert await peer.drain() == [
                ResponseFrame(2, data=b"only"),
                ResponseFrame(2, complete=True),
            ]
            await peer.send(RequestChannelFrame(2, n, data=b"late"))
            await peer.send(RequestChannelFrame(2, n, complete=True))
            await peer.expect_alive()


async def test_ids_of_channels_that_have_ended_are_forgotten(draft_client):
    """The memory for late items is bounded."""
    async with draft_client(One()) as peer:
        for stream_id in range(2, 2 + 2 * 1025, 2):
            await peer.send(RequestChannelFrame(stream_id, 9, data=b"a"))
            await peer.drain()
        await peer.send(RequestChannelFrame(4, None, data=b"late"))
        await peer.expect_alive()
        await peer.send(RequestChannelFrame(2, None, data=b"taken for a new one"))
        assert [type(frame) for frame in await peer.drain()] == [RequestNFrame]


class Deaf(Responder):
    """Reads no items, and sends some."""

    async def request_channel(self, payload, payloads):
        await payloads.aclose()
        yield Payload(b"a")
        yield Payload(b"b")


async def test_a_responder_that_stops_reading(draft_client):
    """V0-CHAN-06: it grants no credit; CANCEL would end both halves."""
    async with draft_client(Deaf()) as peer:
        await peer.send(RequestChannelFrame(2, 1, data=b"x"))
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [ResponseFrame(2, data=b"a")]
        await peer.send(RequestChannelFrame(2, 0, data=b"ignored"), RequestNFrame(2, 9))
        assert await peer.drain() == [
            ResponseFrame(2, data=b"b"),
            ResponseFrame(2, complete=True),
        ]


async def test_a_cancelled_channel(draft_client):
    """V0-CHAN-06: the requester's CANCEL ends both halves."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"))
        assert len(await peer.drain()) == 2
        await peer.send(CancelFrame(2))
        await peer.send(RequestResponseFrame(2, data=b"x"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")


async def test_a_responder_that_cancels(draft_server):
    """V0-CHAN-06: CANCEL of the responder ends both halves; on other streams it is ignored."""

    async def use(requester):
        async with requester.request_channel(source_without_end(), prefetch=4) as stream:
            with pytest.raises(Canceled):
                await stream.receive()
        assert (await requester.request_response()).data == b"x"

    async def source_without_end():
        yield Payload(b"a")
        await trio.sleep_forever()

    async with draft_server(use) as peer:
        await peer.receive(RequestChannelFrame)
        await peer.send(CancelFrame(2))
        assert (await peer.receive(RequestResponseFrame)).stream_id == 4
        await peer.send(CancelFrame(4), RequestNFrame(4, 1), ResponseFrame(4, data=b"x"))


async def test_an_error_of_the_requester(draft_client):
    """An ERROR on a channel ends it from either side; on other requests it is ignored."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"))
        assert len(await peer.drain()) == 2
        await peer.send(ErrorFrame(2, 0x201, data=b"sorry"))
        await peer.send(RequestResponseFrame(2, data=b"never"), ErrorFrame(2, 0x201))
        await peer.send(RequestResponseFrame(2, data=b"in use"))
        await peer.expect_alive()


async def test_a_source_that_fails(draft_server):
    """Our source's failure is an ERROR on the wire."""

    async def source():
        yield Payload(b"a")
        raise ApplicationError("sorry")

    async def use(requester):
        with pytest.raises(ApplicationError):
            async with requester.request_channel(source()) as stream:
                await stream.receive()

    async with draft_server(use) as peer:
        await peer.receive(RequestChannelFrame)
        await peer.send(RequestNFrame(2, 5))
        assert await peer.receive() == ErrorFrame(2, 0x201, data=b"sorry")


# -- fragments --------------------------------------------------------------------------------


async def test_fragments_of_a_response(draft_server, vectors):
    """V0-FRAG-01: metadata and data are joined, in any mix."""
    sequence = vectors["v0_fragmented_response"]

    async def use(requester):
        reply = await requester.request_response()
        expected = sequence["fields"]["reassembled"]
        assert reply.metadata == bytes.fromhex(expected["metadata_hex"])
        assert reply.data == bytes.fromhex(expected["data_hex"])

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(*map(bytes.fromhex, sequence["frames"]))


async def test_follows_is_ignored_beside_complete(draft_server, draft_client):
    """V0-FRAG-01: F and C together mark the last fragment, in a response and in a channel."""

    async def use(requester):
        async with requester.request_stream() as stream:
            assert [item.data async for item in stream] == [b"ab"]

    async with draft_server(use) as peer:
        await peer.receive(RequestStreamFrame)
        await peer.send(ResponseFrame(2, follows=True, data=b"a"))
        await peer.send(ResponseFrame(2, follows=True, complete=True, data=b"b"))
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, follows=True, data=b"a"))
        await peer.send(RequestChannelFrame(2, follows=True, data=b"b"))
        await peer.send(RequestChannelFrame(2, follows=True, complete=True, data=b"c"))
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [
            ResponseFrame(2, data=b"abc"),
            ResponseFrame(2, complete=True),
        ]


# -- errors, pushes, frames without effect ---------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (0x201, ApplicationError),
        (0x202, Rejected),
        (0x203, Canceled),
        (0x021, ApplicationError),
        (0x022, Rejected),
        (0x023, Canceled),
        (0x205, CustomError),
        (0xFFFFFFFE, CustomError),
    ],
)
async def test_error_codes(draft_server, code, error):
    """V0-ERR-01, D.3 no. 10: each code has its error, also those from before 2015-09-11."""

    async def use(requester):
        for text in ("data", "metadata"):
            with pytest.raises(error) as info:
                await requester.request_response()
            assert type(info.value) is error
            assert info.value.message == text

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(2, code, b"m", b"data\0"))
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(4, code, b"metadata", b""))


class Refuses(Responder):
    async def request_response(self, payload):
        raise Rejected(payload.data)


async def test_the_reason_of_a_rejection(draft_client):
    """V0-ERR-01: it is in the metadata, and in the data, which must be UTF-8."""
    async with draft_client(Refuses()) as peer:
        await peer.send(RequestResponseFrame(2, data=b"busy"))
        assert await peer.receive() == ErrorFrame(2, 0x202, b"busy", b"busy")
        await peer.send(RequestResponseFrame(2, data=b"\xff"))
        assert (await peer.receive()).data == "�".encode()
        await peer.send(RequestResponseFrame(2))
        assert await peer.receive() == ErrorFrame(2, 0x202)


async def test_metadata_push(draft_client):
    """V0-PUSH-01, V0-UNX-11: on stream 0 it arrives, on another it is ignored."""
    async with draft_client() as peer:
        await peer.send(MetadataPushFrame(b"a"), MetadataPushFrame(b"b", stream_id=2))
        await peer.expect_alive()
        await peer.send(RequestResponseFrame(2, data=b"last-push"))
        assert (await peer.receive()).data == b"a"


async def test_our_metadata_push(draft_server):
    """V0-PUSH-01: on stream 0, with M set, and with its length."""

    async def use(requester):
        await requester.metadata_push(b"cfg")

    async with draft_server(use) as peer:
        assert await peer.receive() == MetadataPushFrame(b"cfg")


async def test_frames_that_make_no_sense_to_a_server(draft_client):
    """V0-UNX-06 to 12: all of them are ignored."""
    async with draft_client() as peer:
        await peer.send(
            SETUP,
            CancelFrame(0),
            CancelFrame(99),
            RequestNFrame(0, 1),
            RequestNFrame(99, 1),
            ErrorFrame(0, 0x001, data=b"x"),
            ErrorFrame(99, 0x201, data=b"x"),
            ResponseFrame(0, data=b"x"),
            ResponseFrame(99, data=b"x"),
        )
        await peer.expect_alive()
        await peer.send(RequestStreamFrame(2, 1, data=b"2"), ResponseFrame(2, data=b"not ours"))
        assert (await peer.receive()).data == b"0"
        await peer.expect_alive()


async def test_frames_that_make_no_sense_to_a_client(draft_server):
    """V0-UNX-08 to 10, 13: all of them are ignored, and requests go on."""

    async def use(requester):
        assert (await requester.request_response()).data == b"x"

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(
            SETUP,
            ErrorFrame(0, 0x003, data=b"too late"),
            ResponseFrame(98, data=b"x"),
            CancelFrame(98),
            ErrorFrame(98, 0x201),
            RequestNFrame(2, 1),
            RequestChannelFrame(2, 0, data=b"x"),
        )
        await peer.send(ResponseFrame(2, complete=True, data=b"x"))


async def test_a_connection_error_ends_all_streams(draft_server):
    """CONNECTION_ERROR on stream 0 ends the connection."""

    async def use(requester):
        with pytest.raises(ClosedByPeer, match="bye"):
            await requester.request_response()

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(0, 0x101, data=b"bye"))


async def test_a_malformed_frame_at_a_client(draft_server):
    """Frames before it are delivered, then the connection ends with CONNECTION_ERROR."""

    async def use(requester):
        assert (await requester.request_response()).data == b"x"
        await requester.wait_closed()

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ResponseFrame(2, data=b"x"), b"\0\x0e\0\0\0\0\0\0")
        await peer.expect_closed(0x101)
