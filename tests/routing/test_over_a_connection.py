"""A router behind a real connection: its parts work together."""

from collections.abc import AsyncIterator

import pytest
import trio
from trio.abc import ReceiveChannel

from rsocket_trio import Invalid, Payload, Requester, connect, serve
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.routing import Router


def make_router(closed):
    router = Router()

    @router.request_response("greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    @router.request_response("nothing")
    async def nothing() -> None: ...

    @router.request_stream("count")
    async def count(start: int) -> AsyncIterator[int]:
        try:
            while True:
                yield start
                start += 1
        finally:
            closed.set()

    @router.request_channel("sums")
    async def sums(numbers: ReceiveChannel[int]) -> AsyncIterator[int]:
        total = 0
        async for number in numbers:
            total += number
            yield total

    @router.request_response("ask-back")
    async def ask_back(requester: Requester) -> str:
        return (await requester.request_response(route="name")).data.decode()

    return router


async def test_a_router_serves_a_connection(nursery):
    """Every interaction finds its handler by route; cancelling a stream closes its generator."""
    closed = trio.Event()
    server = await nursery.start(serve, make_router(closed), "tcp://127.0.0.1:0")
    client = Router()

    @client.request_response("name")
    async def name() -> bytes:
        return b"client"

    with trio.fail_after(10):
        async with connect(server.uris[0], data_mime_type=MIME.TEXT, responder=client) as requester:
            answer = await requester.request_response(Payload(b"you"), route="greet")
            assert answer == Payload(b"hello you")
            assert await requester.request_response(route="nothing") is None
            assert (await requester.request_response(route="ask-back")).data == b"client"
            async with requester.request_stream(Payload(b"5"), route="count") as numbers:
                assert [(await numbers.receive()).data for _ in range(3)] == [b"5", b"6", b"7"]
            await closed.wait()
            items = [Payload(b"1"), Payload(b"2"), Payload(b"3")]
            async with requester.request_channel(items, route="sums") as totals:
                assert [total.data async for total in totals] == [b"1", b"3", b"6"]
            with pytest.raises(Invalid, match="no request_response handler for route 'greeet'"):
                await requester.request_response(route="greeet")
            with pytest.raises(Invalid, match="route 'count' expects int as 'text/plain'"):
                async with requester.request_stream(Payload(b"five"), route="count") as numbers:
                    await numbers.receive()
    await server.aclose()
