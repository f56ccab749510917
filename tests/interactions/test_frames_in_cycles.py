"""A request that ends, by whatever way, leaves no frames for the garbage collector.

A frame in a cycle keeps what its function knows, requests of megabytes among that, until the
collector comes by: it counts objects, and no bytes. And a peer may cancel as often as it likes.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import contextmanager
from types import FrameType

import pytest
import trio
import trio.testing

from rsocket_trio import BodyResponder, Metadata, Payload, Rejected, Responder, Router, Setup
from rsocket_trio.frames import (
    CancelFrame,
    RequestChannelFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.streamed import StreamedPayload
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server


@contextmanager
def no_frames_in_cycles():
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        frames = Counter(each.f_code.co_name for each in gc.garbage if isinstance(each, FrameType))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not frames


async def endless():
    yield b"chunk"
    await trio.sleep_forever()


class Body(BodyResponder):
    async def request_response(self, body):
        async for _chunk in body:
            pass


class Waits(Responder):
    def body_responder(self, interaction, metadata):
        return Body()

    async def request_response(self, payload):
        match payload.data:
            case b"later":
                await trio.lowlevel.checkpoint()
            case b"nursery":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)
            case b"chunks":
                return StreamedPayload(endless())
        return await trio.sleep_forever()

    async def request_stream(self, payload):
        if payload.data == b"credit":
            while True:
                yield payload
        await trio.sleep_forever()

    async def request_channel(self, payload, payloads):
        match payload.data:
            case b"credit":
                while True:
                    yield payload
            case b"read":
                async for _item in payloads:
                    pass
        await trio.sleep_forever()


@pytest.mark.parametrize(
    "request_frame",
    [
        RequestResponseFrame(1),
        RequestResponseFrame(1, data=b"later"),
        RequestResponseFrame(1, data=b"nursery"),
        RequestResponseFrame(1, data=b"chunks"),
        RequestResponseFrame(1, data=b"part", follows=True),
        RequestStreamFrame(1, 2),
        RequestStreamFrame(1, 2, data=b"credit"),
        RequestChannelFrame(1, 2),
        RequestChannelFrame(1, 2, data=b"credit"),
        RequestChannelFrame(1, 2, data=b"read"),
    ],
    ids=lambda frame: f"{frame.frame_type.name}-{frame.data.decode()}",
)
async def test_requests_that_the_peer_cancels(request_frame):
    async with frame_peer_client(Waits()) as peer:
        with no_frames_in_cycles():
            await peer.send(request_frame)
            await trio.testing.wait_all_tasks_blocked()
            await peer.send(CancelFrame(1))
            await trio.testing.wait_all_tasks_blocked()


async def authenticate(auth, facts):
    if not isinstance(facts, Setup):
        await trio.lowlevel.checkpoint()


router = Router(authenticate=authenticate)


@router.request_response("wait")
async def _wait() -> None:
    await trio.sleep_forever()


@router.request_stream("credit")
async def _credit() -> AsyncIterator[str]:
    while True:
        yield "item"


@router.request_stream("later")
async def _later() -> AsyncIterator[str]:
    return _credit()


@pytest.mark.parametrize("route", ["credit", "later", "wait"])
async def test_routes_that_the_peer_cancels(route):
    metadata = Metadata(route=route).encode()
    async with frame_peer_client(router) as peer:
        with no_frames_in_cycles():
            if route == "wait":
                await peer.send(RequestResponseFrame(1, metadata=metadata))
            else:
                await peer.send(RequestStreamFrame(1, 2, metadata=metadata))
            await trio.testing.wait_all_tasks_blocked()
            await peer.send(CancelFrame(1))
            await trio.testing.wait_all_tasks_blocked()


async def respond(client):
    await client.request_response()


async def read(client):
    async with client.request_response_streamed(Payload()):
        pass


async def stream(client):
    async with client.request_stream() as items:
        await items.receive()


async def channel(client):
    async with client.request_channel([Payload()]) as items:
        await items.receive()


async def upload(client):
    await client.request_response(StreamedPayload(endless()))


@pytest.mark.parametrize("ask", [respond, read, stream, channel, upload])
async def test_requests_that_their_caller_gives_up(ask):
    if ask is channel and sys.version_info >= (3, 13):
        pytest.skip("contextlib of Python 3.13 does so with each nursery that is cancelled in it")
    async with frame_peer_server() as (_peer, client):
        with no_frames_in_cycles():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, client)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize("failure", [Rejected, ValueError])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("ask", [respond, stream, channel])
async def test_requests_that_fail(ask, later, failure):
    class Fails(Responder):
        async def fail(self):
            if later:
                await trio.lowlevel.checkpoint()
            raise failure("no")

        async def request_response(self, payload):
            await self.fail()

        async def request_stream(self, payload):
            await self.fail()
            yield

        async def request_channel(self, payload, payloads):
            await self.fail()
            yield

    async with connected_pair(Fails()) as client:
        with no_frames_in_cycles():
            try:
                await ask(client)
            except Exception as error:
                error.__traceback__ = None
            await trio.testing.wait_all_tasks_blocked()


class Refuses(Responder):
    async def request_response(self, payload):
        raise Rejected("no")

    async def request_stream(self, payload):
        raise Rejected("no")
        yield payload


@pytest.mark.parametrize("interaction", ["request_response", "request_stream"])
async def test_an_error_for_a_caller_keeps_no_frame(interaction):
    """The error that a caller gets is not in a variable of a frame of its own traceback."""
    async with connected_pair(Refuses()) as requester:
        with no_frames_in_cycles():
            with pytest.raises(Rejected):
                if interaction == "request_response":
                    await requester.request_response(Payload(b"x"))
                else:
                    async with requester.request_stream(Payload(b"x")) as items:
                        await items.receive()
