"""The server of rsocket_trio: a plain `Responder`, or with ``--router`` a `Router`.

It also works with older versions of the package, which `benchmarks.compare` measures.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import tracemalloc
from collections.abc import AsyncIterable, AsyncIterator

import trio

from benchmarks.control import COUNT, IDLE, ITEM_SIZE, TRACED, ready
from rsocket_trio import Payload, Responder, serve
from rsocket_trio.routing import Router

ITEM = Payload(b"x" * ITEM_SIZE)


class Echo(Responder):
    """Echoes requests and channels, and streams the number of items that the request gives."""

    def __init__(self) -> None:
        self.seen = 0

    async def request_response(self, payload: Payload) -> Payload:
        if payload.data == COUNT:
            return Payload(b"%d" % self.seen)
        return payload

    async def fire_and_forget(self, payload: Payload) -> None:
        self.seen += 1

    async def request_stream(self, payload: Payload) -> AsyncIterator[Payload]:
        if payload.data == IDLE:
            await trio.sleep_forever()
        if payload.data:
            for _ in range(int(payload.data)):
                yield ITEM
        else:
            while True:
                yield ITEM

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterable[Payload]:
        return payloads


class Yielding(Echo):
    """Waits for one checkpoint before each answer."""

    async def request_response(self, payload: Payload) -> Payload:
        await trio.lowlevel.checkpoint()
        return payload


class Traced(Echo):
    """Reports the size of its Python objects."""

    def __init__(self) -> None:
        super().__init__()
        tracemalloc.start()

    async def request_response(self, payload: Payload) -> Payload:
        if payload.data == TRACED:
            gc.collect()
            return Payload(b"%d" % tracemalloc.get_traced_memory()[0])
        return await super().request_response(payload)


def echo_router() -> Router:
    """Return a router that echoes requests with the route ``echo``."""
    router = Router()

    @router.request_response("echo")
    async def echo(data: bytes) -> bytes:
        return data

    return router


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scheme", choices=["tcp", "ws", "unix"])
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--router", dest="responder", action="store_const", const=echo_router)
    kind.add_argument("--yield", dest="responder", action="store_const", const=Yielding)
    kind.add_argument("--traced", dest="responder", action="store_const", const=Traced)
    parser.set_defaults(responder=Echo)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        address = f"{directory}/socket" if options.scheme == "unix" else "127.0.0.1:0"
        await run(options.responder(), f"{options.scheme}://{address}")


async def run(responder: Responder, uri: str) -> None:
    """Serve until the standard input ends."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, responder, uri)
        ready(server.uris[0])
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
