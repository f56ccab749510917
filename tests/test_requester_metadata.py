"""Metadata that `Requester` and `connect` add."""

import pytest

from rsocket_trio import (
    BearerAuthentication,
    LocalProtocolError,
    Metadata,
    Payload,
    Responder,
    Tracing,
    ZipkinTrace,
    connect,
)
from rsocket_trio.metadata import MIME
from rsocket_trio.server import serve_transport
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.transports.memory import memory_transport_pair

AUTH = BearerAuthentication("token")


class Recorder(Responder):
    """Keeps the metadata of its requests."""

    def __init__(self):
        self.seen = []

    async def accept(self, setup, requester):
        self.setup = setup
        self.requester = requester
        return self

    async def request_response(self, payload):
        self.seen.append(payload.metadata)
        return Payload()

    async def fire_and_forget(self, payload):
        self.seen.append(payload.metadata)

    async def request_stream(self, payload):
        self.seen.append(payload.metadata)
        yield Payload()

    async def request_channel(self, payload, payloads):
        self.seen.append(payload.metadata)
        async for item in payloads:
            yield item


async def test_every_interaction_takes_metadata():
    """The route, then the argument metadata=, then the payload's own metadata."""
    recorder = Recorder()
    payload = Payload(b"", b"\xe3\0\0\0")
    metadata = Metadata(auth=AUTH)
    async with connected_pair(recorder) as requester:
        await requester.request_response(payload, route="a", metadata=metadata)
        await requester.fire_and_forget(payload, route="a", metadata=metadata)
        async with requester.request_stream(payload, route="a", metadata=metadata) as items:
            assert len([item async for item in items]) == 1
        async with requester.request_channel([payload], route="a", metadata=metadata) as items:
            assert len([item async for item in items]) == 1
        await requester.request_response(metadata=Metadata(route="b"))
    whole = b"\xfe\0\0\2\1a\xfc\0\0\6\x81token\xe3\0\0\0"
    assert recorder.seen == [whole] * 4 + [b"\xfe\0\0\2\1b"]


async def test_wrong_types_of_metadata_are_named():
    """Bytes or a dict instead of `Metadata`, and a route that is not text, are errors."""
    async with connected_pair(Responder()) as requester:
        for wrong in (b"m", {"route": "there"}):
            with pytest.raises(TypeError, match=f"a Metadata, not {type(wrong).__name__}"):
                await requester.request_response(Payload(), metadata=wrong)
        with pytest.raises(TypeError, match="route must be of type str, not bytes"):
            await requester.request_response(Payload(), route=b"there")


async def test_two_routes_are_refused():
    """A route in metadata= and a route argument are one too many."""
    async with connected_pair(Recorder()) as requester:
        with pytest.raises(LocalProtocolError, match="twice"):
            await requester.request_response(route="a", metadata=Metadata(route="b"))


async def test_setup_metadata(nursery):
    """The SETUP has the added metadata before its own; the server knows both types."""
    recorder = Recorder()
    client_end, server_end = memory_transport_pair()
    nursery.start_soon(serve_transport, recorder, server_end)
    setup = Payload(b"data", b"\xe3\0\0\0")
    async with connect(
        client_end, setup=setup, setup_metadata=Metadata(auth=AUTH), data_mime_type=MIME.JSON
    ) as requester:
        assert (requester.data_mime_type, recorder.requester.data_mime_type) == (MIME.JSON,) * 2
        assert recorder.requester.metadata_mime_type == requester.metadata_mime_type
    assert recorder.setup.data == b"data"
    assert Metadata.decode(recorder.setup.metadata) == Metadata(auth=AUTH, extra=[(99, b"")])


async def test_a_trace_is_passed_on(nursery):
    """The trace of the current request goes on; one in metadata= replaces it."""
    trace = ZipkinTrace(trace_id=b"t" * 8, span_id=b"s" * 8)
    tracing = Tracing(random_bytes=lambda n: b"n" * n)
    recorder = Recorder()
    client_end, server_end = memory_transport_pair()
    nursery.start_soon(serve_transport, recorder, server_end)
    async with connect(client_end, tracing=tracing) as requester:
        await requester.request_response()
        async for _ in tracing.around(trace)(None):
            await requester.request_response()
            await requester.request_response(route="a")
            await requester.request_response(metadata=Metadata(trace=trace))
    child = tracing.child(trace)
    assert recorder.seen[0] is None
    assert [Metadata.decode(metadata) for metadata in recorder.seen[1:]] == [
        Metadata(trace=child),
        Metadata(route="a", trace=child),
        Metadata(trace=trace),
    ]


async def test_a_trace_needs_composite_metadata(nursery):
    """Without composite metadata there is no place for a trace, and none is sent."""
    tracing = Tracing()
    recorder = Recorder()
    client_end, server_end = memory_transport_pair()
    nursery.start_soon(serve_transport, recorder, server_end)
    async with connect(client_end, tracing=tracing, metadata_mime_type=MIME.TEXT) as requester:
        async for _ in tracing.around(ZipkinTrace())(None):
            await requester.request_response()
    assert recorder.seen == [None]
