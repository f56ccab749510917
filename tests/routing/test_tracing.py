"""Traces reach handlers and the requests that these make."""

from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
import trio
from trio.abc import ReceiveChannel

from rsocket_trio import (
    Invalid,
    Metadata,
    Payload,
    Requester,
    Router,
    Tracing,
    ZipkinTrace,
    current_trace,
)
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.routing import encode_route
from rsocket_trio.testing.in_memory import connected_pair

TRACE = ZipkinTrace(trace_id=b"t" * 8, span_id=b"s" * 8)
TRACING = Tracing(random_bytes=lambda n: b"n" * n)
ENCODED = TRACE.encode()
EMPTY = Payload()


def make_router(**options):
    router = Router(**options)

    def seen() -> bytes:
        trace = current_trace()
        return b"none" if trace is None else trace.encode()

    @router.request_response("current")
    async def current() -> bytes:
        await trio.lowlevel.checkpoint()
        return seen()

    @router.request_response("parameter")
    async def parameter(trace: ZipkinTrace | None) -> bytes:
        return b"none" if trace is None else trace.encode()

    @router.request_response("always")
    async def always(trace: ZipkinTrace) -> bytes:
        return trace.encode()

    @router.request_response("all")
    async def everything(metadata: Metadata) -> bytes:
        return repr(metadata.trace == TRACE).encode()

    @router.request_response("back")
    async def back(requester: Requester) -> bytes:
        return (await requester.request_response(route="current")).data

    @router.request_response("fail")
    async def fail() -> bytes:
        raise Invalid("failed")

    @router.request_stream("current")
    async def stream() -> AsyncIterator[bytes]:
        yield seen()
        await trio.lowlevel.checkpoint()
        yield seen()

    @router.request_stream("returned")
    async def returned() -> AsyncIterator[bytes]:
        assert current_trace() == TRACE
        return stream()

    @router.request_stream("fail")
    async def stream_fail() -> AsyncIterator[bytes]:
        raise Invalid("failed")

    @router.request_stream("raw")
    async def raw() -> AsyncIterator[Payload]:
        yield Payload(seen(), b"")

    @router.request_channel("current")
    async def channel(items: ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
        async for _ in items:
            yield seen()

    return router


async def data_of(opened):
    async with opened as items:
        return [item.data async for item in items]


async def test_a_trace_is_current_in_its_handler():
    """In handlers of every kind; the next request of the same worker has its own, or none."""
    traced = Metadata(trace=TRACE)
    async with connected_pair(make_router(tracing=TRACING)) as requester:
        for metadata, seen in ((traced, ENCODED), (None, b"none"), (traced, ENCODED)):
            answer = await requester.request_response(route="current", metadata=metadata)
            assert answer.data == seen
            stream = requester.request_stream(route="current", metadata=metadata)
            assert await data_of(stream) == [seen] * 2
            raw = requester.request_stream(route="raw", metadata=metadata)
            assert await data_of(raw) == [seen]
            channel = requester.request_channel([Payload()], route="current", metadata=metadata)
            assert await data_of(channel) == [seen]
        returned = requester.request_stream(route="returned", metadata=traced)
        assert await data_of(returned) == [ENCODED] * 2


async def test_a_failing_handler_leaves_its_trace():
    """After a handler that raises, no trace is current."""
    traced = Metadata(trace=TRACE)
    async with connected_pair(make_router(tracing=TRACING)) as requester:
        with pytest.raises(Invalid, match="failed"):
            await requester.request_response(route="fail", metadata=traced)
        with pytest.raises(Invalid, match="failed"):
            await data_of(requester.request_stream(route="fail", metadata=traced))
        with pytest.raises(Invalid, match="no request_stream handler"):
            await data_of(requester.request_stream(route="nowhere", metadata=traced))
        assert (await requester.request_response(route="current")).data == b"none"


async def test_requests_of_a_handler_belong_to_its_trace():
    """A request of a handler to its peer is a child of the handler's span."""
    both = make_router(tracing=TRACING)
    async with connected_pair(both, client_responder=both) as requester:
        answer = await requester.request_response(route="back", metadata=Metadata(trace=TRACE))
        assert answer.data == TRACING.child(TRACE).encode()


async def test_a_trace_parameter():
    """A handler may have the trace as a parameter, also if traces are not passed on."""
    traced = Metadata(trace=TRACE)
    damaged = Payload(b"", b"\xfd\0\0\1\x80")
    async with connected_pair(make_router()) as requester:

        async def ask(route, metadata=None, payload=EMPTY):
            answer = await requester.request_response(payload, route=route, metadata=metadata)
            return answer.data

        assert await ask("parameter", traced) == ENCODED
        assert await ask("parameter") == b"none"
        assert await ask("parameter", payload=damaged) == b"none"
        assert await ask("always") == ZipkinTrace().encode()
        assert await ask("current", traced) == b"none"
        assert await ask("all", traced) == b"True"
        with pytest.raises(Invalid, match="cannot be read"):
            await ask("all", payload=damaged)


async def test_a_damaged_trace_is_ignored():
    """It is no reason to refuse a request."""
    async with connected_pair(make_router(tracing=TRACING)) as requester:
        damaged = Payload(b"", b"\xfd\0\0\1\x80")
        assert (await requester.request_response(damaged, route="current")).data == b"none"


async def test_a_caller_in_the_same_task_is_outside_of_the_trace_again(bind):
    """A responder around a router calls it in its own task, which belongs to no trace."""
    bound = await bind(make_router(tracing=TRACING), requester=SimpleNamespace())
    assert (await bound.request_response(traced_request("current"))).data == ENCODED
    assert current_trace() is None
    with pytest.raises(Invalid, match="failed"):
        await bound.request_response(traced_request("fail"))
    assert current_trace() is None
    items = await bound.request_stream(traced_request("current"))
    assert (await anext(items)).data == ENCODED
    assert current_trace() == TRACE
    for _ in range(2):
        await items.aclose()
        assert current_trace() is None
    items = await bound.request_stream(traced_request("current"))
    assert [item.data async for item in items] == [ENCODED] * 2
    assert current_trace() is None
    items = await bound.request_stream(traced_request("fail"))
    with pytest.raises(Invalid, match="failed"):
        await anext(items)
    assert current_trace() is None


def traced_request(route):
    entries = [
        MetadataEntry(MIME.ROUTING, encode_route(route)),
        MetadataEntry(MIME.TRACING_ZIPKIN, ENCODED),
    ]
    return Payload(b"", CompositeMetadata(entries).encode())
