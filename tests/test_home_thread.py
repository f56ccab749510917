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

from rsocket_trio import Payload
from rsocket_trio.reactive_streams import collect, from_iterable
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.peer import KnownAnswers
from tests.rsio.engine_scenes import pair
from tests.ttrpc.scenes import CHAT, COUNT, ECHO, JOIN, client_of, things

Use = Callable[[], Awaitable[object]]


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
        async for _ in items:
            pass


@asynccontextmanager
async def ttrpc() -> AsyncIterator[tuple[dict[str, Use], Use]]:
    async with (
        client_of(things(), over="socket") as client,
        client.bidi_stream(CHAT) as chat,
        client.client_stream(JOIN) as join,
    ):
        yield (
            {
                "unary": lambda: client.unary(ECHO, b"x"),
                "server_stream": lambda: entered(client.server_stream(COUNT, b"1")),
                "bidi_stream": lambda: entered(client.bidi_stream(CHAT)),
                "receive": chat.receive,
                "send": lambda: chat.send(b"x"),
                "reply": join.reply,
            },
            lambda: client.unary(ECHO, b"x"),
        )


@asynccontextmanager
async def rsocket() -> AsyncIterator[tuple[dict[str, Use], Use]]:
    async with (
        connected_pair(KnownAnswers()) as requester,
        requester.request_stream(Payload(b"5"), prefetch=1) as items,
    ):
        yield (
            {
                "request_response": lambda: requester.request_response(Payload(b"x")),
                "fire_and_forget": lambda: requester.fire_and_forget(Payload(b"x")),
                "metadata_push": lambda: requester.metadata_push(b"x"),
                "request_stream": lambda: entered(requester.request_stream(Payload(b"1"))),
                "request_channel": lambda: all_of(requester.request_channel([Payload(b"1")])),
                "receive": items.receive,
            },
            lambda: requester.request_response(Payload(b"x")),
        )


@asynccontextmanager
async def rsio() -> AsyncIterator[tuple[dict[str, Use], Use]]:
    async with pair({"three": from_iterable([b"1", b"2", b"3"])}) as connection:
        publisher = connection.publisher("three")
        yield {"collect": lambda: collect(publisher)}, lambda: collect(publisher)


USES = {
    ttrpc: ["unary", "server_stream", "bidi_stream", "receive", "send", "reply"],
    rsocket: [
        "request_response",
        "fire_and_forget",
        "metadata_push",
        "request_stream",
        "request_channel",
        "receive",
    ],
    rsio: ["collect"],
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
