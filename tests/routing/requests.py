"""Requests to a router: without a connection, and by a client with options of `connect`."""

from contextlib import asynccontextmanager

import trio

from rsocket_trio import connect
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.routing import encode_route
from rsocket_trio.payload import Payload
from rsocket_trio.testing import served


def request(data=b"", route=None, *, more=()):
    """A request with composite metadata."""
    entries = [] if route is None else [MetadataEntry(MIME.ROUTING, encode_route(route))]
    return Payload(data, CompositeMetadata([*entries, *more]).encode())


async def collect(items):
    if not hasattr(items, "__aiter__"):
        items = await items
    return [item async for item in items]


def channel_of(*payloads):
    send, receive = trio.open_memory_channel(len(payloads))
    for payload in payloads:
        send.send_nowait(payload)
    send.close()
    return receive


@asynccontextmanager
async def client_of(router, **options):
    """A client of a router, by `connect` with these options."""
    async with served(router) as dial, connect(dial, **options) as requester:
        yield requester
