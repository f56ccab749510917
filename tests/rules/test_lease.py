"""LEASE, checked from the wire, in both roles."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig
from rsocket_trio.connection.granting import grant_leases
from rsocket_trio.errors import ErrorCode, MissingLease, RejectedSetup, UnsupportedSetup
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.lease import Lease, LeaseOptions, LeaseSource
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers

NEVER = LeaseOptions(lambda statistics: None)
"""A LEASE that grants no request."""

SMALL = ConnectionConfig(fragment_size=64)


async def by_response(requester):
    await requester.request_response(Payload(b"r"))


async def by_fnf(requester):
    await requester.fire_and_forget(Payload(b"f"))


async def by_stream(requester):
    async with requester.request_stream(Payload(b"s")) as items:
        await items.receive()


async def by_channel(requester):
    async with requester.request_channel([Payload(b"c")]) as items:
        await items.receive()


FOUR = [by_response, by_fnf, by_stream, by_channel]


@asynccontextmanager
async def asking(*interactions, config=SMALL, lease=None):
    """A client that begins these interactions, and the server's script before any LEASE."""
    async with (
        frame_peer_server(config=config, lease=lease or LeaseOptions()) as (peer, requester),
        trio.open_nursery() as nursery,
    ):
        assert (await peer.receive(LeaseFrame)).stream_id == 0
        for interaction in interactions:
            nursery.start_soon(interaction, requester)
            await trio.testing.wait_all_tasks_blocked()  # so that they queue in order
        yield peer, requester
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def asked(lease, responder=None):
    """A server that grants ``lease``, and the client's script, which asked for leases."""
    options = lease if isinstance(lease, LeaseOptions) else LeaseOptions(lambda now: lease)
    async with frame_peer_client(responder or KnownAnswers(), lease=options) as peer:
        yield peer


async def rejected(peer, stream_id):
    error = await peer.receive(ErrorFrame)
    assert (error.stream_id, error.code) == (stream_id, ErrorCode.REJECTED)


async def test_leases_are_on_stream_zero():
    """R-LEASE-01: a server's and a client's LEASE are on stream 0; others have no effect."""
    async with asked(Lease(5, 10.0, b"shard=7")) as peer:
        assert await peer.receive() == LeaseFrame(10_000, 5, b"shard=7", stream_id=0)
    async with asking(by_response) as (peer, _):
        assert peer.received[-1].stream_id == 0
        await peer.send(LeaseFrame(10_000, 5, stream_id=1))
        await peer.expect_nothing()


async def test_either_side_grants():
    """R-LEASE-02, R-LEASE-11: with L each end sends a LEASE, and each needs the other's."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return KnownAnswers()

    async with connected_pair(
        acceptor,
        client_responder=KnownAnswers(),
        lease=LeaseOptions(lambda now: Lease(2, 10.0)),
        client_lease=LeaseOptions(lambda now: Lease(3, 20.0)),
    ) as client:
        (server,) = requesters
        assert await client.request_response(Payload(b"to the server")) == Payload(b"to the server")
        assert await server.request_response(Payload(b"to the client")) == Payload(b"to the client")
        assert client.leases.last_lease == Lease(2, 10.0)
        assert server.leases.last_lease == Lease(3, 20.0)
        assert (client.leases.left, server.leases.left) == (1, 2)


async def test_the_newest_lease_replaces_the_others():
    """R-LEASE-03: after n=5 and then n=1, one request leaves."""
    async with asking() as (peer, requester):
        await peer.send(LeaseFrame(10_000, 5), LeaseFrame(10_000, 1))
        await peer.expect_nothing()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(by_response, requester)
            await peer.receive(RequestResponseFrame)
            await peer.expect_nothing()
            nursery.cancel_scope.cancel()


async def test_a_lease_expires(autojump_clock):
    """R-LEASE-04: no request leaves after the lease's time, until the next LEASE."""
    async with asking() as (peer, requester):
        await peer.send(LeaseFrame(100, 5))
        await trio.sleep(0.099)
        assert requester.leases.left == 5
        await trio.sleep(0.001)
        assert requester.leases.left == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(by_response, requester)
            await peer.expect_nothing()
            await peer.send(LeaseFrame(100, 5))
            await peer.receive(RequestResponseFrame)
            nursery.cancel_scope.cancel()


