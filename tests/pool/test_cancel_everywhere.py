"""A request to a pool that is cancelled at any step leaves the pool as it was."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio

from rsocket_trio import Payload
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from tests.pool.fleet import ask, fleet, pool_of
from tests.pool.test_pool import TURNS, settled


async def test_a_request(autojump_clock):
    """Whatever it waits for: no place is held, and others are served."""
    async with fleet(2) as servers:
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 2)
            servers[0].behaviour = "refuses"  # so that half of them are repeated

            async def request():
                await ask(pool)
                async with pool.request_stream(Payload(b"1")) as items:
                    await items.receive()

            async def check():
                await trio.sleep(1)
                assert {each.in_flight for each in pool.targets()} == {0}
                assert await ask(pool) == "s1"

            assert await cancel_everywhere(request, check)


async def test_the_block(autojump_clock):
    """No connection and no task stays."""
    async with fleet(2) as servers:

        @asynccontextmanager
        async def asking():
            async with pool_of(servers) as pool:
                yield pool

        async def block():
            async with asking() as pool:
                await ask(pool)

        async def check():
            await trio.sleep(1)
            assert not any(server.open for server in servers)

        assert await cancel_everywhere(block, check)
