"""From the metadata of a request to its handler."""

import gc
from types import CellType, FunctionType, MethodType

import pytest

from rsocket_trio.errors import Invalid
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.routing import encode_route, route_metadata
from rsocket_trio.payload import Payload
from rsocket_trio.routing import Route, Router
from tests.routing.requests import channel_of, collect, request

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


def parts_of(bound):
    """Count the objects of this package, and the bytes, that a bound router refers to."""
    seen, waiting, count = set(), [bound], 0
    while waiting:
        found = waiting.pop()
        ours = type(found).__module__.startswith("rsocket_trio.")
        if id(found) in seen or not (
            ours or isinstance(found, dict | list | tuple | bytes | CellType | MethodType)
        ):
            if isinstance(found, FunctionType):
                waiting.extend(found.__closure__ or ())
            continue
        seen.add(id(found))
        count += 1
        waiting.extend(gc.get_referents(found))
    return count


@pytest.mark.parametrize("guarded", [False, True])
async def test_what_a_peer_can_fill_is_bounded(bind, guarded):
    """Metadata that differ leave nothing behind: the memory depends on the handlers alone."""

    async def admit(auth, facts):
        return "somebody"

    router = Router(authenticate=admit if guarded else None)

    @router.request_response()
    async def tags(route: Route, metadata: CompositeMetadata) -> int:
        return len(metadata)

    @router.request_response("known")
    async def known(route: Route) -> str:
        return route.tags[0]

    def tagged(*tags):
        return Payload(b"", MetadataEntry(MIME.ROUTING, encode_route("known", *tags)).encode())

    bound = await bind(router)
    by_name = bytes((len(MIME.ROUTING) - 1,)) + MIME.ROUTING.encode()

    async def ask_all(i):
        junk = MetadataEntry("x", b"%d" % i)
        assert await bound.request_response(request(more=[junk])) == Payload(b"1")
        assert await bound.request_response(tagged(f"{i}")) == Payload(b'"%d"' % i)
        behind = request(b"", "known", more=[junk])
        with pytest.raises(IndexError):  # of the handler: there are no tags
            await bound.request_response(behind)
        with pytest.raises(IndexError):
            await bound.request_response(Payload(b"", junk.encode() + behind.metadata))
        with pytest.raises(IndexError):
            named = by_name.swapcase() if i % 2 else by_name
            await bound.request_response(Payload(b"", named + behind.metadata[1:]))
        with pytest.raises(Invalid):
            await bound.request_response(request(b"", f"unknown{i}"))

    for i in range(2):
        await ask_all(i)
    before = parts_of(bound)
    for i in range(2, 200):
        await ask_all(i)
    assert parts_of(bound) == before
