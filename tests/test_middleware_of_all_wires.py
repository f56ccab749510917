"""One middleware on every wire that has handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from rsocket_trio import Call, Payload, Router, connect, lumberjack, rsio, serve, ttrpc
from rsocket_trio.reactive_streams import collect, open_iter
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.ttrpc import Method, MethodKind
from tests.lumberjack.receiving import full_window, sender_to

LETTERS = Method.raw("demo.Words", "Letters", MethodKind.SERVER_STREAM)
LENGTH = Method.raw("demo.Words", "Length")


class Book:
    """Middleware that writes one line for each call, with how it has ended."""

    def __init__(self):
        self.lines = []
        self.left = trio.Event()

    async def __call__(self, call: Call) -> AsyncIterator[None]:
        assert call.transport is call.setup.transport
        assert call.handler is not None
        task = trio.lowlevel.current_task()
        try:
            yield
        finally:
            assert trio.lowlevel.current_task() is task
            name = call.route.name.rpartition("/")[2]
            self.lines.append(f"{call.interaction} {name} {call.outcome} {call.items}".strip())
            self.left.set()
            self.left = trio.Event()


def router(book):
    router = Router(middleware=[book])

    @router.request_response("demo.Words/Length")
    async def length(word: bytes) -> bytes:
        return b"%d" % len(word)

    @router.request_stream("demo.Words/Letters")
    async def letters(word: bytes) -> AsyncIterator[bytes]:
        for each in word:
            yield bytes([each])

    @router.request_stream("demo.Words/Endless")
    async def endless(word: bytes) -> AsyncIterator[bytes]:
        while True:
            yield word

    @router.events
    async def events(events: list[bytes]) -> None:
        assert len(events) == 2

    return router


def service(_book):
    service = ttrpc.Service("demo.Words")

    @service.method("Length")
    async def length(word: bytes) -> bytes:
        return b"%d" % len(word)

    @service.method("Letters")
    async def letters(word: bytes) -> AsyncIterator[bytes]:
        for each in word:
            yield bytes([each])

    return service


BOTH = ["request_response Length completed 0", "request_stream Letters completed 3"]


@pytest.mark.parametrize("protocol", ["rsocket", "reactivesocket"])
async def test_rsocket_and_the_draft(nursery, protocol):
    """A subscription of the draft passes them like any stream, and is cancelled by leaving."""
    book = Book()
    server = await nursery.start(serve, router(book), "tcp://127.0.0.1:0")
    async with connect(server.uris[0], protocol=protocol) as requester:
        await requester.request_response(Payload(b"abc"), route="demo.Words/Length")
        async with requester.request_stream(Payload(b"abc"), route="demo.Words/Letters") as items:
            assert len([item async for item in items]) == 3
        left = book.left
        endless = partial(request_subscription, requester, prefetch=0, initial_request_n=1)
        async with endless(Payload(b"x"), route="demo.Words/Endless") as items:
            await items.receive()
        await left.wait()
    await server.aclose(grace=0)
    assert book.lines == [*BOTH, "request_stream Endless cancelled 2"]


async def test_rsio(nursery):
    """The name of a publisher is the route; a subscriber that leaves cancels."""
    book = Book()
    server = await nursery.start(rsio.serve, router(book), "rsio://127.0.0.1:0")
    async with rsio.connect(server.uris[0]) as connection:
        assert await collect(connection.publisher("demo.Words/Length?word=abc")) == [b"3"]
        assert len(await collect(connection.publisher("demo.Words/Letters?word=abc"))) == 3
        left = book.left
        async with open_iter(connection.publisher("demo.Words/Endless?word=x")) as items:
            await anext(items)
        await left.wait()
    await server.aclose(grace=0)
    assert book.lines[:2] == BOTH
    assert book.lines[2].startswith("request_stream Endless cancelled ")
    assert len(book.lines) == 3


@pytest.mark.parametrize("served", [router, service])
async def test_ttrpc(nursery, served):
    """A Router with middleware of its own, and services with that of `serve`."""
    book = Book()
    options = {"middleware": [book]} if served is service else {}
    served = partial(ttrpc.serve, served(book), "tcp://127.0.0.1:0", **options)
    server = await nursery.start(served)
    async with ttrpc.connect(server.uris[0]) as client:
        assert await client.unary(LENGTH, b"abc") == b"3"
        async with client.server_stream(LETTERS, b"abc") as items:
            assert len([item async for item in items]) == 3
    await server.aclose(grace=0)
    assert book.lines == BOTH


async def test_lumberjack(nursery):
    """A batch of events is one call, acknowledged after the blocks are left."""
    book = Book()
    server = await nursery.start(lumberjack.serve, router(book), "lumberjack://127.0.0.1:0")
    async with sender_to(server) as sender:
        await sender.send(full_window(2))
        assert await sender.ack() == (2, 2)
    await server.aclose(grace=0)
    assert book.lines == ["events  completed 0"]
