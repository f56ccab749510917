"""A call of a method that is not there leaves no cycle, with middleware and from a Router."""

from __future__ import annotations

import gc
from functools import partial

import pytest

from rsocket_trio import Router, ttrpc


async def watch(call):
    yield


@pytest.mark.parametrize("by_router", [True, False])
async def test_a_refusal_leaves_no_cycle(nursery, by_router):
    """Strangers would fill the memory until a collection."""
    options = {} if by_router else {"middleware": [watch]}
    service = ttrpc.Service("a.Other")

    @service.method("Here")
    async def here(request: bytes) -> bytes:
        return request

    target = Router(middleware=[watch]) if by_router else service
    start = partial(ttrpc.serve, target, "tcp://127.0.0.1:0", **options)
    server = await nursery.start(start)
    async with ttrpc.connect(server.uris[0]) as client:
        method = ttrpc.Method("a.B", "C", ttrpc.MethodKind.UNARY, ttrpc.BYTES, ttrpc.BYTES)

        async def refused():
            with pytest.raises(ttrpc.Unimplemented):
                await client.unary(method, b"?" * 1000)

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
