"""The server of grpcio, with asyncio and generic handlers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator

import grpc

from benchmarks.control import ready
from benchmarks.ttrpc.messages import ITEM, SERVICE, unwrap


async def unary(request: bytes, _context: object) -> bytes:
    return request


async def items(request: bytes, _context: object) -> AsyncIterator[bytes]:
    for _ in range(int(unwrap(request))):
        yield ITEM


async def echo(messages: AsyncIterator[bytes], _context: object) -> AsyncIterator[bytes]:
    async for message in messages:
        yield message


async def main() -> None:
    """Serve until the standard input ends."""
    server = grpc.aio.server()
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Items": grpc.unary_stream_rpc_method_handler(items),
        "Echo": grpc.stream_stream_rpc_method_handler(echo),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        server.add_insecure_port(f"unix://{directory}/socket")
        await server.start()
        ready(f"unix://{directory}/socket")
        await asyncio.to_thread(sys.stdin.read)
        await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
