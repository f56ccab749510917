"""The real end answers, as a server: `ANSWERING`. See scenes.py."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import asynccontextmanager

from rsocket_trio import ConnectionConfig, Responder
from rsocket_trio.frames import (
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import Event, Side
from rsocket_trio.testing.in_memory import frame_peer_client
from tests.rules.scenes import FRAMES, Scene

__all__ = ["ANSWERING", "CompleteChannel"]


class Answering(Scene):
    """The real end answers, as a server."""

    side = Side.RESPONDER
    stream_id = 1

    @asynccontextmanager
    async def begun(self):
        async with frame_peer_client(self._accept, config=ConnectionConfig(prefetch=4)) as peer:
            self.peer = peer
            await peer.send(*self.requests())
            await self._began.wait()
            await self.sent()
            yield

    async def _accept(self, _setup, requester):
        self.end = requester
        return _Application(self)

    @abstractmethod
    def requests(self):
        """The frames of the request, and those that the peer sends right behind it."""


class _Application(Responder):
    def __init__(self, scene):
        self.scene = scene

    def body_responder(self, interaction, metadata):
        return self

    async def request_response(self, payload):
        return await self.scene.answer()

    async def fire_and_forget(self, payload):
        await self.scene.answer()

    def request_stream(self, payload):
        return self.scene.items()

    def request_channel(self, payload, payloads):
        self.scene.payloads = payloads
        return self.scene.items()


class Response(Answering):
    name = "request_response"
    interaction = Interaction.REQUEST_RESPONSE

    def requests(self):
        return [RequestResponseFrame(1, data=b"?")]

    async def can_say(self):
        self.order(Event.SEND_NEXT_COMPLETE)
        return Event.SEND_NEXT_COMPLETE in await self.sent()


class StreamedResponse(Response):
    name = "request_response, read while it arrives"

    def requests(self):
        return [
            RequestResponseFrame(1, data=b"?", follows=True),
            PayloadFrame(1, next=True, data=b"?"),
        ]


class Forgotten(Answering):
    name = "fire_and_forget"
    interaction = Interaction.FIRE_AND_FORGET

    def requests(self):
        return [RequestFnfFrame(1, data=b"!")]

    async def can_say(self):
        self.order(Event.SEND_NEXT_COMPLETE)
        return bool(await self.sent())


class Saying(Answering):
    """A stream of items."""

    @asynccontextmanager
    async def begun(self):
        async with super().begun():
            if not self.credit:
                # A request grants at least one item.
                await self.attempt(Event.SEND_NEXT)
            yield

    async def can_say(self):
        return await self.says()


class Stream(Saying):
    name = "request_stream"
    interaction = Interaction.REQUEST_STREAM

    def requests(self):
        return [RequestStreamFrame(1, self.credit or 1, data=b"?")]


class StreamedStream(Stream):
    name = "request_stream, read while it arrives"

    def requests(self):
        return [
            RequestStreamFrame(1, self.credit or 1, data=b"?", follows=True),
            PayloadFrame(1, next=True, data=b"?"),
        ]


class Channel(Saying):
    name = "request_channel"
    interaction = Interaction.REQUEST_CHANNEL
    complete = False

    def requests(self):
        request = RequestChannelFrame(1, self.credit or 1, data=b"?", complete=self.complete)
        # The item of the request needs no credit, so reading it grants none.
        return [request] if self.complete else [request, FRAMES[Event.NEXT](1)]

    def order(self, event):
        if event is Event.SEND_CANCEL:
            self.payloads.close()
        elif event is Event.SEND_REQUEST_N:
            self.hear()
        elif event is Event.SEND_COMPLETE and not self.forgotten:
            # A handler that ends refuses further items too, so CANCEL leaves at once too, and no
            # application can wait in between. So the test completes the half beneath the handler.
            self.end._connection.table.operations[1].send_complete()
        else:
            super().order(event)

    async def can_hear(self):
        return await self.hears()


class CompleteChannel(Channel):
    name = "request_channel, complete with its request"
    complete = True


ANSWERING = [
    Response,
    StreamedResponse,
    Forgotten,
    Stream,
    StreamedStream,
    Channel,
    CompleteChannel,
]
