"""Requests beyond the lease that an end has granted, checked from the wire."""

from __future__ import annotations

import logging

import pytest
import trio

from rsocket_trio.frames import (
    LeaseFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.lease import Lease, LeaseOptions
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.lease_scripts import NEVER, asked, rejected


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
