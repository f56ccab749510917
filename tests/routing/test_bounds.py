"""Bounds in the annotations of handlers hold, wherever the annotation stands."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from msgspec import Meta

from rsocket_trio import ApplicationError, Caller, Invalid, Payload, Router
from rsocket_trio.testing.in_memory import connected_pair

Few = Annotated[int, Meta(ge=0, le=10)]
Short = Annotated[str, Meta(max_length=3, description="a word")]
router = Router()


@router.request_response("number")
async def number(value: Few) -> int:
    return value


@router.request_response("word")
async def word(value: Short) -> str:
    return value


@router.request_response("octets")
async def octets(value: Annotated[bytes, Meta(max_length=3)]) -> int:
    return len(value)


@router.request_response("default")
async def default(value: Few = 4) -> int:
    return value


@router.request_response("text")
async def text(*, value: "Annotated[int, Meta(le=10)]") -> int:
    return value


@router.request_response("result")
async def result(value: int) -> Few:
    return value


@router.request_response("counted.{value}")
async def counted(value: Few) -> int:
    return value


@router.request_response("named.{value}")
async def named(value: Short) -> str:
    return value


@router.request_response("mixed")
async def mixed(value: int) -> Few | Payload:
    return value


@router.request_stream("items")
async def items(value: int) -> AsyncIterator[Few]:
    yield value


@router.request_response("described")
async def described(value: Annotated[Payload, Meta(description="all of it")]) -> int:
    return len(value.data)


MIME_TYPES = ["application/cbor", "application/json", "text/plain"]


@pytest.mark.parametrize("mime_type", MIME_TYPES)
@pytest.mark.parametrize(
    ("route", "within", "outside"),
    [
        ("number", 10, 11),
        ("word", "abc", "abcd"),
        ("octets", b"abc", b"abcd"),
        ("default", 0, -1),
        ("text", 10, 11),
    ],
)
async def test_of_a_parameter(route, within, outside, mime_type):
    """The bounds of a parameter itself hold: only those of its parts did."""
    async with connected_pair(router, data_mime_type=mime_type) as requester:
        caller = Caller(requester)
        await caller.request_response(route, within, returns=Any)
        with pytest.raises(Invalid):
            await caller.request_response(route, outside, returns=Any)


@pytest.mark.parametrize("mime_type", MIME_TYPES)
async def test_of_a_result(mime_type, caplog):
    """A result, and an item of a stream, out of bounds is a failure of the handler."""
    async with connected_pair(router, data_mime_type=mime_type) as requester:
        caller = Caller(requester)
        assert await caller.request_response("result", 10, returns=int) == 10
        for route in ("result", "mixed"):
            with pytest.raises(ApplicationError):
                await caller.request_response(route, 11, returns=int)
        async with caller.request_stream("items", 11, returns=int) as stream:
            with pytest.raises(ApplicationError):
                await anext(stream)
    assert "expected int <= 10" in caplog.text


async def test_of_variables():
    """A variable of a route that is out of bounds is refused as other wrong ones."""
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        assert await caller.request_response("counted.10", returns=int) == 10
        assert await caller.request_response("named.abc", returns=str) == "abc"
        for route in ("counted.11", "named.abcd"):
            with pytest.raises(Invalid):
                await caller.request_response(route, returns=Any)


async def test_a_default_is_the_handlers_own():
    """Without data, the default holds as it is."""
    async with connected_pair(router) as requester:
        assert await Caller(requester).request_response("default", returns=int) == 4


async def test_peers_are_not_told_bounds():
    """A stranger learns the type from the message of INVALID, and no bounds or other notes."""
    async with connected_pair(router) as requester:
        with pytest.raises(Invalid, match=r"route 'number' expects int as 'application/cbor'$"):
            await Caller(requester).request_response("number", 11, returns=int)


async def test_a_text_out_of_bounds_is_no_raw_text():
    """The hint of raw text is for data that are no text in their format."""
    explaining = Router(explain=True)
    explaining.request_response("word")(word)
    for mime_type in MIME_TYPES:
        async with connected_pair(explaining, data_mime_type=mime_type) as requester:
            with pytest.raises(Invalid, match=r"expected str of length <= 3, got another str$"):
                await Caller(requester).request_response("word", "abcd", returns=str)


async def test_notes_that_bound_nothing():
    """A description does not make a payload of another kind of parameter."""
    async with connected_pair(router) as requester:
        assert (await requester.request_response(Payload(b"abc"), route="described")).data == b"\3"


def test_a_bound_that_cannot_hold():
    """A bound that a type cannot have is an error at registration."""

    async def handler(value: Annotated[bool, Meta(ge=0)]) -> None: ...

    with pytest.raises(TypeError, match="'value' cannot be read: value: bool has no ge"):
        Router().request_response("x")(handler)

    async def answering() -> Annotated[bool, Meta(ge=0)]: ...

    with pytest.raises(TypeError, match="result cannot be written: result: bool has no ge"):
        Router().request_response("x")(answering)
