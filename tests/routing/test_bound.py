import logging
from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.abc import ReceiveChannel

from rsocket_trio.codecs import CodecError
from rsocket_trio.errors import ErrorCode, Invalid
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.routing import encode_route, route_metadata
from rsocket_trio.payload import Payload
from rsocket_trio.requester import Requester
from rsocket_trio.responder import Setup
from rsocket_trio.routing import Route, Router
from rsocket_trio.transports.base import TransportInfo


@attrs.frozen
class Person:
    name: str
    age: int = 0


def request(data=b"", route=None, *, more=()):
    """A request with composite metadata."""
    entries = [] if route is None else [MetadataEntry(MIME.ROUTING, encode_route(route))]
    return Payload(data, CompositeMetadata([*entries, *more]).encode())


async def collect(items):
    if not hasattr(items, "__aiter__"):
        items = await items
    return [item async for item in items]


def channel_of(*payloads):
    send, receive = trio.open_memory_channel(len(payloads))
    for payload in payloads:
        send.send_nowait(payload)
    send.close()
    return receive


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


@pytest.mark.parametrize("returned", [False, True])
async def test_streams_are_converted(bind, returned):
    """Generators, and iterables that a coroutine returns, give payloads."""
    router = Router()

    async def count(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    async def start(n: int) -> AsyncIterator[int]:
        await trio.lowlevel.checkpoint()
        return count(n)

    router.request_stream("count")(start if returned else count)
    bound = await bind(router, data=MIME.CBOR)
    items = await collect(bound.request_stream(request(b"\x03", "count")))
    assert items == [Payload(b"\x00"), Payload(b"\x01"), Payload(b"\x02")]


async def test_a_handler_may_return_a_memory_channel(bind):
    """Its items may be payloads already."""
    router = Router()

    @router.request_stream()
    async def answer() -> ReceiveChannel[str]:
        return channel_of("a", Payload(b"b", b"m"))

    bound = await bind(router)
    assert await collect(bound.request_stream(Payload())) == [Payload(b'"a"'), Payload(b"b", b"m")]


async def test_channels_are_converted_both_ways(bind):
    """The channel includes the first item, which the data parameter gets as well."""
    router = Router()

    @router.request_channel("add")
    async def add(first: int, numbers: ReceiveChannel[int]) -> AsyncIterator[str]:
        async for number in numbers:
            yield f"{first}+{number}"

    bound = await bind(router)
    first = request(b"1", "add")
    items = await collect(bound.request_channel(first, channel_of(first, Payload(b"2"))))
    assert [item.data for item in items] == [b'"1+1"', b'"1+2"']


async def test_a_channel_of_payloads_is_not_wrapped(bind):
    """ReceiveChannel[Payload] is the same object that the connection made."""
    router = Router()
    seen = []

    @router.request_channel()
    async def take(payloads: ReceiveChannel[Payload]) -> AsyncIterator[Payload]:
        seen.append(payloads)
        yield await payloads.receive()

    bound = await bind(router)
    payloads = channel_of(Payload(b"1"))
    assert await collect(bound.request_channel(Payload(b"1"), payloads)) == [Payload(b"1")]
    assert seen == [payloads]


async def test_an_item_that_cannot_be_converted_is_invalid(bind):
    """The handler's receive raises the error that the requester gets."""
    router = Router()

    @router.request_channel("add")
    async def add(numbers: ReceiveChannel[int]) -> AsyncIterator[int]:
        async for number in numbers:
            yield number

    bound = await bind(router)
    first = request(b"1", "add")
    items = bound.request_channel(first, channel_of(first, Payload(b'"x"')))
    assert await anext(items) == Payload(b"1")
    with pytest.raises(Invalid, match="route 'add' expects int as 'application/json'"):
        await anext(items)


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


INTERACTIONS = ["request_response", "fire_and_forget", "request_stream", "request_channel"]


async def ask(bound, interaction, payload):
    method = getattr(bound, interaction)
    if interaction == "request_channel":
        return await collect(method(payload, channel_of(payload)))
    return await (collect(method(payload)) if "stream" in interaction else method(payload))


@pytest.mark.parametrize("interaction", INTERACTIONS)
async def test_unknown_routes_are_invalid(bind, interaction):
    """The text names interaction and route; handlers of other interactions do not count."""
    router = Router()

    @router.metadata_push()
    async def ignore(metadata: bytes) -> None: ...

    bound = await bind(router)
    with pytest.raises(Invalid) as caught:
        await ask(bound, interaction, request(b"", "x"))
    assert caught.value.message == f"no {interaction} handler for route 'x'"
    with pytest.raises(Invalid, match=f"no {interaction} handler for requests without a route"):
        await ask(bound, interaction, Payload())


async def test_a_route_in_an_error_is_escaped_and_shortened(bind):
    """It is sent back as printable ASCII, with a limited length."""
    bound = await bind(Router())
    with pytest.raises(Invalid) as caught:
        await bound.request_response(request(b"", "\x1b[0m\n" + "ü" * 120))
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()
    assert caught.value.message.endswith("\\xfc'...")
    assert "\\x1b[0m\\n" in caught.value.message
    assert len(caught.value.message) < 320


@pytest.mark.parametrize(
    ("payload", "metadata"),
    [
        (Payload(), MIME.COMPOSITE_METADATA),
        (Payload(b"", b""), MIME.COMPOSITE_METADATA),
        (request(more=[MetadataEntry("x")]), MIME.COMPOSITE_METADATA),
        (request(more=[MetadataEntry(MIME.ROUTING)]), MIME.COMPOSITE_METADATA),
        (Payload(b"", b""), MIME.ROUTING),
        (Payload(b"", b"\xff\xff"), "application/x.whatever"),
    ],
)
async def test_a_fallback_serves_requests_without_a_route(bind, payload, metadata):
    """No metadata, no routing metadata, no tags, or metadata of unknown types."""
    router = Router()

    @router.fire_and_forget()
    async def take(route: Route) -> None:
        seen.append(route)

    seen = []
    bound = await bind(router, metadata=metadata)
    await bound.fire_and_forget(payload)
    assert seen == [Route()]


async def test_bare_routing_metadata(bind):
    """On a connection of routing metadata the metadata is the route."""
    router = Router()

    @router.request_response("a")
    async def handler(metadata: CompositeMetadata, route: Route) -> bytes:
        return repr(metadata.entries).encode() + route.tags[0].encode()

    bound = await bind(router, metadata=MIME.ROUTING)
    answer = await bound.request_response(Payload(b"", b"\x01a\x01b"))
    assert answer.data == f"(<MetadataEntry '{MIME.ROUTING}', 4 bytes>,)b".encode()


async def test_absent_composite_metadata_have_no_entries(bind):
    """A handler with a composite metadata parameter gets an empty one."""
    router = Router()

    @router.request_response()
    async def count(metadata: CompositeMetadata) -> int:
        return len(metadata)

    bound = await bind(router)
    assert await bound.request_response(Payload()) == Payload(b"0")


@pytest.mark.parametrize(
    "metadata",
    [
        b"\xfe",
        b"\xfe\0\0\1\5",
        route_metadata("x", more=b"\xfa\0\0\2\x81\x81"),
        route_metadata("x", more=b"\xd0"),
        route_metadata("x", more=b"\xfa\0\0\1\x81\xd0"),
    ],
)
async def test_damaged_metadata_are_invalid(bind, metadata):
    """The request is answered with INVALID and no details, and the connection lives."""
    router = Router()

    @router.request_response("x")
    async def handler(metadata: CompositeMetadata) -> None: ...

    bound = await bind(router)
    with pytest.raises(Invalid, match=r"^INVALID: the metadata of this request cannot be read$"):
        await bound.request_response(Payload(b"", metadata))


async def test_metadata_that_are_not_needed_are_not_checked(bind):
    """Damage behind the routing entry is found only for a handler that reads all entries."""
    router = Router()

    @router.request_response("x")
    async def handler() -> int:
        return 1

    bound = await bind(router)
    metadata = route_metadata("x", more=b"\xfa\0\0\1\x81\xd0")
    assert await bound.request_response(Payload(b"", metadata)) == Payload(b"1")


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


async def test_the_cache_of_requests_is_bounded(bind):
    """Many or long metadata do not fill the memory, and each request is answered."""
    router = Router()

    @router.request_response()
    async def tags(route: Route, metadata: CompositeMetadata) -> int:
        return len(metadata)

    @router.request_response("known")
    async def known(route: Route) -> str:
        return route.tags[0]

    def tagged(*tags):
        return Payload(b"", MetadataEntry(MIME.ROUTING, encode_route("known", *tags)).encode())

    bound = await bind(router)
    for i in range(1000):
        more = [MetadataEntry("x", b"%d" % i)]
        assert await bound.request_response(request(more=more)) == Payload(b"1")
        assert await bound.request_response(tagged(f"{i}")) == Payload(b'"%d"' % i)
    long = request(more=[MetadataEntry("x", bytes(1000))])
    assert await bound.request_response(long) == Payload(b"1")
    assert await bound.request_response(tagged("7", "x" * 200)) == Payload(b'"7"')
    remembered = [metadata for calls in bound._finder._requests.values() for metadata in calls]
    assert 0 < len(remembered) <= 64
    assert max(map(len, remembered)) <= 128


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
