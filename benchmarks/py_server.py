"""The server of rsocket-py: its request handler, on the TCP server of asyncio or on aiohttp."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import sys
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

from reactivestreams.publisher import DefaultPublisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import DefaultSubscription
from rsocket.helpers import create_future
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_server import RSocketServer
from rsocket.streams.stream_from_async_generator import StreamFromAsyncGenerator
from rsocket.transports.tcp import TransportTCP

from benchmarks.control import COUNT, IDLE, ITEM_SIZE, ready

ITEM = b"x" * ITEM_SIZE
KEEPALIVE = {
    "keep_alive_period": timedelta(seconds=60),
    "max_lifetime_period": timedelta(minutes=10),
}


class Items(DefaultPublisher, DefaultSubscription):
    """Sends all requested items at once: the fastest publisher that the interface allows.

    The generator stream of rsocket-py needs two queues and one pass of the event loop per item.
    """

    def __init__(self, left: float) -> None:
        self.left = left

    def subscribe(self, subscriber: Any) -> None:
        super().subscribe(subscriber)
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        for _ in range(n):
            if self.left <= 0:
                return
            self.left -= 1
            self._subscriber.on_next(Payload(ITEM), is_complete=self.left == 0)

    def cancel(self) -> None:
        self.left = 0


class Echoes(DefaultPublisher, DefaultSubscriber, DefaultSubscription):
    """Sends back all received items. It requests as many items as its subscriber requests."""

    def __init__(self, first: Payload) -> None:
        super().__init__()
        self.first: Payload | None = first

    def subscribe(self, subscriber: Any) -> None:
        super().subscribe(subscriber)
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        if self.first is not None:
            first, self.first = self.first, None
            self._subscriber.on_next(first)
            n -= 1
        if n:
            self.subscription.request(n)

    def cancel(self) -> None:
        self.subscription.cancel()

    def on_next(self, value: Payload, is_complete: bool = False) -> None:
        self._subscriber.on_next(value, is_complete)

    def on_complete(self) -> None:
        self._subscriber.on_complete()


async def generated(count: int | None) -> AsyncGenerator[tuple[Payload, bool], None]:
    """Yield the items of a stream, each with a flag that marks the last one."""
    for number in itertools.count(1):
        yield Payload(ITEM), number == count
        if number == count:
            return


class Echo(BaseRequestHandler):
    """Answers like the servers of the other stacks.

    Attributes:
        by_generator: Use a generator for streams, as its documentation shows, instead of `Items`.
    """

    by_generator = False

    def __init__(self) -> None:
        self.seen = 0

    async def request_response(self, payload: Payload) -> Any:
        if payload.data == COUNT:
            return create_future(Payload(b"%d" % self.seen))
        return create_future(payload)

    async def request_fire_and_forget(self, payload: Payload) -> None:
        self.seen += 1

    async def request_stream(self, payload: Payload) -> Items | StreamFromAsyncGenerator:
        data = payload.data or b""
        if Echo.by_generator:
            return StreamFromAsyncGenerator(lambda: generated(int(data) if data else None))
        if data == IDLE:
            return Items(0)
        return Items(int(data) if data else float("inf"))

    async def request_channel(self, payload: Payload) -> tuple[Echoes, Echoes]:
        echoes = Echoes(payload)
        return echoes, echoes


class Yielding(Echo):
    """Waits for one pass of the event loop before each answer."""

    async def request_response(self, payload: Payload) -> Any:
        await asyncio.sleep(0)
        return create_future(payload)


async def serve_tcp(handler: type[Echo], options: dict[str, Any]) -> int:
    def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        RSocketServer(TransportTCP(reader, writer), handler_factory=handler, **options)

    server = await asyncio.start_server(session, "127.0.0.1", 0, backlog=1024)
    return server.sockets[0].getsockname()[1]


async def serve_websocket(handler: type[Echo], options: dict[str, Any]) -> int:
    from aiohttp import web  # only the WebSocket cases need it
    from rsocket.transports.aiohttp_websocket import websocket_handler_factory

    application = web.Application()
    application.router.add_get("/", websocket_handler_factory(handler_factory=handler, **options))
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner.addresses[0][1]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scheme", choices=["tcp", "ws"])
    parser.add_argument("--fragment-size", type=int)
    parser.add_argument("--generator", action="store_true")
    parser.add_argument(
        "--yield", dest="handler", action="store_const", const=Yielding, default=Echo
    )
    arguments = parser.parse_args()
    Echo.by_generator = arguments.generator
    options = KEEPALIVE | {"fragment_size_bytes": arguments.fragment_size}
    start = serve_tcp if arguments.scheme == "tcp" else serve_websocket
    ready(f"{arguments.scheme}://127.0.0.1:{await start(arguments.handler, options)}")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main())