async def test_a_lease_expires_for_requests_that_do_not_wait(autojump_clock):
    """R-LEASE-04: a request that does not wait fails as soon as the lease has expired."""
    async with asking(lease=LeaseOptions(wait=False)) as (peer, requester):
        await peer.send(LeaseFrame(100, 5))
        await trio.sleep(0.05)
        await by_fnf(requester)
        await trio.sleep(0.06)
        with pytest.raises(MissingLease):
            await by_fnf(requester)


@pytest.mark.parametrize("interaction", FOUR)
async def test_a_client_waits_for_the_first_lease(interaction):
    """R-LEASE-05, R-CONN-08: only SETUP, KEEPALIVE and the client's own LEASE leave before."""
    async with asking(interaction) as (peer, _):
        await peer.expect_nothing()
        assert len(peer.received) == 3
        await peer.send(LeaseFrame(10_000, 1))
        assert (await peer.receive()).stream_id == 1


async def test_no_more_requests_leave_than_granted():
    """R-LEASE-06: of all four kinds together, exactly n leave, in the order of the calls."""
    async with asking(*FOUR, by_response) as (peer, requester):
        await peer.send(LeaseFrame(10_000, 2))
        await peer.receive(RequestResponseFrame)
        await peer.receive(RequestFnfFrame)
        await peer.expect_nothing()
        assert (requester.leases.left, requester.leases.waiting) == (0, 3)
        await peer.send(LeaseFrame(10_000, 1))
        await peer.receive(RequestStreamFrame)
        await peer.expect_nothing()
        await peer.send(LeaseFrame(10_000, 10))
        await peer.receive(RequestChannelFrame)
        assert RequestResponseFrame in map(type, await peer.drain())
        assert (requester.leases.left, requester.leases.waiting) == (8, 0)


@pytest.mark.parametrize("size", [1, 500], ids=["small", "in fragments"])
@pytest.mark.parametrize(
    "frame", [RequestResponseFrame, RequestStreamFrame, RequestChannelFrame, RequestFnfFrame]
)
async def test_requests_beyond_the_lease_are_rejected(frame, size):
    """R-LEASE-07: before the first lease and beyond one; a fire_and_forget silently, but logged."""
    responder = KnownAnswers()
    extra = {} if frame in (RequestResponseFrame, RequestFnfFrame) else {"initial_request_n": 1}

    async def request(stream_id):
        if size == 1:
            await peer.send(frame(stream_id, data=b"1", **extra))
        else:
            await peer.send(frame(stream_id, data=b"1", follows=True, **extra))
            await peer.send(PayloadFrame(stream_id, next=True, data=b"2" * size))

    async def is_refused(stream_id):
        if frame is not RequestFnfFrame:
            await rejected(peer, stream_id)
        await peer.expect_alive()

    async with asked(NEVER, responder) as peer:
        await request(1)
        await is_refused(1)
        assert responder.last_fire_and_forget == b""
    async with asked(Lease(1, 10.0), responder) as peer:
        await peer.receive(LeaseFrame)
        await peer.send(RequestFnfFrame(1, data=b"allowed"))
        assert (await peer.receive()) == LeaseFrame(10_000, 1)
    once = LeaseOptions(lambda now: None if now.expires_in else Lease(1, 10.0))
    async with asked(once, responder) as peer:
        await peer.receive(LeaseFrame)
        await peer.send(RequestFnfFrame(1, data=b"allowed"))
        await request(3)
        await is_refused(3)
        assert responder.last_fire_and_forget == b"allowed"


async def test_dropped_requests_are_logged_once(caplog):
    """R-LEASE-07: however many fire_and_forgets go beyond, the log gets one warning."""
    async with asked(NEVER) as peer:
        await peer.send(*(RequestFnfFrame(number, data=b"x") for number in range(1, 20, 2)))
        await peer.expect_alive()
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "beyond the lease" in warnings[0].getMessage()


