"""The agreement on leases in SETUP, and the first LEASE, checked from the wire."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.config import ConnectionConfig
from rsocket_trio.errors import ErrorCode, RejectedSetup, UnsupportedSetup
from rsocket_trio.frames import (
    ErrorFrame,
    LeaseFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.lease import Lease, LeaseOptions
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.lease_scripts import NEVER, asked, asking, by_fnf, by_response


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
        assert client.leases.sendable_requests == 1
        await by_fnf(client)


async def test_a_server_without_leases_refuses_them():
    """R-LEASE-09: a server that offers no leases refuses L, with UNSUPPORTED_SETUP."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.setup(lease=True)
        await peer.expect_closed(ErrorCode.UNSUPPORTED_SETUP)
    with pytest.raises(UnsupportedSetup, match="leases"):
        async with connected_pair(KnownAnswers(), client_lease=LeaseOptions()):
            pass


async def test_a_server_that_requires_leases_serves_no_other_clients():
    """Else a limit binds only those who ask for it. The refusal says what to set."""
    required = LeaseOptions(Lease(5, 10.0), required=True)
    async with frame_peer_client(KnownAnswers(), setup=False, lease=required) as peer:
        await peer.setup(lease=False)
        error = await peer.receive(ErrorFrame)
        assert (error.stream_id, error.code) == (0, ErrorCode.REJECTED_SETUP)
        assert b"set the flag L in SETUP" in error.data
        await peer.expect_closed()
    with pytest.raises(RejectedSetup, match=r"lease=LeaseOptions\(\)"):
        async with connected_pair(KnownAnswers(), lease=required):
            raise AssertionError("connected")
    async with connected_pair(
        KnownAnswers(), lease=required, client_lease=LeaseOptions()
    ) as client:
        await by_fnf(client)
        assert client.leases.received_lease == Lease(5, 10.0)


async def test_a_client_that_requires_leases_asks_for_them():
    """The option changes nothing for a client: a server without leases refuses it anyway."""
    async with connected_pair(
        KnownAnswers(), lease=Lease(5, 10.0), client_lease=LeaseOptions(required=True)
    ) as client:
        assert client.leases is not None


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


@pytest.mark.parametrize("frame_type", [RequestResponseFrame, RequestStreamFrame, RequestFnfFrame])
async def test_enforced_leases_count_for_a_client_without_l(autojump_clock, frame_type):
    """It gets no LEASE, and REJECTED beyond it; a limit bound only those who asked for it."""
    enforced = LeaseOptions(Lease(1, 10.0), enforced=True)
    more = {"initial_request_n": 1} if frame_type is RequestStreamFrame else {}
    async with frame_peer_client(KnownAnswers(), setup=False, lease=enforced) as peer:
        await peer.setup()
        for first in (1, 5):
            await peer.send(
                frame_type(first, data=b"a", **more), RequestResponseFrame(first + 2, data=b"b")
            )
            frames = await peer.drain()
            errors = [frame for frame in frames if isinstance(frame, ErrorFrame)]
            rejected = [each.stream_id for each in errors if each.code == ErrorCode.REJECTED]
            assert rejected == [first + 2]
            await trio.sleep(11)
        assert not any(isinstance(frame, LeaseFrame) for frame in peer.received)


async def test_enforced_leases_bind_no_requests_to_a_client_without_l():
    """The acceptor may choose the source; a LEASE of the client has no effect (R-LEASE-10)."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        requester.leases.source = Lease(0, 10.0)
        return KnownAnswers()

    enforced = LeaseOptions(Lease(5, 10.0), enforced=True)
    async with frame_peer_client(acceptor, setup=False, lease=enforced) as peer:
        await peer.setup()
        await peer.send(LeaseFrame(10_000, 0), RequestResponseFrame(1, data=b"a"))
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.REJECTED
        assert requesters[0].leases.sendable_requests == 2**31 - 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(by_response, requesters[0])
            assert (await peer.receive(RequestResponseFrame)).stream_id == 2
            nursery.cancel_scope.cancel()


async def test_enforced_leases_are_granted_to_those_who_ask():
    """The option changes nothing for them, and is no second way to refuse the others."""
    enforced = LeaseOptions(Lease(5, 10.0), enforced=True)
    async with connected_pair(
        KnownAnswers(), lease=enforced, client_lease=LeaseOptions()
    ) as client:
        await by_fnf(client)
        assert client.leases.received_lease == Lease(5, 10.0)
    with pytest.raises(ValueError, match="choose one"):
        LeaseOptions(required=True, enforced=True)
