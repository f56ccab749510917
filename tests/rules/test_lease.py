"""LEASE, checked from the wire, in both roles."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.connection.granting import grant_leases
from rsocket_trio.frames import (
    CancelFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.lease import Lease, LeaseGranter, LeaseOptions
from rsocket_trio.payload import Payload
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.lease_scripts import SMALL, asked, asking, by_response, rejected


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
        assert client.leases.received_lease == Lease(2, 10.0)
        assert server.leases.received_lease == Lease(3, 20.0)
        assert (client.leases.sendable_requests, server.leases.sendable_requests) == (1, 2)


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


@pytest.mark.parametrize("zero", [LeaseFrame(0, 5), LeaseFrame(10_000, 0), LeaseFrame(0, 0)])
async def test_zero_stops_requests(zero):
    """R-LEASE-08: a LEASE with 0 of either is valid, and stops the requests."""
    async with asking() as (peer, requester):
        await peer.send(LeaseFrame(10_000, 5), zero)
        await peer.expect_nothing()
        assert requester.leases.sendable_requests == 0
        await peer.expect_alive()


async def test_a_server_may_stop_its_peers_requests():
    """R-LEASE-08, R-LEASE-07: a lease of zero, granted by hand, rejects later requests."""
    source = LeaseGranter(Lease(5, 10.0))
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
        assert requester.leases.sendable_requests == 0
    async with connected_pair(
        KnownAnswers(),
        config=SMALL,
        lease=LeaseOptions(Lease(1, 10.0)),
        client_lease=LeaseOptions(wait=False),
    ) as client:
        assert await client.request_response(large) == large
        assert client.leases.sendable_requests == 0


async def test_leases_begin_anew_with_a_new_connection():
    """R-LEASE-14: a session's leases are void after a new connection, and granted afresh."""
    lease = LeaseOptions(Lease(5, 10.0))
    async with asking(lease=lease) as (peer, requester), trio.open_nursery() as nursery:
        await peer.send(LeaseFrame(10_000, 5))
        await peer.expect_nothing()
        assert requester.leases.sendable_requests == 5
        leases = requester.leases._leases
        leases.restart()
        assert (
            requester.leases.sendable_requests,
            requester.leases.statistics().requests_left,
        ) == (0, 0)
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
            assert requester.leases.sendable_requests == 0
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
        assert requester.leases.received_lease is None
        for metadata in (b"shard=7", b"", None):
            await peer.send(LeaseFrame(1000, 5, metadata))
            await peer.expect_nothing()
            assert requester.leases.received_lease == Lease(5, 1.0, metadata)
