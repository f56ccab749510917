"""An object of a connection that is used in another thread: its caller fails, and nobody else.

The thread has a trio run of its own, as with Jupyter, a web framework or a test runner. A task that
waits there for this connection would be woken in the wrong run, which crashed the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rsocket_trio import Payload, lumberjack, rsio
from rsocket_trio.reactive_streams import collect
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.peer import KnownAnswers
from tests.rsio.engine_scenes import Recorder, pair
from tests.ttrpc.scenes import CHAT, COUNT, ECHO, JOIN, client_of, things

Use = Callable[[], Awaitable[object]]
MANY = 100


async def in_another_thread(use: Use) -> str:
    """Return the text of the RuntimeError of its caller."""
    caught = []

    async def misuse() -> None:
        with trio.fail_after(5):
            with pytest.raises(RuntimeError) as error:
                await use()
            caught.append(str(error.value))

    await trio.to_thread.run_sync(partial(trio.run, misuse))
    (text,) = caught
    return text


async def entered(block) -> None:
    async with block:
        pass


async def all_of(block) -> None:
    async with block as items:
        await rest_of(items)


async def rest_of(items) -> None:
    async for _ in items:
        pass


async def called(function) -> None:
    """For a method that is not asynchronous."""
    function()


@asynccontextmanager
async def ttrpc() -> AsyncIterator[tuple[dict[str, Use], Use]]:
    async with (
        client_of(things(), over="socket") as client,
        client.bidi_stream(CHAT) as chat,
        client.client_stream(JOIN) as join,
        client.server_stream(COUNT, b"100") as numbers,
    ):
        await numbers.receive()
        yield (
            {
                "unary": lambda: client.unary(ECHO, b"x"),
                "server_stream": lambda: entered(client.server_stream(COUNT, b"1")),
                "bidi_stream": lambda: entered(client.bidi_stream(CHAT)),
                "receive": chat.receive,
                "send": lambda: chat.send(b"x"),
                "reply": join.reply,
                "end of one half": join.end,
                "end of both": chat.end,
                "close": lambda: called(numbers.close),
                "aclose": numbers.aclose,
                "wait_closed": client.wait_closed,
            },
            lambda: client.unary(ECHO, b"x"),
        )


@asynccontextmanager
async def rsocket() -> AsyncIterator[tuple[dict[str, Use], Use]]:
    async with (
        connected_pair(KnownAnswers()) as requester,
        requester.request_stream(Payload(b"100"), prefetch=4) as items,
        requester.request_stream(Payload(b"100"), prefetch=0, initial_request_n=1) as manual,
    ):
        yield (
            {
                "request_response": lambda: requester.request_response(Payload(b"x")),
                "fire_and_forget": lambda: requester.fire_and_forget(Payload(b"x")),
                "metadata_push": lambda: requester.metadata_push(b"x"),
                "request_stream": lambda: entered(requester.request_stream(Payload(b"1"))),
                "request_channel": lambda: all_of(requester.request_channel([Payload(b"1")])),
                "receive": items.receive,
                "receive_many": items.receive_many,
                "receive_nowait": lambda: called(items.receive_nowait),
                "iteration": lambda: rest_of(items),
                "close": lambda: called(items.close),
                "aclose": items.aclose,
                "request_n": lambda: called(lambda: manual.request_n(1)),
                "wait_closed": requester.wait_closed,
            },
            lambda: requester.request_response(Payload(b"x")),
        )


@asynccontextmanager
async def publishers() -> AsyncIterator[tuple[dict[str, Use], Use]]:
    many = rsio.fixed_size([b"1234"] * MANY, 4)
    async with pair({"many": many}) as connection:
        publisher = connection.publisher("many")
        recorder = Recorder(1)
        publisher.subscribe(recorder)
        async with publisher.open(4) as items, publisher.open_packed(4) as blocks:
            yield (
                {
                    "collect": lambda: collect(publisher),
                    "request": lambda: called(lambda: recorder.subscription.request(1)),
                    "cancel": lambda: called(recorder.subscription.cancel),
                    "receive": items.receive,
                    "iteration": lambda: rest_of(items),
                    "close": lambda: called(items.close),
                    "aclose": items.aclose,
                    "receive of blocks": blocks.receive,
                    "aclose of blocks": blocks.aclose,
                    "goodbye": connection.goodbye,
                    "wait_ready": connection.wait_ready,
                    "wait_closed": connection.wait_closed,
                },
                lambda: collect(publisher),
            )


@asynccontextmanager
async def shipper() -> AsyncIterator[tuple[dict[str, Use], Use]]:
    batches = []

    async def take(batch) -> None:
        batches.append(batch)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(lumberjack.serve, take, "lumberjack://127.0.0.1:0")
        async with lumberjack.connect(server.uris[0]) as client:

            async def alive() -> bool:
                await client.send([{"message": "x"}])
                return bool(batches)

            yield {"send": lambda: client.send([{"message": "x"}])}, alive
        nursery.cancel_scope.cancel(reason="the test is over")


USES = {
    ttrpc: [
        "unary",
        "server_stream",
        "bidi_stream",
        "receive",
        "send",
        "reply",
        "end of one half",
        "end of both",
        "close",
        "aclose",
        "wait_closed",
    ],
    rsocket: [
        "request_response",
        "fire_and_forget",
        "metadata_push",
        "request_stream",
        "request_channel",
        "receive",
        "receive_many",
        "receive_nowait",
        "iteration",
        "close",
        "aclose",
        "request_n",
        "wait_closed",
    ],
    publishers: [
        "collect",
        "request",
        "cancel",
        "receive",
        "iteration",
        "close",
        "aclose",
        "receive of blocks",
        "aclose of blocks",
        "goodbye",
        "wait_ready",
        "wait_closed",
    ],
    shipper: ["send"],
}


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        pytest.param(wire, name, id=f"{wire.__name__}-{name}")
        for wire, names in USES.items()
        for name in names
    ],
)
async def test_its_caller_fails_and_the_connection_lives(wire, name):
    """The error says what to do; the run of the connection goes on, and its calls are answered."""
    async with wire() as (uses, alive):
        await wait_all_tasks_blocked()
        text = await in_another_thread(uses[name])
        assert "belongs to the trio run of another thread" in text
        assert "trio.from_thread.run" in text
        with trio.fail_after(5):
            assert await alive()


async def test_what_is_closed_may_be_closed_anywhere():
    """A program that cleans up in another thread, after the block, meets no error."""
    async with connected_pair(KnownAnswers()) as requester:
        async with requester.request_stream(Payload(b"5")) as items:
            pass
    async with pair({"many": rsio.fixed_size([b"1234"] * MANY, 4)}) as connection:
        recorder = Recorder(1)
        connection.publisher("many").subscribe(recorder)
        async with (
            connection.publisher("many").open() as elements,
            connection.publisher("many").open_packed() as blocks,
        ):
            await wait_all_tasks_blocked()
    async with client_of(things()) as client, client.server_stream(COUNT, b"5") as numbers:
        pass
    closed = [each.close for each in (items, elements, blocks, numbers)]
    for close in [*closed, recorder.subscription.cancel]:
        await trio.to_thread.run_sync(close)
