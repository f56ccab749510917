"""The requests of an end that needs a lease, checked from the wire."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig
from rsocket_trio.errors import ErrorCode, MissingLease
from rsocket_trio.frames import (
    ErrorFrame,
    LeaseFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.lease import LeaseOptions
from tests.rules.lease_scripts import asking, by_channel, by_fnf, by_response, by_stream

FOUR = [by_response, by_fnf, by_stream, by_channel]


async def test_a_lease_expires(autojump_clock):
    """R-LEASE-04: no request leaves after the lease's time, until the next LEASE."""
    async with asking() as (peer, requester):
        await peer.send(LeaseFrame(100, 5))
        await trio.sleep(0.099)
        assert requester.leases.sendable_requests == 5
        await trio.sleep(0.001)
        assert requester.leases.sendable_requests == 0
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
        assert (requester.leases.sendable_requests, requester.leases.waiting_requests) == (0, 3)
        await peer.send(LeaseFrame(10_000, 1))
        await peer.receive(RequestStreamFrame)
        await peer.expect_nothing()
        await peer.send(LeaseFrame(10_000, 10))
        await peer.receive(RequestChannelFrame)
        assert RequestResponseFrame in map(type, await peer.drain())
        assert (requester.leases.sendable_requests, requester.leases.waiting_requests) == (8, 0)


async def test_requests_wait_for_a_lease_without_a_limit(autojump_clock):
    """R-LEASE-13, R-UNX-04: the application decides how long to wait for a LEASE."""
    config = ConnectionConfig(keepalive_interval=3600, max_lifetime=2_000_000)
    async with asking(by_response, config=config) as (peer, requester):
        await trio.sleep(1_000_000)
        assert not [each for each in await peer.drain() if isinstance(each, ErrorFrame)]
        assert requester.leases.waiting_requests == 1


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
        assert requester.leases.waiting_requests == 3
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
