"""The real end asks, as a client: `REQUESTING`. See scenes.py."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import asynccontextmanager, suppress

import trio

from rsocket_trio import ApplicationError, Payload
from rsocket_trio.frames import RequestNFrame
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import Event, Side
from rsocket_trio.testing.in_memory import frame_peer_server
from tests.rules.scenes import Scene

__all__ = ["REQUESTING"]

WINDOW = 8


class Requesting(Scene):
    """The real end asks, as a client."""

    side = Side.REQUESTER

    @asynccontextmanager
    async def begun(self):
        async with frame_peer_server() as (self.peer, self.end):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._use)
                self.stream_id = (await self.peer.receive()).stream_id
                await self.granted()
                yield
                nursery.cancel_scope.cancel()

    async def granted(self):
        """Let the peer grant the credit."""
        await self.sent()

    def order(self, event):
        if event is Event.SEND_CANCEL:
            self._left.set()

    async def _use(self):
        try:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._leave, scope)
                    self.noted.append(await self.ask())
                    nursery.cancel_scope.cancel()
        except* ApplicationError as group:
            self.noted.append(str(group.exceptions[0]))

    async def _leave(self, scope):
        await self._left.wait()
        scope.cancel()

    @abstractmethod
    async def ask(self):
        """Make the request, and wait for its result."""


class Response(Requesting):
    name = "request_response"
    interaction = Interaction.REQUEST_RESPONSE

    async def ask(self):
        return await self.end.request_response(Payload(b"?"))

    async def can_hear(self):
        before = len(self.noted)
        await self.receive(Event.NEXT_COMPLETE)
        return len(self.noted) > before


class StreamedResponse(Response):
    name = "request_response, read while it arrives"

    async def ask(self):
        async with self.end.request_response_streamed(Payload(b"?")) as body:
            return None if body is None else [chunk async for chunk in body]


class Forgotten(Requesting):
    name = "fire_and_forget"
    interaction = Interaction.FIRE_AND_FORGET

    async def ask(self):
        await self.end.fire_and_forget(Payload(b"!"))
        await trio.sleep_forever()


class Hearing(Requesting):
    """The reading end of a stream of items."""

    async def ask(self):
        async with self.opened() as self.payloads:
            await trio.sleep_forever()

    def order(self, event):
        super().order(event)
        if event is Event.SEND_REQUEST_N:
            with suppress(trio.ClosedResourceError):
                self.payloads.request_n(1)

    async def can_hear(self):
        return await self.hears()


class Stream(Hearing):
    name = "request_stream"
    interaction = Interaction.REQUEST_STREAM

    def opened(self):
        return self.end.request_stream(Payload(b"?"), prefetch=0, initial_request_n=WINDOW)


class Channel(Hearing):
    name = "request_channel"
    interaction = Interaction.REQUEST_CHANNEL

    def opened(self):
        return self.end.request_channel(
            self.items(), payload=Payload(b"first"), prefetch=0, initial_request_n=WINDOW
        )

    async def granted(self):
        if self.credit:
            await self.peer.send(RequestNFrame(self.stream_id, self.credit))
        await self.sent()

    def order(self, event):
        if event in {Event.SEND_NEXT, Event.SEND_COMPLETE, Event.SEND_ERROR}:
            self._orders.send_nowait(event)
        super().order(event)

    async def can_say(self):
        return await self.says()


REQUESTING = [Response, StreamedResponse, Forgotten, Stream, Channel]
