"""Trunks for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from rsocket_trio.ttrpc.mux import Trunk, multiplexed


@asynccontextmanager
async def trunk_pair(**options: Any) -> AsyncIterator[tuple[Trunk, Trunk]]:
    """Two ends of a trunk over memory."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here, **options) as one, multiplexed(there, **options) as other:
        yield one, other


async def receive(stream: trio.abc.ReceiveStream, count: int) -> bytes:
    """Return exactly so many bytes."""
    data = b""
    while len(data) < count:
        more = await stream.receive_some(count - len(data))
        assert more, "the stream has ended"
        data += more
    return data


async def receive_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Return all bytes until the end."""
    data = b""
    while more := await stream.receive_some():
        data += more
    return data