async def test_an_expired_lease_allows_nothing(autojump_clock):
    """R-LEASE-07, R-LEASE-04: a responder checks the time as well."""
    answers = iter([Lease(5, 0.1)])
    async with asked(LeaseOptions(lambda now: next(answers, None))) as peer:
        await peer.receive(LeaseFrame)
        await peer.send(RequestResponseFrame(1, data=b"in time"))
        assert (await peer.receive(PayloadFrame)).data == b"in time"
        await trio.sleep(0.1)
        await peer.send(RequestResponseFrame(3, data=b"late"))
        await rejected(peer, 3)


@pytest.mark.parametrize("zero", [LeaseFrame(0, 5), LeaseFrame(10_000, 0), LeaseFrame(0, 0)])
async def test_zero_stops_requests(zero):
    """R-LEASE-08: a LEASE with 0 of either is valid, and stops the requests."""
    async with asking() as (peer, requester):
        await peer.send(LeaseFrame(10_000, 5), zero)
        await peer.expect_nothing()
        assert requester.leases.left == 0
        await peer.expect_alive()


async def test_a_server_may_stop_its_peers_requests():
    """R-LEASE-08, R-LEASE-07: a lease of zero, granted by hand, rejects later requests."""
    source = LeaseSource(Lease(5, 10.0))
    async with asked(LeaseOptions(source)) as peer:
        assert await peer.receive() == LeaseFrame(10_000, 5)
        source.grant(Lease(0, 0))
        assert await peer.receive() == LeaseFrame(0, 0)
        await peer.send(RequestResponseFrame(1, data=b"x"))
        await rejected(peer, 1)
        source.grant(Lease(1, 10.0))
        assert await peer.receive() == LeaseFrame(10_000, 1)
        await peer.send(RequestResponseFrame(3, data=b"x"))
        assert (await peer.receive(PayloadFrame)).data == b"x"


async def test_a_server_that_accepts_grants():
    """R-LEASE-09: the answer to a SETUP with L is a LEASE, before anything else."""
    async with frame_peer_client(
        KnownAnswers(), setup=False, lease=LeaseOptions(Lease(5, 10.0))
    ) as peer:
        await peer.setup(lease=True)
        assert await peer.receive() == LeaseFrame(10_000, 5)


@pytest.mark.parametrize("number", range(5))
async def test_a_client_that_does_not_wait_gets_the_first_lease_first(number):
    """R-LEASE-09: the LEASE comes before the answer to the KEEPALIVE that confirms the SETUP."""
    async with connected_pair(
        KnownAnswers(),
        lease=LeaseOptions(Lease(1, 10.0)),
        client_lease=LeaseOptions(wait=False),
    ) as client:
        assert client.leases.left == 1
        await by_fnf(client)


