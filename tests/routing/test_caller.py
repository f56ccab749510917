"""Requests by route with objects, and answers as objects."""

import contextlib
import inspect
from collections.abc import AsyncIterator
from typing import Annotated

import attrs
import pytest
import trio
from trio.abc import ReceiveChannel

from rsocket_trio import (
    Caller,
    CodecError,
    Invalid,
    Metadata,
    Payload,
    Requester,
    Responder,
    Router,
)
from rsocket_trio.metadata import MIME
from rsocket_trio.testing.in_memory import connected_pair
from tests.routing.requests import client_of


@attrs.frozen
class Point:
    x: int
    y: int = attrs.field(default=0)

    @y.validator
    def _check(self, _, value):
        if value < 0:
            raise Invalid("y must not be negative")


def make_router(log=None):
    router = Router()

    @router.request_response("mirror")
    async def mirror(point: Point) -> Point:
        return Point(point.y, point.x)

    @router.request_response("nothing")
    async def nothing() -> None: ...

    @router.request_response("raw")
    async def raw(data: bytes) -> bytes:
        return data[::-1]

    @router.fire_and_forget("note")
    async def note(point: Point) -> None:
        log.append(point)

    @router.request_stream("count")
    async def count(end: int = 3) -> AsyncIterator[Point]:
        for x in range(end):
            yield Point(x)

    @router.request_channel("sums")
    async def sums(numbers: ReceiveChannel[int]) -> AsyncIterator[int]:
        total = 0
        async for number in numbers:
            total += number
            yield total

    return router


async def later(*values):
    for value in values:
        yield value


@pytest.mark.parametrize("mime_type", [MIME.CBOR, MIME.JSON, MIME.TEXT])
async def test_every_interaction_converts_objects(mime_type):
    """Objects are sent and received, with any type of the connection."""
    log = []
    async with client_of(make_router(log), data_mime_type=mime_type) as requester:
        caller = Caller(requester)
        assert await caller.request_response("mirror", Point(1, 2), returns=Point) == Point(2, 1)
        assert await caller.request_response("raw", b"abc", returns=bytes) == b"cba"
        await caller.fire_and_forget("note", Point(3))
        async with caller.request_stream("count", 2, returns=Point) as points:
            assert [point async for point in points] == [Point(0), Point(1)]
            assert points.statistics().received == 2
        async with caller.request_stream("count", returns=Point, prefetch=1) as points:
            assert await points.receive() == Point(0)
            await points.aclose()
            with pytest.raises(trio.ClosedResourceError):
                await points.receive()
        for values in ([1, 2, 3], later(1, 2, 3)):
            async with caller.request_channel("sums", values, returns=int) as totals:
                assert [total async for total in totals] == [1, 3, 6]
    assert log == [Point(3)]


async def test_answers_without_a_type():
    """Without ``returns`` an answer is plain data."""
    async with connected_pair(make_router()) as requester:
        caller = Caller(requester)
        answer = await caller.request_response("mirror", {"x": 1, "y": 2})
        assert answer == {"x": 2, "y": 1}
        assert await caller.request_response("nothing") is None


async def test_completed_without_a_value():
    """That is None if None is a possible answer, and an error otherwise."""
    async with connected_pair(make_router()) as requester:
        caller = Caller(requester)
        for annotation in (None, type(None), Point | None, Annotated[Point | None, "a note"]):
            assert await caller.request_response("nothing", returns=annotation) is None
        with pytest.raises(
            CodecError, match="expected Point, but the request completed without a value"
        ):
            await caller.request_response("nothing", returns=Point)
        # An empty payload is different: it is a payload.
        with pytest.raises(CodecError, match="0 bytes of application/cbor cannot be read as Point"):
            caller.decode(Payload(), Point)


async def test_types_of_single_streams():
    """Requests and answers of other types, which their metadata name."""
    async with connected_pair(make_router()) as requester:
        caller = Caller(requester)
        metadata = Metadata(data_mime_type=MIME.JSON, accept=[MIME.JSON])
        answer = await caller.request_response(
            "mirror", Point(1, 2), returns=Point, metadata=metadata
        )
        assert answer == Point(2, 1)
        raw = await requester.request_response(
            caller.encode(Point(1, 2), MIME.JSON), route="mirror", metadata=metadata
        )
        assert raw.data == b'{"x":2,"y":1}'
        assert caller.decode(raw, Point) == Point(2, 1)
        async with caller.request_stream("count", 2, metadata=metadata) as points:
            assert [point async for point in points] == [{"x": 0, "y": 0}, {"x": 1, "y": 0}]
        async with caller.request_channel("sums", [], metadata=metadata) as totals:
            assert [total async for total in totals] == []


