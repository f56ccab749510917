"""The server of grpc.aio, with protobuf's messages."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import grpc

from benchmarks.control import ready
from benchmarks.values.messages import ITEM, VALUES

MESSAGES: Final[Any] = grpc.protos("benchmarks/values/messages.proto")
TYPES: Final = {
    "order": MESSAGES.Order,
    "fields": MESSAGES.Fields,
    "ints": MESSAGES.Ints,
    "blob": MESSAGES.Blob,
}
OF_ONE_ITEM: Final = MESSAGES.Item(**asdict(ITEM))
SERVICE: Final = "benchmark.Values"


def value_of(kind: str) -> Any:
    """Return the value of a kind of request."""
    value = VALUES[kind]
    return TYPES[kind](**({"ints": value} if kind == "ints" else asdict(value)))


async def echo(request: Any, _context: object) -> Any:
    return request


async def items(request: Any, _context: object) -> AsyncIterator[Any]:
    for _ in range(request.count):
        yield OF_ONE_ITEM


async def main(handler: Any = echo, interceptors: Sequence[Any] = ()) -> None:
    """Serve until the standard input ends."""
    server = grpc.aio.server(interceptors=interceptors)
    handlers = {
        kind: grpc.unary_unary_rpc_method_handler(
            handler, message.FromString, message.SerializeToString
        )
        for kind, message in TYPES.items()
    }
    handlers["items"] = grpc.unary_stream_rpc_method_handler(
        items, MESSAGES.Count.FromString, MESSAGES.Item.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready(f"127.0.0.1:{port}")
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