async def test_a_server_without_leases_refuses_them():
    """R-LEASE-09: a server that offers no leases refuses L, with UNSUPPORTED_SETUP."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.setup(lease=True)
        await peer.expect_closed(ErrorCode.UNSUPPORTED_SETUP)
    with pytest.raises(UnsupportedSetup, match="leases"):
        async with connected_pair(KnownAnswers(), client_lease=LeaseOptions()):
            pass


async def test_a_server_that_refuses_grants_nothing():
    """R-LEASE-09: a SETUP with L that the acceptor refuses gets the refusal and no LEASE."""

    async def acceptor(setup, requester):
        requester.leases.grant(Lease(5, 10.0))
        raise RejectedSetup("no")

    async with asked(Lease(5, 10.0), acceptor) as peer:
        await peer.expect_closed(ErrorCode.REJECTED_SETUP)
        assert not any(isinstance(frame, LeaseFrame) for frame in peer.received)


async def test_the_first_lease_is_an_acceptance():
    """R-CONN-06: a client that gets a LEASE for its SETUP takes that as accepted."""
    config = ConnectionConfig(confirm_setup=False)
    async with asking(config=config) as (peer, requester):
        await peer.send(LeaseFrame(10_000, 5))
        await peer.expect_nothing()
        await peer.send(ErrorFrame(0, ErrorCode.REJECTED_SETUP))
        await peer.expect_alive()
        assert not requester.closed


async def test_a_client_without_l_ignores_leases():
    """R-LEASE-10: a LEASE has no effect in either direction: requests stay free."""
    async with frame_peer_server() as (peer, requester), trio.open_nursery() as nursery:
        assert requester.leases is None
        await peer.send(LeaseFrame(10_000, 0))
        await peer.expect_nothing()
        nursery.start_soon(by_response, requester)
        await peer.receive(RequestResponseFrame)
        nursery.cancel_scope.cancel()


async def test_a_server_has_no_leases_for_a_client_without_l():
    """R-LEASE-10: a server with leases neither grants nor counts for such a client."""
    async with frame_peer_client(KnownAnswers(), setup=False, lease=NEVER) as peer:
        await peer.setup()
        await peer.send(LeaseFrame(10_000, 1))
        await peer.expect_nothing()
        await peer.send(RequestResponseFrame(1, data=b"free"))
        assert (await peer.receive(PayloadFrame)).data == b"free"


async def test_a_server_waits_for_the_clients_lease():
    """R-LEASE-11: a server holds its requests until the client's LEASE."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return Responder()

    async with trio.open_nursery() as nursery:
        async with asked(Lease(5, 10.0), acceptor) as peer:
            await peer.receive(LeaseFrame)
            nursery.start_soon(by_response, requesters[0])
            await peer.expect_nothing()
            await peer.send(LeaseFrame(10_000, 1))
            assert (await peer.receive(RequestResponseFrame)).stream_id == 2
            nursery.cancel_scope.cancel()


async def test_a_client_sends_a_lease_behind_its_setup():
    """R-LEASE-11: a client's LEASE follows its SETUP, and it rejects requests beyond that."""
    lease = LeaseOptions(lambda now: None if now.expires_in else Lease(1, 10.0))
    async with frame_peer_server(KnownAnswers(), lease=lease) as (peer, _):
        assert peer.received[0].lease
        assert await peer.receive() == LeaseFrame(10_000, 1)
        await peer.send(RequestResponseFrame(2, data=b"a"), RequestResponseFrame(4, data=b"b"))
        frames = {frame.stream_id: frame for frame in await peer.drain()}
        assert frames[2].data == b"a"
        assert frames[4].code == ErrorCode.REJECTED


async def test_a_large_request_costs_one():
    """R-LEASE-12, R-FRAG-06: a request in fragments is one request, to both ends."""
    large = Payload(b"d" * 1000)

    async def ask(requester):
        await requester.request_response(large)

    async with asking(ask, by_response) as (peer, requester):
        await peer.send(LeaseFrame(10_000, 2))
        assert (await peer.receive(RequestResponseFrame)).follows
        frames = await peer.drain()
        assert [type(frame) for frame in frames if frame.stream_id == 3] == [RequestResponseFrame]
        assert requester.leases.left == 0
    async with connected_pair(
        KnownAnswers(),
        config=SMALL,
        lease=LeaseOptions(Lease(1, 10.0)),
        client_lease=LeaseOptions(wait=False),
    ) as client:
        assert await client.request_response(large) == large
        assert client.leases.left == 0


async def test_requests_wait_for_a_lease_without_a_limit(autojump_clock):
    """R-LEASE-13, R-UNX-04: the application decides how long to wait for a LEASE."""
    config = ConnectionConfig(keepalive_interval=3600, max_lifetime=2_000_000)
    async with asking(by_response, config=config) as (peer, requester):
        await trio.sleep(1_000_000)
        assert not [each for each in await peer.drain() if isinstance(each, ErrorFrame)]
        assert requester.leases.waiting == 1


async def test_leases_begin_anew_with_a_new_connection():
    """R-LEASE-14: a session's leases are void after a new connection, and granted afresh."""
    lease = LeaseOptions(Lease(5, 10.0))
    async with asking(lease=lease) as (peer, requester), trio.open_nursery() as nursery:
        await peer.send(LeaseFrame(10_000, 5))
        await peer.expect_nothing()
        assert requester.leases.left == 5
        leases = requester.leases._leases
        leases.restart()
        assert (requester.leases.left, requester.leases.statistics().left) == (0, 0)
        nursery.start_soon(grant_leases, leases, requester._connection.outbox)
        assert await peer.receive() == LeaseFrame(10_000, 5)
        nursery.cancel_scope.cancel()


