"""The server of rsocket-py: its router, with `json` and dataclasses."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from rsocket.payload import Payload
from rsocket.routing.request_router import RequestRouter
from rsocket.routing.routing_request_handler import RoutingRequestHandler
from rsocket.rsocket_server import RSocketServer
from rsocket.streams.stream_from_async_generator import StreamFromAsyncGenerator
from rsocket.transports.tcp import TransportTCP

from benchmarks.control import ready
from benchmarks.py_server import KEEPALIVE
from benchmarks.values.messages import ITEM, Fields, Item, Line, Order


def read_order(plain: dict[str, Any]) -> Order:
    return Order(**plain | {"lines": [Line(**line) for line in plain["lines"]]})


READERS: Final[dict[Any, Callable[[Any], Any]]] = {
    Order: read_order,
    Fields: lambda plain: Fields(**plain),
    Item: lambda plain: Item(**plain),
    list[int]: list,
    int: int,
}


def encode(value: Any) -> bytes:
    return json.dumps(value, default=vars).encode()


def decode(annotation: Any, data: bytes) -> Any:
    return READERS[annotation](json.loads(data))


def router_of_values() -> RequestRouter:
    """Return a router that reads and writes values as JSON."""
    return RequestRouter(
        payload_deserializer=lambda annotation, payload: decode(annotation, payload.data),
        payload_serializer=lambda _annotation, value: Payload(encode(value)),
    )


router = router_of_values()


def echo(annotation: Any) -> Any:
    """Return a handler with this annotation: the router of rsocket-py does not read texts."""

    async def handler(value: Any) -> Any:
        return value

    handler.__annotations__ = {"value": annotation, "return": annotation}
    return handler


router.response("order")(echo(Order))
router.response("fields")(echo(Fields))
router.response("ints")(echo(list[int]))


async def items(count: Any) -> Any:
    async def generated() -> AsyncGenerator[tuple[Payload, bool], None]:
        for left in range(count - 1, -1, -1):
            yield Payload(encode(ITEM)), not left

    return StreamFromAsyncGenerator(generated)


items.__annotations__ = {"count": int}
router.stream("items")(items)


async def main(router: RequestRouter = router) -> None:
    """Serve until the standard input ends."""

    def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        RSocketServer(
            TransportTCP(reader, writer),
            handler_factory=lambda: RoutingRequestHandler(router),
            **KEEPALIVE,
        )

    server = await asyncio.start_server(session, "127.0.0.1", 0)
    ready(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main())
