"""The client of websockets: requests in flight on one connection, whose answers come in order."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.values.asking import obey
from benchmarks.values.websockets_server import OF_ONE_ITEM, TYPES, Item, encode, value_of


class Asker:
    """Asks on one connection for one kind of answer."""

    def __init__(self, connection: ClientConnection, kind: str) -> None:
        self._connection = connection
        self._decode = msgspec.json.Decoder(TYPES[kind]).decode
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._value = value_of(kind)

    async def receive(self) -> None:
        async for message in self._connection:
            self._waiting.popleft().set_result(self._decode(message))

    async def ask(self) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        await self._connection.send(encode(self._value))
        return await answer


async def main(uri: str) -> None:
    async with AsyncExitStack() as connections, asyncio.TaskGroup() as group:

        async def opened(kind: str) -> ClientConnection:
            return await connections.enter_async_context(connect(f"{uri}/{kind}", compression=None))

        askers: dict[str, Asker] = {}
        readers = []

        async def asker(kind: str) -> tuple[Callable[[], Awaitable[Any]], Any]:
            if kind not in askers:
                askers[kind] = Asker(await opened(kind), kind)
                readers.append(group.create_task(askers[kind].receive()))
            return askers[kind].ask, value_of(kind)

        items = await opened("items")
        decode = msgspec.json.Decoder(Item).decode

        async def read(count: int) -> AsyncIterator[Item]:
            await items.send(str(count))
            for _ in range(count):
                yield decode(await items.recv())

        await obey(asker, read, OF_ONE_ITEM)
        for reader in readers:
            reader.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
