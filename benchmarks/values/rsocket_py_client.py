"""The client of rsocket-py, with `json`: one task per request in flight."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from reactivestreams.subscriber import DefaultSubscriber
from rsocket.awaitable.awaitable_rsocket import AwaitableRSocket
from rsocket.extensions.helpers import composite, route
from rsocket.extensions.mimetypes import WellKnownMimeTypes
from rsocket.helpers import single_transport_provider
from rsocket.payload import Payload
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.tcp import TransportTCP

from benchmarks.py_server import KEEPALIVE
from benchmarks.values.asking import obey
from benchmarks.values.messages import ITEM, VALUES, Item
from benchmarks.values.rsocket_py_server import decode, encode

RETURNS: Final[dict[str, Any]] = {"ints": list[int]}
"""The types of the answers that are no classes."""
WINDOW: Final = 256


class Reader(DefaultSubscriber):
    """Hands items to a queue, and requests more after three quarters of its window."""

    def __init__(self) -> None:
        super().__init__()
        self.items: asyncio.Queue[tuple[Payload, bool]] = asyncio.Queue()
        self._taken = 0

    def on_next(self, value: Payload, is_complete: bool = False) -> None:
        self.items.put_nowait((value, is_complete))

    async def next(self) -> tuple[Payload, bool]:
        item = await self.items.get()
        self._taken += 1
        if self._taken == WINDOW * 3 // 4:
            self.subscription.request(self._taken)
            self._taken = 0
        return item


async def main(uri: str) -> None:
    streams = await asyncio.open_connection("127.0.0.1", int(uri.rpartition(":")[2]))
    async with RSocketClient(
        single_transport_provider(TransportTCP(*streams)),
        metadata_encoding=WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA,
        data_encoding=WellKnownMimeTypes.APPLICATION_JSON,
        **KEEPALIVE,
    ) as client:
        awaitable = AwaitableRSocket(client)

        async def asker(kind: str) -> tuple[Callable[[], Awaitable[Any]], Any]:
            value = VALUES[kind]
            returns = RETURNS.get(kind, type(value))

            async def ask() -> Any:
                payload = Payload(encode(value), composite(route(kind)))
                return decode(returns, (await awaitable.request_response(payload)).data)

            return ask, value

        async def read(count: int) -> AsyncIterator[Item]:
            reader = Reader()
            payload = Payload(encode(count), composite(route("items")))
            client.request_stream(payload).initial_request_n(WINDOW).subscribe(reader)
            is_complete = False
            while not is_complete:
                payload, is_complete = await reader.next()
                yield decode(Item, payload.data)

        await obey(asker, read, ITEM)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main(sys.argv[1]))
