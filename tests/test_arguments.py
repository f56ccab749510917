"""Arguments are checked where they are given: the error names the argument and what is allowed.

The table has every wire. A wrong value that goes through is an error at another place, or bytes on
the wire that nobody wrote; so each row also fails if the check is missing.
"""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rsocket_trio import (
    BearerAuthentication,
    Caller,
    ClientResume,
    Codecs,
    ConnectionConfig,
    CustomAuthentication,
    LeaseGranter,
    LeaseOptions,
    Metadata,
    Payload,
    Reconnect,
    Responder,
    ServerResume,
    SimpleAuthentication,
    Tracing,
    connect,
    lumberjack,
    parse_uri,
    rsio,
    serve,
    serve_transport,
    ttrpc,
)
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import open_transport

WEBSOCKET = "ws://127.0.0.1:1"


def dialled(**options):
    """Enter `connect` with an argument, which must be refused before anything is dialled."""
    return connect(WEBSOCKET, **options)


def served(**options):
    return partial(serve, Responder(), "ws://127.0.0.1:0", **options)


async def _nothing():
    yield {}


WHOLE = [
    (partial(dialled, setup=b"x"), "setup must be of type Payload, not bytes"),
    (partial(dialled, setup=Payload("x")), "data of type bytes is needed, not with str"),
    (
        partial(dialled, setup=Payload(b"", "x"), setup_metadata=Metadata(route="a")),
        "metadata must be bytes or None, not str",
    ),
    (
        partial(dialled, setup_metadata=b"x"),
        "setup_metadata must be of type Metadata or None, not bytes",
    ),
    (partial(dialled, tracing=True), "tracing must be of type Tracing or None, not bool"),
    (partial(dialled, protocol=["rsocket"]), "protocol must be of type str, not list"),
    (partial(dialled, headers=5), "headers must be a list of tuple or list, or another"),
    (partial(dialled, headers="A: b"), "headers must be a list of tuple or list, or another"),
    (partial(dialled, headers=["ab"]), "items of headers must be of type tuple or list, not str"),
    (partial(dialled, headers=[("A",)]), "items of headers must be pairs"),
    (partial(dialled, headers=[("A", b"b")]), "the value of 'A' in headers must be of type str"),
    (partial(dialled, headers={1: "b"}), "the name of a header in headers must be of type str"),
    (partial(open_transport, WEBSOCKET, headers=5), "headers must be"),
    (partial(open_transport, WEBSOCKET, max_frame_size="5"), "max_frame_size must be of type int"),
    (partial(open_transport, WEBSOCKET, handshake_timeout="5"), "handshake_timeout must be a numb"),
    (served(protocols=5), "protocols must be a list of str"),
    (served(protocols="rsocket"), "protocols must be a list of str"),
    (served(protocols=[5]), "the items of protocols must be of type str, not int"),
    (served(max_connections=True), "max_connections must be of type int, not bool"),
    (served(allowed_origins=5), "allowed_origins must be a list of str"),
    (partial(serve_transport, Responder(), b"x"), "transport must be of type FrameTransport"),
    (partial(Reconnect, retry=5), "Reconnect.retry must be of type Retry, not int"),
    (partial(Reconnect, wait="5"), "Reconnect.wait must be a number, not str"),
    (partial(dialled, reconnect=True), "reconnect must be of type Reconnect or None, not bool"),
    (partial(ConnectionConfig, confirm_setup=0), "ConnectionConfig.confirm_setup must be of type"),
    (partial(LeaseOptions, wait="no"), "LeaseOptions.wait must be of type bool, not str"),
    (partial(LeaseGranter, 5), "the source of leases must be"),
    (partial(LeaseGranter().grant, 5), "lease must be of type Lease, not int"),
    (partial(Metadata, route=b"x"), "Metadata.route must be of type str or None, not bytes"),
    (partial(Metadata, tags=5), "Metadata.tags must be a list of str"),
    (partial(Metadata, tags=[5]), "the items of Metadata.tags must be of type str, not int"),
    (partial(Metadata, auth="x"), "Metadata.auth must be of type SimpleAuthentication, Bearer"),
    (partial(Metadata, trace=b"x"), "Metadata.trace must be of type ZipkinTrace or None"),
    (partial(Metadata, data_mime_type=b"x"), "Metadata.data_mime_type must be of type str, int or"),
    (partial(Metadata, accept=5), "Metadata.accept must be a list of str or int"),
    (partial(Metadata, extra=5), "Metadata.extra must be a list of MetadataEntry or tuple"),
    (partial(Metadata, extra=[("a/b", "x")]), "MetadataEntry.content must be of type bytes"),
    (partial(SimpleAuthentication, b"u", "p"), "SimpleAuthentication.username must be of type str"),
    (partial(SimpleAuthentication, "u", b"p"), "SimpleAuthentication.password must be of type str"),
    (partial(BearerAuthentication, b"t"), "BearerAuthentication.token must be of type str"),
    (partial(CustomAuthentication, "t", "p"), "CustomAuthentication.payload must be of type bytes"),
    (partial(Tracing, random_bytes=5), "random_bytes must be a function, not int"),
    (partial(Codecs, 5), "codecs must be of type Mapping or None, not int"),
    (partial(parse_uri, b"tcp://x:1"), "text must be of type str, not bytes"),
    (partial(ttrpc.connect, "unix:///x", retry=5), "retry must be of type Retry or None"),
    (partial(ttrpc.connect, "unix:///x", middleware=5), "middleware= takes a list"),
    (partial(rsio.connect, "rsio://127.0.0.1:1", retry=5), "retry must be of type Retry or None"),
    (partial(rsio.connect, "rsio://127.0.0.1:1", wait="no"), "wait must be of type bool, not str"),
    (partial(rsio.connect, "rsio://127.0.0.1:1", extensions=5), "extensions must be a list of Ext"),
    (partial(rsio.connect, "rsio://127.0.0.1:1", extensions=[5]), "items of extensions must be"),
    (
        partial(rsio.serve, {}, "rsio://127.0.0.1:0", on_connection=5),
        "on_connection must be a func",
    ),
    (partial(rsio.fixed_size, [], "4"), "size must be of type int, not str"),
    (partial(rsio.fixed_size, [], 4, packed="no"), "packed must be of type bool, not str"),
    (partial(lumberjack.connect, 5), "uris must be a list of str or Uri"),
    (partial(lumberjack.connect, [5]), "the items of uris must be of type str or Uri, not int"),
    (partial(lumberjack.LumberjackHandler, 5), "uris must be a list of str or Uri"),
    (partial(lumberjack.store_in, "/tmp"), "spool must be of type Spool, not str"),
    (partial(lumberjack.ship_from, "/tmp", None), "spool must be of type Spool, not str"),
    (partial(lumberjack.ship_stream, _nothing(), "x"), "shipper must be of type EventSender"),
    (partial(lumberjack.EventRelay().publish, 5), "events must be of type Iterable, not int"),
]


