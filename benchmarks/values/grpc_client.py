"""The client of grpc.aio: one channel, one task per call in flight."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any

import grpc

from benchmarks.values.asking import obey
from benchmarks.values.grpc_server import MESSAGES, OF_ONE_ITEM, SERVICE, TYPES, value_of


async def main(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:

        async def asker(kind: str) -> tuple[Callable[[], Awaitable[Any]], Any]:
            message, value = TYPES[kind], value_of(kind)
            call = channel.unary_unary(
                f"/{SERVICE}/{kind}", message.SerializeToString, message.FromString
            )

            async def ask() -> Any:
                return await call(value)

            return ask, value

        stream = channel.unary_stream(
            f"/{SERVICE}/items", MESSAGES.Count.SerializeToString, MESSAGES.Item.FromString
        )

        def read(count: int) -> AsyncIterable[Any]:
            return stream(MESSAGES.Count(count=count))

        await obey(asker, read, OF_ONE_ITEM)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
