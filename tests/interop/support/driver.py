"""A peer's client, controlled by lines of JSON.

``../js/client.js`` describes its commands and events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Protocol

import trio

from .processes import Peer


class Program(Protocol):
    """What is controlled: it takes commands and says events, each a line."""

    async def line(self) -> str: ...

    async def tell(self, line: str) -> None: ...


class Interactions:
    """The interactions of a peer: `start` one, then read its events."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._ids = iter(range(1, 2**31))
        self._events: dict[
            int | None, tuple[trio.MemorySendChannel[dict], trio.MemoryReceiveChannel[dict]]
        ] = {}

    def _channel(
        self, call: int | None
    ) -> tuple[trio.MemorySendChannel[dict], trio.MemoryReceiveChannel[dict]]:
        if call not in self._events:
            self._events[call] = trio.open_memory_channel(math.inf)
        return self._events[call]

    async def read_events(self) -> None:
        """Sort the client's events by interaction, as long as it runs."""
        try:
            while True:
                event = json.loads(await self._program.line())
                self._channel(event.get("id"))[0].send_nowait(event)
        except EOFError as ended:
            # A task that waits for an event gets the reason; there may be none.
            for send, _ in self._events.values():
                send.send_nowait({"event": "ended", "message": str(ended)})

    async def start(
        self,
        op: str,
        data: bytes | None = None,
        metadata: bytes | None = None,
        *,
        items: Sequence[bytes] = (),
        **arguments: object,
    ) -> int:
        """Begin an interaction; return the number by which its events are read."""
        call = next(self._ids)
        await self._tell(
            op,
            id=call,
            data=None if data is None else data.hex(),
            metadata=None if metadata is None else metadata.hex(),
            items=[item.hex() for item in items],
            **arguments,
        )
        return call

    async def request_n(self, call: int, n: int) -> None:
        await self._tell("request_n", id=call, n=n)

    async def cancel(self, call: int) -> None:
        await self._tell("cancel", id=call)

    async def _tell(self, op: str, **arguments: object) -> None:
        await self._program.tell(json.dumps({"op": op, **arguments}))

    async def event(self, call: int | None = None) -> dict:
        """Return the next event of an interaction, or of the connection itself."""
        return await self._channel(call)[1].receive()

    def pending(self, call: int) -> int:
        """Return the number of unread events of an interaction."""
        return self._channel(call)[1].statistics().current_buffer_used

    async def next_item(self, call: int) -> tuple[bytes, bytes | None]:
        """Return data and metadata of the next event, which must be an item."""
        event = await self.event(call)
        assert event["event"] == "next", event
        metadata = event["metadata"]
        return bytes.fromhex(event["data"]), None if metadata is None else bytes.fromhex(metadata)

    async def items(self, call: int) -> list[bytes]:
        """Return the data of all items up to completion, skipping events of a channel's source."""
        items = []
        while True:
            event = await self.event(call)
            match event["event"]:
                case "next":
                    items.append(bytes.fromhex(event["data"]))
                case "complete":
                    return items
                case "granted":
                    pass
                case _:
                    raise AssertionError(event)

    async def response(
        self, data: bytes, metadata: bytes | None = None
    ) -> tuple[bytes, bytes | None]:
        """Run a request_response from beginning to end."""
        call = await self.start("request_response", data, metadata)
        item = await self.next_item(call)
        assert (await self.event(call))["event"] == "complete"
        return item

    async def error(self, call: int) -> str:
        """Return the message of the next event, which must be an error."""
        event = await self.event(call)
        assert event["event"] == "error", event
        return event["message"]


class Client(Interactions):
    """A peer's client program, which has one connection."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self._peer = peer

    async def close(self) -> None:
        await self._tell("close")

    async def kill(self) -> None:
        await self._peer.kill()
