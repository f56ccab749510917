"""A Router over rsio: routes, queries as arguments, guards, publishers as answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import attrs
import pytest
import trio
import trio.testing
from msgspec import Meta

from rsocket_trio import (
    Invalid,
    Rejected,
    RejectedSetup,
    RequestFacts,
    Router,
    Setup,
    StreamedPayload,
    TransportInfo,
    rsio,
)
from rsocket_trio.reactive_streams import Publisher, collect, from_iterable
from tests.rsio.engine_scenes import numbers, pair, words


@attrs.frozen
class Ticks:
    every: float
    count: int = 3
    name: str = ""


def router() -> Router:
    app = Router()

    @app.request_stream("ticks")
    async def ticks(every: float) -> AsyncIterator[float]:
        yield every
        yield 2 * every

    @app.request_stream("request")
    async def request(request: Ticks) -> AsyncIterator[Ticks]:
        yield request

    @app.request_stream("text")
    async def text(name: str) -> AsyncIterator[str]:
        yield name

    @app.request_stream("octets")
    async def octets(data: bytes) -> AsyncIterator[bytes]:
        yield data

    @app.request_stream("optional")
    async def optional(count: int = 7) -> AsyncIterator[int]:
        yield count

    @app.request_response("one")
    async def one(value: int) -> int:
        return value + 1

    @app.request_response("none")
    async def none() -> None:
        return None

    @app.request_stream("published")
    async def published() -> Publisher[bytes]:
        return from_iterable(numbers(5))

    @app.request_stream("ints")
    async def ints(count: int) -> Publisher[bytes]:
        return rsio.fixed_size(words(count), 8)

    @app.request_stream("word")
    async def word(name: Annotated[str, Meta(max_length=3)]) -> AsyncIterator[bytes]:
        yield name.encode()

    @app.request_stream("room.{room}")
    async def in_room(room: int, every: float = 0.5) -> AsyncIterator[float]:
        yield room
        yield every

    @app.request_stream("fails")
    async def fails() -> AsyncIterator[bytes]:
        yield b"first"
        raise ValueError("secret")

    return app


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("ticks?every=0.1", [b"0.1", b"0.2"]),
        ("room.7?every=0.1", [b"7", b"0.1"]),
        ("room.7", [b"7", b"0.5"]),
        ("request?every=0.5&count=9", [b'{"every":0.5,"count":9,"name":""}']),
        ("request?every=2&name=12", [b'{"every":2.0,"count":3,"name":"12"}']),
        ("text?name=5", [b'"5"']),
        ("text?name=a%20b%26c", [b'"a b&c"']),
        ("word?name=123", [b"123"]),
        ("octets?data=%C3%A4", ["ä".encode()]),
        ("octets", [b""]),
        ("optional", [b"7"]),
        ("optional?count=8", [b"8"]),
        ("one?value=41", [b"42"]),
        ("none", []),
        ("published", numbers(5)),
    ],
)
async def test_the_query_gives_the_arguments(name, answer):
    async with pair(router()) as connection:
        assert await collect(connection.publisher(name)) == answer


async def test_an_answer_in_chunks_is_one_element():
    """What gives the chunks is closed, as over a wire that sends them one by one."""
    app = Router()
    send, chunks = trio.open_memory_channel[bytes](2)
    send.send_nowait(b"in ")
    send.send_nowait(b"chunks")
    send.close()

    @app.request_response("chunks")
    async def answer() -> StreamedPayload:
        return StreamedPayload(chunks)

    async with pair(app) as connection:
        assert await collect(connection.publisher("chunks")) == [b"in chunks"]
    with pytest.raises(trio.ClosedResourceError):
        chunks.receive_nowait()


async def test_a_publisher_of_elements_of_one_size_keeps_it():
    async with pair(router()) as connection:
        async with connection.publisher("ints?count=100").open_packed() as blocks:
            octets = b"".join([bytes(block) async for block in blocks])
    assert octets == b"".join(words(100))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nobody", "unknown publisher"),
        ("ticks?every=often", r": route 'ticks' expects float as 'application/json'$"),
        ("ticks?every=NaN", r": route 'ticks' expects float as 'application/json'$"),
        ("ticks?every=1e400", r": route 'ticks' expects float as 'application/json'$"),
        ("word?name=1234", r": route 'word' expects str as 'application/json'$"),
        ("ticks", r"float .*; its arguments stand in the name, such as 'ticks\?every=...'$"),
        ("one", r"int .*; its arguments stand in the name, such as 'one\?value=...'$"),
        ("request", r"; its arguments stand in the name, such as 'request\?every=...'$"),
        ("ticks?every", "the query in the name of the publisher cannot be read"),
        ("ticks?every=%FF", "the query in the name of the publisher cannot be read"),
        ("fails", "the publisher failed"),
    ],
)
async def test_errors_are_errors_of_the_stream(name, text, caplog):
    async with pair(router()) as connection:
        with pytest.raises(rsio.PublisherError, match=text) as caught:
            await collect(connection.publisher(name))
        assert "secret" not in str(caught.value)
        assert await collect(connection.publisher("optional")) == [b"7"]


async def test_a_guard_refuses_a_connection():
    async def refuse(setup: Setup, requester: object) -> None:
        raise RejectedSetup("go away")

    app = Router(on_setup=refuse)
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, app, theirs)
        with pytest.raises(rsio.HelloRefused, match="refused"):
            async with rsio.connect(ours):
                raise AssertionError("it connected")


async def test_handlers_get_the_connection_and_the_facts_about_it():
    app = Router()

    @app.request_stream("back")
    async def back(connection: rsio.Connection, info: TransportInfo) -> AsyncIterator[bytes]:
        assert info.scheme == "stream"
        async with connection.publisher("mine").open() as elements:
            async for element in elements:
                yield element

    async with pair(app, publish={"mine": from_iterable(numbers(4))}) as connection:
        assert await collect(connection.publisher("back")) == numbers(4)


async def test_a_cancel_reaches_the_handler():
    app = Router()
    state = []

    @app.request_stream("wait")
    async def wait() -> AsyncIterator[bytes]:
        try:
            yield b"begun"
            await trio.sleep_forever()
        finally:
            state.append("over")

    async with pair(app) as connection:
        async with connection.publisher("wait").open() as elements:
            assert await elements.receive() == b"begun"
        with trio.fail_after(5):
            while not state:
                await trio.testing.wait_all_tasks_blocked()


async def test_an_acceptor_is_asked_for_each_connection():
    async def accept(setup: Setup, requester) -> Router:
        return router()

    async with pair(accept) as connection:
        assert await collect(connection.publisher("ticks?every=1")) == [b"1.0", b"2.0"]


@pytest.mark.parametrize(
    ("mime_type", "kind"), [("text", ValueError), ("", ValueError), (5, TypeError)]
)
async def test_what_is_no_mime_type_is_refused_at_once(mime_type, kind):
    ours, theirs = trio.testing.memory_stream_pair()
    router = Router()
    with pytest.raises(kind, match="data_mime_type must be a"):
        await rsio.serve(router, "rsio://127.0.0.1:0", data_mime_type=mime_type)
    with pytest.raises(kind, match="data_mime_type must be a"):
        await rsio.serve_stream(router, theirs, data_mime_type=mime_type)
    with pytest.raises(kind, match="data_mime_type must be a"):
        async with rsio.connect(ours, publish=router, data_mime_type=mime_type):
            raise AssertionError("it connected")


async def test_middleware_and_guards_see_names_without_a_handler():
    """Else a peer could try names past the log and the limits, and learn which ones there are."""
    seen = []

    async def record(call):
        try:
            yield
        finally:
            error = type(call.error).__name__
            seen.append((call.interaction, call.route.name, call.handler, error))

    async def authenticate(_auth, facts):
        if isinstance(facts, RequestFacts) and facts.route.name == "secret":
            raise Rejected("who are you?")
        if isinstance(facts, RequestFacts) and facts.route.name == "odd":
            raise Invalid("not an odd one")

    app = Router(middleware=[record], authenticate=authenticate)
    async with pair(app) as connection:
        refusals = {
            "nobody?a=1": "unknown publisher",
            "secret": "who are you",
            "odd": "not an odd one",
        }
        for name, text in refusals.items():
            with pytest.raises(Exception, match=text):
                await collect(connection.publisher(name))
    assert seen == [
        ("request_stream", "nobody", None, "NoHandler"),
        ("request_stream", "secret", None, "Rejected"),
        ("request_stream", "odd", None, "Invalid"),
    ]