async def test_accepted_types_in_a_response_are_ignored():
    """If they are damaged it is an error."""

    class Fixed(Responder):
        metadata = Metadata(accept=[MIME.JSON]).encode()

        async def request_response(self, payload):
            return Payload(b"\x05", self.metadata)

    fixed = Fixed()
    async with connected_pair(fixed) as requester:
        caller = Caller(requester)
        assert await caller.request_response("x", returns=int) == 5
        fixed.metadata = b"\xd0"
        with pytest.raises(CodecError, match="metadata of the response"):
            await caller.request_response("x", returns=int)
        fixed.metadata = Metadata(data_mime_type="image/png").encode()
        with pytest.raises(CodecError, match="no codec"):
            await caller.request_response("x", returns=int)


async def test_errors():
    """A failed conversion is a CodecError here; a refusal is the responder's error."""
    async with connected_pair(make_router()) as requester:
        caller = Caller(requester)
        with pytest.raises(CodecError, match="cannot be written"):
            await caller.request_response("mirror", object())
        with pytest.raises(CodecError, match="cannot be read as int"):
            await caller.request_response("mirror", Point(1), returns=int)
        with pytest.raises(Invalid, match="y must not be negative"):
            await caller.request_response("mirror", {"x": 0, "y": -1})


async def test_caller_without_composite_metadata():
    """With routing metadata only, answers are of the connection's type."""
    async with client_of(make_router(), metadata_mime_type=MIME.ROUTING) as requester:
        caller = Caller(requester)
        assert await caller.request_response("mirror", Point(1), returns=Point) == Point(0, 1)
        assert caller.decode(Payload(b"\x05", b"\xd0"), int) == 5


class Foreign:
    pass


def wrong_calls():
    payload = Payload(b"x")
    given = "a Caller takes an object and makes the Payload of it: .* the Requester"
    yield lambda c: c.request_response("nothing", payload), given
    yield lambda c: c.fire_and_forget("nothing", payload), given
    yield lambda c: c.request_stream("count", payload).__aenter__(), given
    yield lambda c: receive(c.request_channel("sums", [payload])), given
    yield lambda c: receive(c.request_channel("sums", later(payload))), given
    yield lambda c: c.request_response("nothing", returns=Payload), "returns=Payload: call .*"
    yield lambda c: c.request_response("nothing", returns=Foreign), "Foreign is not a type that"
    yield lambda c: c.request_stream("count", returns=Foreign).__aenter__(), "Foreign is not a type"
    yield lambda c: c.request_channel("sums", [], returns=Foreign).__aenter__(), "Foreign is no"
    yield lambda c: c.request_response(payload), "the first argument is the route, a str, and not"
    yield lambda c: c.request_response("nothing", metadata=b""), "metadata= takes a Metadata, not"


async def receive(channel):
    async with channel as items:
        async for _ in items:
            pass


@pytest.mark.parametrize(("call", "text"), list(wrong_calls()))
async def test_what_a_caller_is_not_for(call, text):
    """A TypeError says so before anything is sent, and what to do instead."""
    async with connected_pair(make_router()) as requester:
        for _ in range(2):
            with pytest.raises(TypeError, match=text):
                await call(Caller(requester))


def test_what_is_no_requester():
    with pytest.raises(TypeError, match="Caller takes a Requester, not str: `async with connect"):
        Caller("tcp://127.0.0.1:1")


async def test_an_annotation_without_a_hash():
    async with connected_pair(make_router()) as requester:
        answer = await Caller(requester).request_response(
            "mirror", Point(1), returns=Annotated[Point, []]
        )
        assert answer == Point(0, 1)


@pytest.mark.parametrize("middleware", [[], [lambda call: contextlib.AsyncExitStack()]])
async def test_an_answer_that_is_read_while_it_arrives(middleware):
    """Its value is converted, its chunks are the bytes; middleware is around both."""
    async with connected_pair(make_router()) as requester:
        caller = Caller(requester, middleware=middleware)
        async with caller.request_response_streamed("raw", b"abc") as body:
            assert b"".join([chunk async for chunk in body]) == b"cba"
        async with caller.request_response_streamed("nothing") as body:
            assert body is None


def test_a_caller_sends_all_requests_that_have_a_route():
    """A request that only the `Requester` could send, or an option that only it had, is found."""
    options = {
        name: set(inspect.signature(member).parameters)
        for name, member in inspect.getmembers(Requester, inspect.isfunction)
        if "route" in inspect.signature(member).parameters and not name.startswith("_")
    }
    assert len(options) == 5
    for name, taken in options.items():
        # A value or values stand for the payload or the items; a channel's first value opens it.
        has = set(inspect.signature(getattr(Caller, name)).parameters)
        assert taken - {"payload", "source"} <= has, name
