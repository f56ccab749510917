"""A router reads a limited part of a request's metadata, and only when it needs it."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio import (
    Caller,
    ConnectionConfig,
    Limits,
    Metadata,
    Payload,
    Rejected,
    RejectedSetup,
    Responder,
    Router,
    Tracing,
    ZipkinTrace,
)
from rsocket_trio.codecs import CodecError
from rsocket_trio.errors import Invalid, MetadataTooLarge
from rsocket_trio.metadata import (
    MIME,
    AcceptMimeTypes,
    BearerAuthentication,
    CompositeMetadata,
    MetadataEntry,
)
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.responder import Setup
from rsocket_trio.routing import RequestFacts
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.transports.base import TransportInfo

MANY_ENTRIES = r"^INVALID: more than 128 entries of metadata \(max_metadata_entries\)$"
MANY_TAGS = r"^INVALID: more than 64 routing tags \(max_routing_tags\)$"
JUNK = MetadataEntry(0x50).encode()


@contextmanager
def counted():
    """Count the calls of Python functions in the block."""
    count = SimpleNamespace(calls=0)

    def profile(_frame, event, _arg):
        count.calls += event == "call"

    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)


async def refuse(auth, facts):
    """Refuse every request, and admit every connection."""
    if isinstance(facts, RequestFacts):
        raise Rejected("who are you?")


def make_router(**options):
    router = Router(**options)

    @router.request_response("a")
    async def plain() -> int:
        return 1

    @router.request_response("b")
    async def with_entries(metadata: CompositeMetadata) -> int:
        return len(metadata)

    @router.request_response("c")
    async def with_metadata(metadata: Metadata) -> int:
        return len(metadata.extra)

    @router.request_response("d")
    async def with_trace(trace: ZipkinTrace | None) -> int:
        return 0 if trace is None else 1

    @router.metadata_push()
    async def pushed(metadata: CompositeMetadata) -> None: ...

    return router


def make_setup():
    return Setup(
        data_mime_type=MIME.JSON,
        metadata_mime_type=MIME.COMPOSITE_METADATA,
        keepalive_interval=1.0,
        max_lifetime=2.0,
        transport=TransportInfo(scheme="memory"),
    )


ROUTES = ["a", "b", "c", "d"]


@pytest.mark.parametrize("options", [{}, {"tracing": Tracing()}], ids=["plain", "traced"])
@pytest.mark.parametrize("route", ROUTES)
async def test_the_limit_of_entries_at_its_edge(bind, route, options):
    """128 entries are read; one more makes the request INVALID, and the text says why."""
    bound = await bind(make_router(**options), requester=SimpleNamespace())
    head = Metadata(route=route).encode()
    for _ in range(2):
        await bound.request_response(Payload(b"", head + JUNK * 127))
        with pytest.raises(Invalid, match=MANY_ENTRIES):
            await bound.request_response(Payload(b"", head + JUNK * 128))


@pytest.mark.parametrize("options", [{}, {"authenticate": refuse}], ids=["open", "guarded"])
async def test_the_limit_of_entries_of_a_push(bind, options):
    """A METADATA_PUSH with more entries is refused by a guard, and for its handler."""

    async def admit(auth, facts):
        return "you"

    options = dict.fromkeys(options, admit)
    bound = await bind(make_router(**options))
    await bound.metadata_push(JUNK * 128)
    with pytest.raises(Invalid, match=MANY_ENTRIES):
        await bound.metadata_push(JUNK * 129)


@pytest.mark.parametrize("mime_type", [MIME.COMPOSITE_METADATA, MIME.ROUTING])
async def test_the_limit_of_tags_at_its_edge(bind, mime_type):
    """A route with 63 tags behind it is read; one more makes the request INVALID."""
    bound = await bind(make_router(), metadata=mime_type)
    for tags in (63, 64):
        metadata = Metadata(route="a", tags=["t"] * tags).encode(mime_type)
        if tags == 63:
            assert await bound.request_response(Payload(b"", metadata)) == Payload(b"1")
        else:
            with pytest.raises(Invalid, match=MANY_TAGS):
                await bound.request_response(Payload(b"", metadata))


async def test_the_limit_of_accepted_types_holds_for_a_metadata_parameter(bind):
    """The router ignores types past it; a `Metadata` parameter needs all of them."""
    bound = await bind(make_router())
    for route, refused in [("a", False), ("c", True)]:
        metadata = Metadata(route=route, accept=["x/y"] * 65).encode()
        if refused:
            with pytest.raises(Invalid, match="max_accept_types"):
                await bound.request_response(Payload(b"", metadata))
        else:
            await bound.request_response(Payload(b"", metadata))


ATTACKS = {
    "entries": Metadata(route="a").encode() + JUNK * 250_000,
    "named entries": Metadata(route="a").encode() + MetadataEntry("x").encode() * 200_000,
    "tags": MetadataEntry(MIME.ROUTING, b"\1a" + bytes(2**20)).encode(),
    "types": Metadata(route="a").encode()
    + MetadataEntry(MIME.ACCEPT_MIME_TYPES, b"\xd0" * 2**20).encode(),
    "named types": Metadata(route="a").encode()
    + MetadataEntry(MIME.ACCEPT_MIME_TYPES, b"\0x" * 2**19).encode(),
}


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_megabyte_of_entries_takes_few_steps(bind, attack, guarded):
    """Some hundred entries are read, however many there are: the loop is not held up."""
    bound = await bind(make_router(**({"authenticate": refuse} if guarded else {})))
    payload = Payload(b"", ATTACKS[attack])
    error = None
    with counted() as count:
        try:
            await bound.request_response(payload)
        except (Invalid, Rejected) as caught:
            error = caught
        bound.body_responder(Interaction.REQUEST_RESPONSE, payload.metadata)
    assert (error is None) is ("types" in attack and not guarded)
    assert count.calls < 4000


async def test_only_route_and_credentials_are_read_before_admission(bind):
    """The MIME types of a stranger's request are read once it is admitted."""
    for options, error, steps in [
        ({"authenticate": refuse}, Rejected, 120),
        ({}, Invalid, 1000),
    ]:
        bound = await bind(make_router(**options))
        named = (MIME.MIME_TYPE, b"\x20damaged")
        accept = (MIME.ACCEPT_MIME_TYPES, AcceptMimeTypes(["x/y"] * 64).encode())
        metadata = Metadata(route="a", extra=[named, accept]).encode()
        with counted() as count, pytest.raises(error):
            await bound.request_response(Payload(b"", metadata))
        assert count.calls < steps
        assert bound._finder._typed == {}


