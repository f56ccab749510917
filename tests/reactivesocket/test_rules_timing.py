"""Rules of the draft for all frames, for frames that come too early or late, and for waits."""

from __future__ import annotations

import attrs
import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    ConnectionConfig,
    Lease,
    LeaseGranter,
    LeaseOptions,
    Limits,
    Payload,
    RejectedSetup,
    RSocketError,
    connect,
)
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    KeepaliveFrame,
    LeaseFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    ResponseFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

SETUP = SetupFrame(0, 20_000, 90_000)
PATIENT = SetupFrame(0, 0, 0)
"""The SETUP of a client that may be silent."""


def test_the_ignore_flag_goes_with_every_type(vector):
    """V0-FRAME-04: each known type is handled equally with I and without, metadata included."""
    frame = bytearray.fromhex(vector["hex"])
    frame[2] |= 0x80
    expected = decode(bytes.fromhex(vector["hex"]))
    if isinstance(expected, ExtFrame):
        expected = attrs.evolve(expected, ignore=True)
    assert decode(bytes(frame)) == expected


async def test_frames_after_the_end_have_no_effect(draft_client):
    """V0-FRAME-05: frames behind the one that ended the connection are ignored."""
    responder = KnownAnswers()
    async with draft_client(responder) as peer:
        await peer.send(ExtFrame(0, 7), RequestFnfFrame(2, data=b"late"))
        await peer.expect_closed(0x101)
    assert responder.last_fire_and_forget == b""


async def test_nothing_is_answered_before_a_setup_is_accepted(draft_client):
    """V0-CONN-06: a request behind a SETUP that is refused is not answered."""

    async def acceptor(setup, requester):
        await trio.lowlevel.checkpoint()
        raise RejectedSetup("no")

    async with draft_client(acceptor, None) as peer:
        await peer.send(SETUP, RequestResponseFrame(2, data=b"x"))
        await peer.expect_closed(0x003)


async def test_an_answered_stream_is_over(draft_client):
    """V0-RR-03: later frames on it are ignored, and its id may be used again."""
    async with draft_client() as peer:
        for _ in range(2):
            await peer.send(RequestResponseFrame(2, data=b"x"))
            assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")
            await peer.send(CancelFrame(2), RequestNFrame(2, 1), ErrorFrame(2, 0x201))
            await peer.expect_alive()


async def test_a_stream_waits_for_missing_credit(draft_client, autojump_clock):
    """V0-UNX-01, V0-KEEP-04: a stream without credit waits for hours, and goes on."""
    config = ConnectionConfig(limits=Limits(max_client_lifetime=100_000))
    async with draft_client(setup=PATIENT, config=config) as peer:
        await peer.send(RequestStreamFrame(2, 1, data=b"2"))
        assert await peer.receive() == ResponseFrame(2, data=b"0")
        await trio.sleep(36_000)
        assert await peer.drain() == []
        await peer.send(RequestNFrame(2, 1))
        items = await peer.drain()
    assert items == [ResponseFrame(2, data=b"1"), ResponseFrame(2, complete=True)]


@pytest.mark.parametrize(
    "frame",
    [LeaseFrame(1000, 1), RequestFnfFrame(1, data=b"x"), KeepaliveFrame(False)],
    ids=lambda frame: type(frame).__name__,
)
async def test_frames_that_accept_a_setup(frame):
    """V0-CONN-05: the echo of a client's KEEPALIVE, a request or a LEASE accept its SETUP."""
    ours, theirs = memory_transport_pair()
    async with trio.open_nursery() as nursery:

        async def accept():
            await ours.receive_frames()
            await ours.send_frames([frame.encode()])

        nursery.start_soon(accept)
        with trio.fail_after(30):
            async with connect(theirs, protocol="reactivesocket", responder=KnownAnswers()):
                await ours.aclose()


LEASES = LeaseOptions(LeaseGranter(Lease(5, 1.0)))


