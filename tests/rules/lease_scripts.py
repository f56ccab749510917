"""Scripted peers of a client and of a server that use leases, and the four kinds of request."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, LeaseFrame
from rsocket_trio.lease import LeaseOptions
from rsocket_trio.payload import Payload
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
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