@pytest.mark.parametrize("entries", [3, 4])
async def test_the_limits_of_the_connection_hold(entries):
    """A router, and a `Caller`, use the values of `ConnectionConfig.limits`."""

    class Named(Responder):
        async def request_response(self, payload):
            return Payload(b"\1", JUNK * entries)

    config = ConnectionConfig(limits=Limits(max_metadata_entries=3))
    async with connected_pair(make_router(), config=config) as requester:
        ask = requester.request_response(
            Payload(b"", JUNK * (entries - 1)), metadata=Metadata(route="a")
        )
        if entries == 3:
            await ask
        else:
            with pytest.raises(Invalid, match="more than 3 entries"):
                await ask
    async with connected_pair(Named(), config=config) as requester:
        caller = Caller(requester)
        if entries == 3:
            assert await caller.request_response("x", returns=int) == 1
        else:
            with pytest.raises(CodecError, match="metadata of the response") as caught:
                await caller.request_response("x", returns=int)
            assert isinstance(caught.value.__cause__, MetadataTooLarge)


@pytest.mark.parametrize(("before", "refused"), [(127, False), (128, True)])
async def test_the_entries_of_a_setup(before, refused):
    """Credentials behind too many entries are refused without calling the authenticator."""
    asked = []

    async def authenticate(auth, facts):
        asked.append(auth)

    token = BearerAuthentication("me")
    metadata = JUNK * before + Metadata(auth=token).encode()
    router = make_router(authenticate=authenticate)
    if not refused:
        async with connected_pair(router, setup=Payload(b"", metadata)):
            assert asked == [token]
        return
    with pytest.raises(RejectedSetup, match="more than 128 entries of metadata"):
        async with connected_pair(router, setup=Payload(b"", metadata)):
            pass
    assert asked == []


contents = st.binary(max_size=12) | st.sampled_from(
    [b"\1a", b"\1b\1x", b"\1c", b"\1d", b"\x81me", b"\x85", b"\x85\x81\xd0", b"\x80" + bytes(16)]
)
entries = st.builds(
    MetadataEntry,
    st.sampled_from(
        [
            MIME.ROUTING,
            MIME.ROUTING.upper(),
            MIME.AUTHENTICATION,
            MIME.MIME_TYPE,
            MIME.ACCEPT_MIME_TYPES,
            MIME.TRACING_ZIPKIN,
            0x50,
            "x",
        ]
    ),
    contents,
)
any_metadata = st.builds(
    lambda parts, rest: b"".join([part.encode() for part in parts]) + rest,
    st.lists(entries, max_size=6),
    st.just(b"") | st.binary(max_size=6),
)


@settings(max_examples=100)
@given(metadata=any_metadata, guarded=st.booleans(), traced=st.booleans())
def test_any_metadata_are_answered_or_refused(metadata, guarded, traced):
    """For all metadata the result is an answer or a refusal for the peer."""

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts) and auth is None:
            raise Rejected("who are you?")
        return "you"

    async def ask():
        options = {"authenticate": authenticate} if guarded else {}
        if traced:
            options["tracing"] = Tracing()
        bound = await make_router(**options).accept(make_setup(), SimpleNamespace())
        for _ in range(2):
            try:
                bound.body_responder(Interaction.REQUEST_RESPONSE, metadata)
                answer = await bound.request_response(Payload(b"", metadata))
                assert 0 <= int.from_bytes(answer.data) <= ord("9")  # in CBOR or in JSON
            except (Invalid, Rejected):
                pass
            with suppress(Invalid, Rejected):
                await bound.metadata_push(metadata)

    trio.run(ask)
