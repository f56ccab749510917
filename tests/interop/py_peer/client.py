"""``python client.py URI [KEEPALIVE_MS [FRAGMENT_SIZE [LEASE]]]``: rsocket-py as the client.

Over TCP.

Driven over stdin and stdout with the commands and events that ``../js/client.js`` describes. It
ends with its stdin. With LEASE, ``N/SECONDS``, it asks for leases, keeps them, and grants that one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from known_answers import ItemPublisher, KnownAnswers, lease_publisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import Subscription
from rsocket.helpers import single_transport_provider
from rsocket.payload import Payload
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.tcp import TransportTCP

READ_SIZE = 64 * 2**10
LONGEST_COMMAND = 16 * 2**20

Command = dict[str, Any]


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def from_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def payload_of(command: Command) -> Payload:
    return Payload(from_hex(command["data"]), from_hex(command["metadata"]))


def say_next(call: int, payload: Payload) -> None:
    # rsocket-py does not tell empty metadata from absent metadata.
    metadata = payload.metadata.hex() if payload.metadata else None
    say(id=call, event="next", data=(payload.data or b"").hex(), metadata=metadata)


class Reporter(DefaultSubscriber):
    """Prints the events of a stream."""

    def __init__(self, call: int, subscriptions: dict[int, Callable[[], Subscription]]) -> None:
        super().__init__()
        self._id = call
        self._subscriptions = subscriptions

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscriptions[self._id] = subscription

    def on_next(self, value: Payload, is_complete: bool = False) -> None:
        say_next(self._id, value)
        if is_complete:
            self.on_complete()

    def on_complete(self) -> None:
        say(id=self._id, event="complete")

    def on_error(self, exception: Exception) -> None:
        say(id=self._id, event="error", message=str(exception))


class Driver:
    """One method per command."""

    def __init__(self, socket: RSocketClient) -> None:
        self._socket = socket
        self._subscriptions: dict[int, Any] = {}

    def request_response(self, command: Command) -> None:
        call = command["id"]
        future = self._socket.request_response(payload_of(command))
        self._subscriptions[call] = future

        def done(future: asyncio.Future[Payload]) -> None:
            if future.cancelled():
                return
            if failure := future.exception():
                say(id=call, event="error", message=str(failure))
            else:
                say_next(call, future.result())
                say(id=call, event="complete")

        future.add_done_callback(done)

    def _say_sent(self, call: int, sent: asyncio.Future[None]) -> None:
        sent.add_done_callback(lambda _: say(id=call, event="sent"))

    def fire_and_forget(self, command: Command) -> None:
        self._say_sent(command["id"], self._socket.fire_and_forget(payload_of(command)))

    def metadata_push(self, command: Command) -> None:
        sent = self._socket.metadata_push(from_hex(command["metadata"]))
        self._say_sent(command["id"], sent)

    def request_stream(self, command: Command) -> None:
        stream = self._socket.request_stream(payload_of(command))
        reporter = Reporter(command["id"], self._subscriptions)
        stream.initial_request_n(command["initial_n"]).subscribe(reporter)

    def request_channel(self, command: Command) -> None:
        call = command["id"]
        first, *rest = map(bytes.fromhex, command["items"])
        # rsocket-py sets COMPLETE on the request frame where it has no publisher.
        publisher = None
        if rest or command["open"]:
            publisher = ItemPublisher(
                rest,
                complete=not command["open"],
                on_request=lambda n: say(id=call, event="granted", n=n),
                on_cancel=lambda: say(id=call, event="cancelled"),
            )
        channel = self._socket.request_channel(Payload(first), publisher)
        reporter = Reporter(call, self._subscriptions)
        channel.initial_request_n(command["initial_n"]).subscribe(reporter)

    def request_n(self, command: Command) -> None:
        self._subscriptions[command["id"]].request(command["n"])

    def cancel(self, command: Command) -> None:
        self._subscriptions[command["id"]].cancel()


async def main(
    uri: str, keepalive_ms: str = "20000", fragment_size: str = "0", lease: str | None = None
) -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=LONGEST_COMMAND)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    target = urlsplit(uri)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    async with RSocketClient(
        single_transport_provider(TransportTCP(reader, writer, read_buffer_size=READ_SIZE)),
        handler_factory=lambda: KnownAnswers(on_close=lambda: say(event="closed", message="")),
        keep_alive_period=timedelta(milliseconds=int(keepalive_ms)),
        fragment_size_bytes=int(fragment_size) or None,
        honor_lease=lease is not None,
        lease_publisher=None if lease is None else lease_publisher(lease),
    ) as socket:
        driver = Driver(socket)
        say(event="connected")
        while line := await commands.readline():
            command = json.loads(line)
            if command["op"] == "close":
                await socket.close()
            else:
                getattr(driver, command["op"])(command)
    # Tasks of rsocket-py outlive its close(): leave without waiting for them.
    os._exit(0)


asyncio.run(main(*sys.argv[1:]))
