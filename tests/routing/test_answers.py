"""What a handler may return, and what is said of what it may not."""

import logging
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rsocket_trio import Metadata, Payload, Router, StreamedPayload
from rsocket_trio.errors import ApplicationError, Invalid
from rsocket_trio.testing.in_memory import connected_pair

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
KNOWN = (
    "application/cbor, application/json, application/octet-stream, "
    "application/vnd.google.protobuf, text/plain"
)


async def lookup():
    return 1


async def number() -> int:
    return "x"


async def forgot() -> int:
    return lookup()


async def forgot_many() -> list[int]:
    return [1, lookup()]


async def forgot_nothing() -> None:
    return lookup()


async def no_payload() -> Payload:
    return "x"


async def neither_payload() -> Payload | StreamedPayload:
    return "x"


async def not_streamed() -> StreamedPayload:
    return lookup()


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (number, "str cannot be written as application/cbor: expected int, got str"),
        (forgot, "an `await` is missing before the call of lookup"),
        (forgot_many, r"\[1\]: expected int, got a coroutine: an `await` is missing before"),
        (forgot_nothing, "an `await` is missing before the call of lookup"),
        (no_payload, "expected a payload, as in the annotation of the result, got str"),
        (neither_payload, "expected a payload, as in the annotation of the result, got str"),
        (not_streamed, "an `await` is missing before the call of lookup"),
    ],
)
async def test_a_wrong_result(handler, reason, caplog):
    """The peer learns that the handler failed; the log says why, and which handler it was."""
    router = Router()
    router.request_response("x")(handler)
    async with connected_pair(router) as requester:
        with pytest.raises(ApplicationError) as caught:
            await requester.request_response(route="x")
    assert caught.value.message == "the handler failed"
    error = caplog.records[0].exc_info[1]
    assert re.search(reason, str(error))
    [note] = error.__notes__
    assert note.startswith("while answering request_response 'x' (")
    assert handler.__name__ in note


async def stream_forgot() -> AsyncIterator[int]:
    return lookup()


async def stream_list() -> AsyncIterator[int]:
    return [1]


async def stream_of_lists() -> AsyncIterator[Payload]:
    return [Payload()]


async def stream_item() -> AsyncIterator[int]:
    yield lookup()


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (stream_forgot, "stream_forgot returned a coroutine: an `await` is missing before the"),
        (stream_list, "stream_list returned list: a request_stream handler yields its items, or"),
        (stream_of_lists, "stream_of_lists returned list: a request_stream handler yields its"),
        (stream_item, "an `await` is missing before the call of lookup"),
    ],
)
async def test_a_wrong_stream(handler, reason, caplog):
    router = Router()
    router.request_stream("x")(handler)
    async with connected_pair(router) as requester:
        with pytest.raises(ApplicationError):
            async with requester.request_stream(route="x") as items:
                await items.receive()
    error = caplog.records[0].exc_info[1]
    assert reason in str(error)
    assert error.__notes__


@pytest.mark.parametrize("traced", [False, True])
async def test_what_is_not_answered_and_does_not_run(bind, traced):
    """A coroutine is the only result that matters where nobody gets the result."""

    async def authenticate(auth, facts): ...

    router = Router(authenticate=authenticate if traced else None)
    router.fire_and_forget("x")(forgot_nothing)
    router.fire_and_forget("y")(number)
    bound = await bind(router)
    with pytest.raises(TypeError, match="forgot_nothing returned a coroutine: an `await` is"):
        await bound.fire_and_forget(Payload(b"", Metadata(route="x").encode()))
    await bound.fire_and_forget(Payload(b"", Metadata(route="y").encode()))


async def test_a_mime_type_without_a_codec(caplog):
    """Requests and answers of it are refused, with its name and with those that there are."""
    called = []
    router = Router()

    @router.request_response("read")
    async def read(number: int) -> Payload:
        called.append(1)

    @router.request_response("write")
    async def write() -> int:
        called.append(1)

    @router.request_response("perhaps")
    async def perhaps() -> Any:
        return called.append(1) or (None if len(called) == 1 else 7)

    @router.request_response("bytes")
    async def raw(data: bytes) -> bytes:
        return data

    no_codec = f"there is no codec for 'text/csv', .* only; there are codecs for {KNOWN}$"
    with caplog.at_level(logging.INFO, "rsocket_trio"):
        async with connected_pair(router, data_mime_type="text/csv") as requester:
            with pytest.raises(Invalid, match=f"route 'read' cannot read these data: {no_codec}"):
                await requester.request_response(Payload(b"7"), route="read")
            with pytest.raises(Invalid, match=f"route 'write' cannot be answered: {no_codec}"):
                await requester.request_response(route="write")
            assert not called
            assert await requester.request_response(route="perhaps") is None
            with pytest.raises(Invalid, match=f"route 'perhaps' cannot be answered: {no_codec}"):
                await requester.request_response(route="perhaps")
            answer = await requester.request_response(Payload(b"7"), route="bytes")
            assert answer == Payload(b"7")
    assert {record.levelname for record in caplog.records} == {"INFO"}
    assert "data refused: request_response 'read' (" in caplog.text
    assert "request refused: request_response 'write' (" in caplog.text


async def test_a_charset_without_a_codec():
    router = Router()
    router.request_response("x")(number)
    async with connected_pair(router, data_mime_type="text/plain;charset=latin-1") as requester:
        with pytest.raises(Invalid, match="cannot be answered: text must be UTF-8, not 'latin-1'"):
            await requester.request_response(route="x")
