"""The ttrpc server of rsocket_trio: a `Service` with annotated handlers, as in an application."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator

import trio

from benchmarks.control import ready
from benchmarks.ttrpc.messages import ITEM, SERVICE, unwrap
from rsocket_trio import ttrpc

service = ttrpc.Service(SERVICE)


@service.method("Unary")
async def unary(request: bytes) -> bytes:
    return request


@service.method("Items")
async def items(request: bytes) -> AsyncIterator[bytes]:
    for _ in range(int(unwrap(request))):
        yield ITEM


@service.method("Echo")
async def echo(messages: trio.abc.ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
    async for message in messages:
        yield message


async def main() -> None:
    """Serve until the standard input ends."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        async with trio.open_nursery() as nursery:
            await nursery.start(ttrpc.serve, service, f"unix://{directory}/socket")
            ready(f"unix://{directory}/socket")
            await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
