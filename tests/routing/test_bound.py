"""A router on one connection: the parameters and the results of its handlers."""

import logging
from collections.abc import AsyncIterator

import attrs
import pytest

from rsocket_trio.codecs import CodecError
from rsocket_trio.errors import ErrorCode, Invalid
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.routing import encode_route
from rsocket_trio.payload import Payload
from rsocket_trio.requester import Requester
from rsocket_trio.responder import Setup
from rsocket_trio.routing import Route, Router
from rsocket_trio.transports.base import TransportInfo
from tests.routing.requests import collect, request


@attrs.frozen
class Person:
    name: str
    age: int = 0


async def test_request_and_result_are_converted(bind):
    """Data are converted to the annotated class, and the result to data."""
    router = Router()

    @router.request_response("older")
    async def older(person: Person) -> Person:
        return attrs.evolve(person, age=person.age + 1)

    bound = await bind(router)
    for _ in range(2):
        answer = await bound.request_response(request(b'{"name":"Ada"}', "older"))
        assert answer == Payload(b'{"name":"Ada","age":1}')


async def test_parameters_of_a_handler_are_filled(bind):
    """A handler gets each parameter that it has, by position or by keyword."""
    router = Router()
    seen = []

    @router.request_response("all")
    async def handler(
        data: int,
        /,
        payload: Payload,
        metadata: CompositeMetadata,
        setup: Setup,
        *,
        transport: TransportInfo,
        route: Route,
    ) -> None:
        seen.extend([data, payload, metadata.first("x"), setup, transport, route])

    bound = await bind(router)
    tags = MetadataEntry(MIME.ROUTING, encode_route("all", "blue", "eu"))
    payload = request(b"7", more=[MetadataEntry("x", b"y"), tags])
    assert await bound.request_response(payload) is None
    assert seen[:3] == [7, payload, b"y"]
    assert seen[3].transport is seen[4]
    assert seen[5] == Route("all", ("blue", "eu"))


async def test_payloads_are_not_converted(bind):
    """Payloads in and out are unchanged, so a handler can answer with metadata too."""
    router = Router()

    @router.request_response()
    async def echo(payload: Payload) -> Payload:
        return payload

    @router.request_stream()
    async def twice(payload: Payload) -> AsyncIterator[Payload]:
        yield payload
        yield payload

    bound = await bind(router, data="image/png")
    payload = Payload(b"\xff", None)
    assert await bound.request_response(payload) is payload
    stream = bound.request_stream(payload)
    # This is the handler's own generator, without a wrapper.
    assert stream.ag_code is twice.__code__
    assert await collect(stream) == [payload, payload]


async def test_none_completes_without_a_payload(bind):
    """A request_response handler that returns None sends no payload; a stream sends null."""
    router = Router()

    @router.request_response()
    async def find() -> int | None:
        return None

    @router.request_stream()
    async def find_all() -> AsyncIterator[int | None]:
        yield None

    bound = await bind(router)
    assert await bound.request_response(Payload()) is None
    assert await collect(bound.request_stream(Payload())) == [Payload(b"null")]


async def test_a_default_stands_in_for_empty_data(bind):
    """A peer that sends no data gets the handler's default."""
    router = Router()

    @router.request_response()
    async def double(n: int = 21) -> int:
        return 2 * n

    bound = await bind(router)
    assert await bound.request_response(Payload()) == Payload(b"42")
    assert await bound.request_response(Payload(b"1")) == Payload(b"2")


async def test_data_that_cannot_be_converted_are_invalid(bind, caplog):
    """The peer gets the route and the type; the details go to the log."""
    router = Router()

    @router.request_response("people")
    async def people(everybody: list[Person]) -> None: ...

    @router.request_response()
    async def number(n: int) -> None: ...

    bound = await bind(router)
    with caplog.at_level(logging.INFO, "rsocket_trio"), pytest.raises(Invalid) as caught:
        await bound.request_response(request(b'[{"name":5}]', "people"))
    assert caught.value.code == ErrorCode.INVALID
    assert caught.value.message == "route 'people' expects list[Person] as 'application/json'"
    assert "everybody[0].name: expected str, got int" in caplog.text
    assert "Traceback" not in caplog.text  # A peer's mistake has a traceback at DEBUG only.
    with caplog.at_level(logging.DEBUG, "rsocket_trio"), pytest.raises(Invalid):
        await bound.request_response(request(b"?", "people"))
    assert "Traceback" in caplog.text
    with pytest.raises(Invalid, match="this request expects int as"):
        await bound.request_response(Payload(b"?"))


async def test_a_result_that_cannot_be_converted_is_a_local_error(bind):
    """It is a CodecError, which is logged, and its details are not sent to the peer."""
    router = Router()

    @router.request_response()
    async def wrong() -> Person:
        return "Ada"

    bound = await bind(router)
    with pytest.raises(CodecError, match="str cannot be written as application/json"):
        await bound.request_response(Payload())


@pytest.mark.parametrize(
    ("mime_type", "data"), [(MIME.CBOR, b"\x07"), (MIME.TEXT, b"7"), (MIME.JSON, b"7")]
)
async def test_a_request_may_name_its_own_mime_type(bind, mime_type, data):
    """The request's data are of its own type; the answer is of the connection's type."""
    router = Router()

    @router.request_response()
    async def same(n: int) -> int:
        return n

    bound = await bind(router)
    entry = MetadataEntry(MIME.MIME_TYPE, MetadataEntry(mime_type).encode()[:1])
    assert await bound.request_response(request(data, more=[entry])) == Payload(b"7")


async def test_data_of_an_unknown_mime_type_stay_bytes(bind):
    """A type with an unassigned number has no codec."""
    router = Router()

    @router.request_response("int")
    async def number(n: int) -> None: ...

    @router.request_response("bytes")
    async def raw(data: bytes) -> Payload:
        return Payload(data)

    bound = await bind(router)
    entry = MetadataEntry(MIME.MIME_TYPE, b"\xd0")
    with pytest.raises(
        Invalid, match="route 'int' cannot read these data: there is no codec for '0x50'"
    ):
        await bound.request_response(request(b"7", "int", more=[entry]))
    assert await bound.request_response(request(b"7", "bytes", more=[entry])) == Payload(b"7")


async def test_metadata_push(bind):
    """Its handler receives the metadata as bytes or as entries; without one it is ignored."""
    router = Router()
    await (await bind(router)).metadata_push(b"\xff")

    seen = []

    @router.metadata_push()
    async def push(metadata: bytes, entries: CompositeMetadata, setup: Setup) -> None:
        seen.append((metadata, entries.first("x"), setup.max_lifetime))

    metadata = MetadataEntry("x", b"y").encode()
    await (await bind(router)).metadata_push(metadata)
    assert seen == [(metadata, b"y", 2.0)]


async def test_a_handler_gets_the_requester_of_its_peer(bind):
    """A handler can send requests to the peer."""
    router = Router()
    seen = []

    @router.fire_and_forget()
    async def take(requester: Requester) -> None:
        seen.append(requester)

    peer = object()
    await (await bind(router, requester=peer)).fire_and_forget(Payload())
    assert seen == [peer]
