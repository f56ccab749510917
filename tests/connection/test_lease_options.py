"""Leases, their options and their sources: valid and invalid values."""

from __future__ import annotations

import math
from functools import partial

import pytest

from rsocket_trio import connect, serve, serve_transport
from rsocket_trio.lease import Lease, LeaseOptions
from rsocket_trio.payload import Payload
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair


@pytest.mark.parametrize(
    "make",
    [
        partial(Lease, -1, 1),
        partial(Lease, 2**31, 1),
        partial(Lease, 1, -1),
        partial(Lease, 1, math.nan),
        partial(Lease, 1, math.inf),
        partial(Lease, 1, 2**31 / 1000),
        partial(LeaseOptions, max_waiting=-1),
    ],
)
def test_impossible_values_are_refused(make):
    """A lease that no LEASE frame can carry, or a bound below 0, cannot be made."""
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        partial(Lease, 1.5, 1),
        partial(Lease, 1, 1, "text"),
        partial(LeaseOptions, 5),
        partial(LeaseOptions, required="yes"),
    ],
)
def test_wrong_types_are_refused(make):
    """Half a request, text as metadata and a wrong kind of source are refused when made."""
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("lease", [5, "a lease"])
async def test_a_wrong_source_is_refused(lease):
    """`connect`, `serve` and `serve_transport` refuse it at once."""
    with pytest.raises(TypeError, match="the source of leases must be"):
        await serve(KnownAnswers(), "tcp://127.0.0.1:0", lease=lease)
    one, other = memory_transport_pair()
    with pytest.raises(TypeError, match="the source of leases must be"):
        await serve_transport(KnownAnswers(), one, lease=lease)
    with pytest.raises(TypeError, match="the source of leases must be"):
        async with connect(other, lease=lease):
            pass


async def test_lease_takes_a_plain_source():
    """If no other option is set, ``lease=`` takes the source itself."""
    async with connected_pair(
        KnownAnswers(), lease=Lease(2, 10.0), client_lease=Lease(3, 10.0)
    ) as client:
        await client.request_response(Payload(b"x"))
        assert client.leases.sendable_requests == 1
        assert client.leases.statistics().requests_left == 3


@pytest.mark.parametrize(
    ("seconds", "milliseconds"), [(0, 0), (0.0001, 1), (0.5, 500), (90.5, 90500), (3, 3000)]
)
def test_a_time_to_live_is_rounded_to_milliseconds(seconds, milliseconds):
    """It is never rounded to 0."""
    assert Lease(1, seconds).time_to_live_ms == milliseconds