async def given(call):
    """Call a function, whatever it returns."""
    result = call()
    if hasattr(result, "__aenter__"):
        async with result:
            raise AssertionError("the block was entered")
    if hasattr(result, "__await__"):
        with trio.fail_after(5):
            await result


@pytest.mark.parametrize(("call", "text"), WHOLE, ids=[text[:40] for _, text in WHOLE])
async def test_an_argument_of_a_wrong_type_is_named(call, text):
    """A `TypeError` says which argument it is, before anything is opened."""
    with pytest.raises(TypeError) as caught:
        await given(call)
    assert text in str(caught.value)


REQUESTS = [
    (lambda q: q.metadata_push("x"), "metadata must be of type bytes, not str"),
    (lambda q: q.request_response(route=["a"]), "route must be of type str, not list"),
    (
        lambda q: q.request_response(Payload(b"", "text"), route="a"),
        "metadata must be bytes or None, not str",
    ),
    (lambda q: q.request_stream(prefetch="5"), "prefetch must be of type int or None, not str"),
    (lambda q: q.request_stream(prefetch=1.5), "prefetch must be of type int or None, not float"),
    (
        lambda q: q.request_stream(prefetch=0, initial_request_n="1"),
        "initial_request_n must be of type int or None, not str",
    ),
    (lambda q: q.request_channel(5), "source must be an iterable of Payload"),
    (lambda q: q.request_channel(b"x"), "source must be an iterable of Payload"),
    (lambda q: q.request_channel([], prefetch="5"), "prefetch must be of type int or None"),
    (lambda q: Caller(q, codecs=5), "codecs must be of type Codecs, not int"),
    (lambda q: Caller(q).encode(1, 5), "mime_type must be of type str or None, not int"),
    (lambda q: Caller(q).decode(b"x"), "payload must be of type Payload or None, not bytes"),
    (lambda q: Caller(q).request_response("a", returns=[int]), "returns=[<class 'int'>] is not a"),
    (lambda q: Caller(q).request_stream("a", prefetch=1.5), "prefetch must be of type int or Non"),
    (lambda q: Caller(q).request_channel("a", "text"), "values must be an iterable of objects"),
    (lambda q: Caller(q).request_channel("a", {"a": 1}), "values must be an iterable of objects"),
]


