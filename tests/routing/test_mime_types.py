"""MIME types of single streams: of SETUP, of the request, and the accepted ones.

(PerStreamDataMimeTypesDefinition.md)
"""

from collections.abc import AsyncIterator

import attrs
import pytest

from rsocket_trio import Metadata, Payload, Router
from rsocket_trio.metadata import MIME

JSON_NAMED = Metadata(data_mime_type=MIME.JSON).encode()
CBOR_NAMED = Metadata(data_mime_type=MIME.CBOR).encode()


@attrs.frozen
class Person:
    name: str


def make_router():
    router = Router()

    @router.request_response("older")
    async def older(age: int) -> int:
        return age + 1

    @router.request_response("text")
    async def text() -> str:
        return "hi"

    @router.request_response("raw")
    async def raw() -> bytes:
        return b"raw"

    @router.request_response("payload")
    async def payload() -> Payload:
        return Payload(b"raw", b"meta")

    @router.request_stream("count")
    async def count() -> AsyncIterator[int]:
        yield 1
        yield 2

    return router


async def ask(bound, metadata, data=b""):
    return await bound.request_response(Payload(data, metadata.encode()))


async def test_without_an_entry_the_type_of_setup_applies(bind):
    """Both directions are of the connection's type, and the answer names no type."""
    bound = await bind(make_router(), data=MIME.CBOR)
    assert await ask(bound, Metadata(route="older"), b"\x05") == Payload(b"\x06")


async def test_a_request_of_another_type(bind):
    """The type is for the request only; the answer is of the connection's type."""
    bound = await bind(make_router(), data=MIME.CBOR)
    metadata = Metadata(route="older", data_mime_type=MIME.JSON)
    assert await ask(bound, metadata, b"41") == Payload(b"\x18\x2a")


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ([MIME.JSON, MIME.CBOR], Payload(b"6", JSON_NAMED)),
        (["image/png", 77, MIME.OCTET_STREAM, MIME.JSON], Payload(b"6", JSON_NAMED)),
        ([MIME.CBOR, MIME.JSON], Payload(b"\x06")),
        (["image/png"], Payload(b"\x06", CBOR_NAMED)),
        (["application/json; charset=latin-1"], Payload(b"\x06", CBOR_NAMED)),
        ([], Payload(b"\x06")),
    ],
    ids=["first", "first known", "that of setup", "none known", "unknown charset", "no wish"],
)
async def test_accepted_types_of_the_answer(bind, accept, answer):
    """The first accepted type with a codec is used; the answer names any other type."""
    bound = await bind(make_router(), data=MIME.CBOR)
    for _ in range(2):
        assert await ask(bound, Metadata(route="older", accept=accept), b"\x05") == answer


async def test_text_may_be_sent_as_an_octet_stream(bind):
    """A str can be had as an octet stream."""
    bound = await bind(make_router())
    answer = await ask(bound, Metadata(route="text", accept=MIME.OCTET_STREAM))
    assert answer == Payload(b"hi", Metadata(data_mime_type=MIME.OCTET_STREAM).encode())


async def test_bytes_stay_what_they_are(bind):
    """Bytes are not converted to an accepted type; a Payload is the handler's own."""
    bound = await bind(make_router(), data=MIME.CBOR)
    assert await ask(bound, Metadata(route="raw", accept=MIME.JSON)) == Payload(b"raw", CBOR_NAMED)
    answer = await ask(bound, Metadata(route="payload", accept=MIME.JSON))
    assert answer == Payload(b"raw", b"meta")


async def test_the_first_item_names_the_type(bind):
    """A stream is of one type, which its first item names."""
    bound = await bind(make_router(), data=MIME.CBOR)
    metadata = Metadata(route="count", accept=MIME.JSON).encode()
    items = [item async for item in bound.request_stream(Payload(b"", metadata))]
    assert items == [Payload(b"1", JSON_NAMED), Payload(b"2")]


async def test_damaged_accepted_types_are_ignored(bind):
    """They may be ignored, so they are no reason to refuse a request."""
    bound = await bind(make_router(), data=MIME.CBOR)
    metadata = Metadata(route="older", extra=[(MIME.ACCEPT_MIME_TYPES, b"\x20")])
    assert await ask(bound, metadata, b"\x05") == Payload(b"\x06")


async def test_a_type_that_is_too_long_for_an_entry(bind):
    """A MIME type of SETUP may be longer than an entry allows: then the answer does not name it."""
    long = "application/json; x=" + "y" * 120
    bound = await bind(make_router(), data=long)
    assert await ask(bound, Metadata(route="older", accept="image/png"), b"5") == Payload(b"6")


async def test_the_cache_of_handlers_is_bounded(bind):
    """64 handlers for MIME types of requests are kept, with short types; one makes room for one."""
    bound = await bind(make_router())
    kept = bound._finder._typed
    for i in range(200):
        await ask(bound, Metadata(route="raw", tags=[str(i)]))
    assert kept == {}  # one handler for all tags
    for i in range(200):
        before = set(kept)
        await ask(bound, Metadata(route="text", accept=[f"x/{i}", MIME.TEXT]))
        assert len(before - set(kept)) == (i >= 64)
        assert len(kept) == min(i + 1, 64)
    before = set(kept)
    await ask(bound, Metadata(route="text", accept=["x/" + "y" * 100, "x/" + "z" * 100, MIME.TEXT]))
    assert set(kept) == before


@pytest.mark.parametrize(("before", "answer"), [(63, Payload(b"6", JSON_NAMED)), (64, None)])
async def test_the_limit_of_accepted_types_at_its_edge(bind, before, answer):
    """The 64th type counts and the next does not: then the answer is of the connection's type."""
    bound = await bind(make_router(), data=MIME.CBOR)
    metadata = Metadata(route="older", accept=["image/png"] * before + [MIME.JSON] * 1000)
    assert await ask(bound, metadata, b"\x05") == (answer or Payload(b"\x06", CBOR_NAMED))


async def test_types_behind_the_chosen_one_are_not_read(bind):
    """Damage there is not noticed, and a long list costs no more than its beginning."""
    bound = await bind(make_router(), data=MIME.CBOR)
    for mime_type, answer in [(b"\x85", Payload(b"6", JSON_NAMED)), (b"\x81", Payload(b"\x06"))]:
        wishes = (MIME.ACCEPT_MIME_TYPES, mime_type + b"\x20")
        assert await ask(bound, Metadata(route="older", extra=[wishes]), b"\x05") == answer