async def ask_twice(requester):
    async with trio.open_nursery() as nursery:
        for data in (b"a", b"b"):
            nursery.start_soon(requester.request_response, Payload(data))


async def test_the_newest_lease_counts(draft_server):
    """V0-LEASE-01, V0-LEASE-06: after n=5 and n=1 one request leaves, and the next waits."""
    async with draft_server(ask_twice, lease=LEASES) as peer:
        await peer.receive(LeaseFrame)
        await peer.send(LeaseFrame(10_000, 5), LeaseFrame(10_000, 1))
        (request,) = await peer.drain()
        await peer.send(ResponseFrame(2, complete=True), LeaseFrame(10_000, 1))
        assert {request.stream_id, (await peer.receive(RequestResponseFrame)).stream_id} == {2, 4}
        await peer.send(ResponseFrame(4, complete=True))


async def test_a_lease_expires(draft_server, autojump_clock):
    """V0-LEASE-02: no request leaves after its time, until the next lease."""
    ask = trio.Event()

    async def use(requester):
        await ask.wait()
        await requester.request_response(Payload(b"a"))

    async with draft_server(use, lease=LEASES) as peer:
        await peer.send(LeaseFrame(1000, 5))
        await trio.sleep(1.5)
        ask.set()
        assert not any(isinstance(f, RequestResponseFrame) for f in await peer.drain())
        await peer.send(LeaseFrame(1000, 5))
        await peer.receive(RequestResponseFrame)
        await peer.send(ResponseFrame(2, complete=True))


async def test_a_server_waits_for_the_clients_lease(draft_client):
    """V0-LEASE-05: a server that granted leases holds its own requests until it gets one."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return KnownAnswers()

    async with trio.open_nursery() as nursery:
        async with draft_client(acceptor, None, lease=LEASES) as peer:
            await peer.send(attrs.evolve(SETUP, lease=True))
            await peer.receive(LeaseFrame)
            nursery.start_soon(requesters[0].fire_and_forget, Payload(b"x"))
            assert await peer.drain() == []
            await peer.send(LeaseFrame(10_000, 1))
            assert (await peer.receive(RequestFnfFrame)).data == b"x"


async def test_fragments_without_end(draft_server, draft_client):
    """V0-FRAG-01: past the limit a response is an error, and a channel is refused."""
    config = ConnectionConfig(limits=Limits(max_payload_size=1000))
    failures = []

    async def use(requester):
        with pytest.raises(RSocketError) as caught:
            await requester.request_response(Payload())
        failures.append(caught.value)
        await requester.wait_closed()

    async with draft_server(use, config=config) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(*[ResponseFrame(2, follows=True, data=b"x" * 100)] * 20)
        assert await peer.receive() == CancelFrame(2)
        await peer.expect_alive()
    assert len(failures) == 1
    async with draft_client(config=config) as peer:
        await peer.send(RequestChannelFrame(2, 9, follows=True, data=b"x"))
        await peer.send(*[RequestChannelFrame(2, follows=True, data=b"x" * 100)] * 20)
        errors = [frame for frame in await peer.drain() if isinstance(frame, ErrorFrame)]
        assert [error.stream_id for error in errors] == [2]
        await peer.expect_alive()


async def test_a_responders_error_ends_a_channel(draft_server):
    """V0-CHAN-05: both halves are over, with unsent items of the requester or without."""
    sent = []

    async def source():
        for number in range(10):
            sent.append(number)
            yield Payload(b"%d" % number)

    async def use(requester):
        async with requester.request_channel(source()) as items:
            with pytest.raises(ApplicationError, match="enough"):
                await items.receive()
        await requester.wait_closed()

    async with draft_server(use) as peer:
        await peer.receive(RequestChannelFrame)
        await peer.send(RequestNFrame(2, 1))
        await peer.receive(RequestChannelFrame)
        await peer.send(ErrorFrame(2, 0x201, data=b"enough"), RequestNFrame(2, 5))
        await peer.expect_alive()
    assert len(sent) <= 3