async def test_frames_of_open_streams_need_no_lease():
    """R-PUSH-03: metadata_push and the frames of open streams need no lease, either way."""
    async with asking() as (peer, requester):
        await peer.send(LeaseFrame(10_000, 1))
        await peer.expect_nothing()
        async with requester.request_stream(Payload(b"s"), prefetch=0) as items:
            await peer.receive(RequestStreamFrame)
            assert requester.leases.left == 0
            await requester.metadata_push(b"m")
            assert await peer.receive() == MetadataPushFrame(b"m")
            items.request_n(3)
            assert await peer.receive() == RequestNFrame(1, 3)
        assert await peer.receive() == CancelFrame(1)
    answers = iter([Lease(1, 10.0)])
    responder = KnownAnswers()
    async with asked(LeaseOptions(lambda now: next(answers, None)), responder) as peer:
        await peer.receive(LeaseFrame)
        await peer.send(RequestStreamFrame(1, 1, data=b"3"), MetadataPushFrame(b"free"))
        assert (await peer.receive(PayloadFrame)).data == b"0"
        await peer.send(RequestNFrame(1, 1))
        assert (await peer.receive(PayloadFrame)).data == b"1"
        await peer.send(CancelFrame(1))
        await peer.expect_alive()
        assert responder.last_metadata_push == b"free"


async def test_metadata_of_a_lease_is_passed_on():
    """A lease's metadata reaches the requester's side; empty and absent are told apart."""
    async with asking() as (peer, requester):
        assert requester.leases.last_lease is None
        for metadata in (b"shard=7", b"", None):
            await peer.send(LeaseFrame(1000, 5, metadata))
            await peer.expect_nothing()
            assert requester.leases.last_lease == Lease(5, 1.0, metadata)


@pytest.mark.parametrize("interaction", FOUR)
async def test_requests_may_fail_instead_of_waiting(interaction):
    """With ``wait=False`` each kind of request fails at once, and nothing is sent."""
    async with asking(lease=LeaseOptions(wait=False)) as (peer, requester):
        with pytest.raises(MissingLease, match="allows no request now"):
            await interaction(requester)
        await peer.expect_nothing()
        assert requester.statistics().open_streams == 0


@pytest.mark.parametrize("interaction", FOUR)
async def test_the_number_of_waiting_requests_is_limited(interaction):
    """Past ``max_waiting`` a request fails at once; those that wait are not affected."""
    fnf = [by_fnf] * 3
    async with asking(*fnf, lease=LeaseOptions(max_waiting=3)) as (peer, requester):
        with pytest.raises(MissingLease):
            await interaction(requester)
        assert requester.leases.waiting == 3
        await peer.send(LeaseFrame(10_000, 10))
        assert [type(frame) for frame in await peer.drain()] == [RequestFnfFrame] * 3


def test_256_requests_may_wait_by_default():
    """The default bound is that of other stacks."""
    assert LeaseOptions().max_waiting == 256


async def test_waiting_requests_fail_with_the_connection():
    """The end of the connection, or its graceful close, ends the waiting at once."""
    outcomes = []

    async def ask(requester):
        try:
            await by_response(requester)
        except Exception as error:
            outcomes.append(str(error))

    async with asking(ask, ask) as (peer, _):
        await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"bye"))
        await trio.testing.wait_all_tasks_blocked()
        assert len(outcomes) == 2
    async with asking(by_response) as (peer, requester):
        await peer.send(LeaseFrame(10_000, 1))
        await peer.receive(RequestResponseFrame)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, requester))
            await trio.testing.wait_all_tasks_blocked()
            await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"draining"))
            await trio.testing.wait_all_tasks_blocked()
            assert "draining" in outcomes[2]
            assert not requester.closed
