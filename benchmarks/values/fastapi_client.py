"""The client of the server of FastAPI: aiohttp, with a connection for each request in flight."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import ClientSession, TCPConnector

from benchmarks.values.asking import obey
from benchmarks.values.fastapi_server import ADAPTERS, OF_ONE_ITEM, Item, value_of

JSON = {"content-type": "application/json"}


async def main(uri: str) -> None:
    # A connection stays open while the other stacks have their turns.
    connector = TCPConnector(limit=0, keepalive_timeout=3600)
    async with ClientSession(uri, connector=connector) as session:

        async def asker(kind: str) -> tuple[Callable[[], Awaitable[Any]], Any]:
            value, adapter, path = value_of(kind), ADAPTERS[kind], f"/{kind}"

            async def ask() -> Any:
                data = adapter.dump_json(value)
                async with session.post(path, data=data, headers=JSON) as response:
                    return adapter.validate_json(await response.read())

            return ask, value

        async def read(count: int) -> AsyncIterator[Item]:
            async with session.get(f"/items/{count}") as response:
                async for line in response.content:
                    yield Item.model_validate_json(line)

        await obey(asker, read, OF_ONE_ITEM)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
