"""Channels without items, at typed handlers: from our client, and as Spring sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from trio.abc import ReceiveChannel

from rsocket_trio import Caller, Invalid, Payload, Router
from rsocket_trio.frames import PayloadFrame, RequestChannelFrame, RequestNFrame
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.routing import route_metadata
from rsocket_trio.reactive_streams import Publisher
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client

router = Router()


@router.request_channel("numbers")
async def numbers(items: ReceiveChannel[int]) -> AsyncIterator[list[int]]:
    yield [item async for item in items]


@router.request_channel("received")
async def received(items: ReceiveChannel[int]) -> AsyncIterator[int]:
    yield await items.receive()


@router.request_channel("published")
async def published(items: Publisher[int]) -> AsyncIterator[list[int]]:
    yield [item async for item in items]


@router.request_channel("texts")
async def texts(items: ReceiveChannel[str]) -> AsyncIterator[str]:
    yield repr([item async for item in items])


@router.request_channel("payloads")
async def payloads(items: ReceiveChannel[Payload]) -> AsyncIterator[Payload]:
    async for item in items:
        yield item


@pytest.mark.parametrize("route", ["numbers", "published"])
async def test_a_source_without_items(route):
    """The handler runs, without an item, and answers."""
    async with connected_pair(router) as requester:
        async with Caller(requester).request_channel(route, []) as replies:
            assert [reply async for reply in replies] == [[]]


@asynccontextmanager
async def spring():
    async with frame_peer_client(router, setup=False) as peer:
        await peer.setup(data_mime_type=MIME.CBOR)
        yield peer


def like_spring(route, n=8):
    """The request of `Flux.empty()`: data of no bytes, and no flag that it is over."""
    return RequestChannelFrame(1, n, metadata=route_metadata(route), data=b"")


@pytest.mark.parametrize(
    ("route", "expected"), [("numbers", b"\x81\x01"), ("published", b"\x81\x01")]
)
async def test_data_of_no_bytes_are_no_item_of_a_type_that_needs_some(route, expected):
    """Spring's empty `Flux`, and one whose items come later: only those are items."""
    async with spring() as peer:
        await peer.send(like_spring(route))
        assert isinstance(await peer.receive(), RequestNFrame)
        await peer.send(PayloadFrame(1, next=True, data=b"\x01"))
        await peer.send(PayloadFrame(1, complete=True))
        assert (await peer.receive(PayloadFrame)).data == expected
    async with spring() as peer:
        await peer.send(like_spring(route))
        assert isinstance(await peer.receive(), RequestNFrame)
        await peer.send(PayloadFrame(1, complete=True))
        assert (await peer.receive(PayloadFrame)).data == b"\x80"


async def test_receive_passes_over_the_request_too():
    """`receive` gives the first real item, and later empty data are refused as before."""
    async with spring() as peer:
        await peer.send(like_spring("received"))
        assert isinstance(await peer.receive(), RequestNFrame)
        await peer.send(PayloadFrame(1, next=True, data=b"\x05"))
        assert (await peer.receive(PayloadFrame)).data == b"\x05"
    async with connected_pair(router) as requester:
        source = [Payload(b"\x01"), Payload(b"")]
        with pytest.raises(Invalid):
            async with requester.request_channel(source, route="numbers") as replies:
                await replies.receive()


async def test_an_empty_text_is_an_item():
    """A type that can have no bytes loses nothing: an empty text is sent as no bytes."""
    async with connected_pair(router, data_mime_type=MIME.TEXT) as requester:
        caller = Caller(requester)
        for values in ([""], ["", "a"], []):
            async with caller.request_channel("texts", values, returns=str) as replies:
                assert [reply async for reply in replies] == [repr(values)]


async def test_payloads_are_not_judged():
    """A handler of payloads gets the empty one of a request that is not complete."""
    async with connected_pair(router) as requester:
        async with requester.request_channel([Payload()], route="payloads") as replies:
            assert [reply.data async for reply in replies] == [b""]
