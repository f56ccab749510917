"""A router on one connection: handlers of streams and channels."""

from collections.abc import AsyncIterator

import pytest
import trio
from trio.abc import ReceiveChannel

from rsocket_trio.errors import Invalid
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.payload import Payload
from rsocket_trio.routing import Router
from tests.routing.requests import channel_of, collect, request


@pytest.mark.parametrize("returned", [False, True])
async def test_streams_are_converted(bind, returned):
    """Generators, and iterables that a coroutine returns, give payloads."""
    router = Router()

    async def count(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    async def start(n: int) -> AsyncIterator[int]:
        await trio.lowlevel.checkpoint()
        return count(n)

    router.request_stream("count")(start if returned else count)
    bound = await bind(router, data=MIME.CBOR)
    items = await collect(bound.request_stream(request(b"\x03", "count")))
    assert items == [Payload(b"\x00"), Payload(b"\x01"), Payload(b"\x02")]


async def test_a_handler_may_return_a_memory_channel(bind):
    """Its items may be payloads already."""
    router = Router()

    @router.request_stream()
    async def answer() -> ReceiveChannel[str]:
        return channel_of("a", Payload(b"b", b"m"))

    bound = await bind(router)
    assert await collect(bound.request_stream(Payload())) == [Payload(b'"a"'), Payload(b"b", b"m")]


async def test_channels_are_converted_both_ways(bind):
    """The channel includes the first item, which the data parameter gets as well."""
    router = Router()

    @router.request_channel("add")
    async def add(first: int, numbers: ReceiveChannel[int]) -> AsyncIterator[str]:
        async for number in numbers:
            yield f"{first}+{number}"

    bound = await bind(router)
    first = request(b"1", "add")
    items = await collect(bound.request_channel(first, channel_of(first, Payload(b"2"))))
    assert [item.data for item in items] == [b'"1+1"', b'"1+2"']


async def test_a_channel_of_payloads_is_not_wrapped(bind):
    """ReceiveChannel[Payload] is the same object that the connection made."""
    router = Router()
    seen = []

    @router.request_channel()
    async def take(payloads: ReceiveChannel[Payload]) -> AsyncIterator[Payload]:
        seen.append(payloads)
        yield await payloads.receive()

    bound = await bind(router)
    payloads = channel_of(Payload(b"1"))
    assert await collect(bound.request_channel(Payload(b"1"), payloads)) == [Payload(b"1")]
    assert seen == [payloads]


async def test_an_item_that_cannot_be_converted_is_invalid(bind):
    """The handler's receive raises the error that the requester gets."""
    router = Router()

    @router.request_channel("add")
    async def add(numbers: ReceiveChannel[int]) -> AsyncIterator[int]:
        async for number in numbers:
            yield number

    bound = await bind(router)
    first = request(b"1", "add")
    items = bound.request_channel(first, channel_of(first, Payload(b'"x"')))
    assert await anext(items) == Payload(b"1")
    with pytest.raises(Invalid, match="route 'add' expects int as 'application/json'"):
        await anext(items)