@pytest.mark.parametrize(("call", "text"), REQUESTS, ids=[text[:40] for _, text in REQUESTS])
async def test_an_argument_of_a_request_is_named(call, text):
    """The same for requests: nothing is sent, and the connection goes on."""
    async with connected_pair(KnownAnswers()) as requester:
        with pytest.raises(TypeError) as caught:
            await given(partial(call, requester))
        assert text in str(caught.value)
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda q: q.request_stream(Payload(b"1")), "request_stream"),
        (lambda q: q.request_channel([]), "request_channel"),
        (lambda q: q.request_response_streamed(), "request_response_streamed"),
        (lambda q: Caller(q).request_stream("a"), "request_stream"),
        (lambda q: Caller(q).request_channel("a", []), "request_channel"),
        (lambda _: connect(WEBSOCKET), "connect"),
        (lambda _: rsio.connect("rsio://127.0.0.1:1"), "connect"),
        (lambda _: ttrpc.connect("unix:///x"), "connect"),
        (lambda _: lumberjack.connect("lumberjack://127.0.0.1:1"), "connect"),
    ],
)
async def test_a_block_that_is_not_entered_says_how(call, name):
    """`await`, `async for` and `with` are errors that show the `async with` to write."""
    async with connected_pair(KnownAnswers()) as requester:
        with pytest.raises(TypeError, match=rf"`async with \.\.\.{name}\("):
            await call(requester)
        with pytest.raises(TypeError, match=rf"`async with \.\.\.{name}\("):
            async for _ in call(requester):
                pass
        with pytest.raises(TypeError, match=rf"`async with \.\.\.{name}\("), call(requester):
            pass


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer x"},
        (pair for pair in [("Authorization", "Bearer x")]),
        [["Authorization", "Bearer x"]],
    ],
    ids=["mapping", "generator", "lists"],
)
async def test_headers_are_sent_by_each_dial(headers):
    """A server refuses to resume if Authorization is not as in the SETUP's request.

    So a generator that the first dial has used up would end the session.
    """
    async with trio.open_nursery() as nursery:
        transports = []

        async def accept(setup, _):
            transports.append(setup.transport.header("authorization"))
            return KnownAnswers()

        start = partial(serve, accept, "ws://127.0.0.1:0", resume=ServerResume())
        server = await nursery.start(start)
        async with connect(server.uris[0], headers=headers, resume=ClientResume()) as requester:
            link = requester._connection.transport
            await trio.aclose_forcefully(link.attachment.transport)
            assert await requester.request_response(Payload(b"x")) == Payload(b"x")
        assert transports == ["Bearer x"]
        await server.aclose()


async def test_protocols_may_be_a_generator():
    """It is iterated once: each connection finds the protocols."""
    async with trio.open_nursery() as nursery:
        names = (name for name in ["rsocket"])
        start = partial(serve, KnownAnswers(), "tcp://127.0.0.1:0", protocols=names)
        server = await nursery.start(start)
        for _ in range(2):
            async with connect(server.uris[0]) as requester:
                assert await requester.request_response(Payload(b"x")) == Payload(b"x")
        await server.aclose()
