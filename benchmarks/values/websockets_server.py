"""The server of websockets: one answer after the other, JSON by msgspec's structs.

The path says the kind of request. There are no routes, no errors, and nothing runs beside another.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import msgspec
from websockets.asyncio.server import ServerConnection, serve

from benchmarks.control import ready
from benchmarks.values.messages import FIELDS, ITEM, VALUES


class Line(msgspec.Struct):
    sku: str
    quantity: int
    price: float


class Order(msgspec.Struct):
    id: int
    customer: str
    lines: list[Line]
    note: str | None = None


class Blob(msgspec.Struct):
    name: str
    data: bytes


class Item(msgspec.Struct):
    id: int
    name: str
    price: float


TYPES: Final[dict[str, Any]] = {
    "order": Order,
    "fields": msgspec.defstruct("Fields", FIELDS),
    "ints": list[int],
    "blob": Blob,
}
OF_ONE_ITEM: Final = msgspec.convert(ITEM, Item, from_attributes=True)

encode: Final = msgspec.json.Encoder().encode


def value_of(kind: str) -> Any:
    """Return the value of a kind of request."""
    return msgspec.convert(VALUES[kind], TYPES[kind], from_attributes=True)


async def answer(connection: ServerConnection) -> None:
    assert connection.request is not None
    kind = connection.request.path.removeprefix("/")
    if kind == "items":
        async for message in connection:
            for _ in range(int(message)):
                await connection.send(encode(OF_ONE_ITEM))
    else:
        decode = msgspec.json.Decoder(TYPES[kind]).decode
        async for message in connection:
            await connection.send(encode(decode(message)))


async def main() -> None:
    """Serve until the standard input ends."""
    async with serve(answer, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        ready(f"ws://127.0.0.1:{port}")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
