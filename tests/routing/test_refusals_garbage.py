"""A refused request leaves no cycle: strangers would fill the memory until a collection."""

from __future__ import annotations

import gc

import pytest

from rsocket_trio import Metadata, Payload, Router
from rsocket_trio.errors import RSocketError
from rsocket_trio.metadata import MIME, MetadataEntry
from rsocket_trio.testing.in_memory import connected_pair

UNREADABLE = MetadataEntry(MIME.ROUTING, b"\1a" + bytes(100)).encode()


async def watch(call):
    yield


@pytest.mark.parametrize("middleware", [[], [watch]])
@pytest.mark.parametrize(
    "metadata",
    [UNREADABLE, Metadata(route="number.x").encode(), Metadata(route="none").encode()],
    ids=["unreadable", "variable", "unknown"],
)
async def test_a_refusal_leaves_no_cycle(middleware, metadata):
    router = Router(middleware=middleware)

    @router.request_response("number.{n}")
    async def number(n: int) -> int:
        return n

    async def refused():
        with pytest.raises(RSocketError):
            await requester.request_response(Payload(b"?", metadata))

    async with connected_pair(router) as requester:
        await refused()
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                await refused()
            found = gc.collect()
        finally:
            gc.enable()
    assert found == 0
