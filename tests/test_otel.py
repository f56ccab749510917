"""Spans and durations of calls, and the trace context that travels with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rsocket_trio import Caller, CustomError, Router, StreamError, connect, ttrpc
from rsocket_trio.metadata import MIME, Metadata, MetadataEntry, ZipkinTrace
from rsocket_trio.otel import Telemetry
from rsocket_trio.testing import cancel_everywhere, served
from rsocket_trio.tracing import Tracing, current_trace
from rsocket_trio.ttrpc.metadata import METADATA_TYPE

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C


class Seen:
    """A `Telemetry` whose spans and durations are kept."""

    def __init__(self, **options):
        self.spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.reader = InMemoryMetricReader()
        meters = MeterProvider([self.reader])
        self.tracer = provider.get_tracer("tests")
        self.telemetry = Telemetry(tracer_provider=provider, meter_provider=meters, **options)

    def finished(self, kind):
        return [each for each in self.spans.get_finished_spans() if each.kind is kind]

    def durations(self):
        found = {}
        for resource in self.reader.get_metrics_data().resource_metrics:
            for metric in resource.scope_metrics[0].metrics:
                for point in metric.data.data_points:
                    found[metric.name, point.attributes["rpc.method"]] = point
        return found


def application(seen, **options):
    router = Router(middleware=[seen.telemetry], **options)

    @router.request_response("double.{room}")
    async def double(room: str, data: int) -> int:
        if room == "secret-fails":
            raise ValueError("secret text")
        if room == "secret-says":
            raise CustomError("secret words", code=0x321)
        with seen.tracer.start_as_current_span("inner"):
            await trio.lowlevel.checkpoint()
        return data * 2

    @router.request_stream("numbers")
    async def numbers(data: int) -> AsyncIterator[int]:
        for n in range(data):
            with seen.tracer.start_as_current_span("item"):
                await trio.lowlevel.checkpoint()
            yield n

    return router


async def test_a_call_is_one_trace_from_end_to_end(autojump_clock):
    """The server's span is a child of the client's, and the handler runs in it."""
    seen = Seen()
    async with served(application(seen)) as dial:
        async with connect(dial, middleware=[seen.telemetry]) as requester:
            caller = Caller(requester)
            with seen.tracer.start_as_current_span("outer") as outer:
                await caller.request_response("double.secret", 11, returns=int)
                async with caller.request_stream("numbers", 3, returns=int) as items:
                    assert trace.get_current_span() is outer
                    assert [item async for item in items] == [0, 1, 2]
            await trio.testing.wait_all_tasks_blocked()
    (call, stream), (ours, our_stream) = map(seen.finished, (SpanKind.SERVER, SpanKind.CLIENT))
    assert {each.context.trace_id for each in seen.spans.get_finished_spans()} == {
        outer.get_span_context().trace_id
    }
    assert ours.parent.span_id == our_stream.parent.span_id == outer.get_span_context().span_id
    assert call.parent.span_id == ours.context.span_id
    assert stream.parent.span_id == our_stream.context.span_id
    inner = {each.name: each.parent.span_id for each in seen.finished(SpanKind.INTERNAL)[:-1]}
    assert inner["inner"] == call.context.span_id
    assert inner["item"] == stream.context.span_id
    assert (call.name, ours.name) == ("double.{room}", "double.secret")
    assert dict(call.attributes) == {
        "rpc.system.name": "rsocket",
        "rpc.method": "double.{room}",
        "rsocket.interaction": "request_response",
    }
    assert stream.attributes["rsocket.items"] == our_stream.attributes["rsocket.items"] == 3
    durations = seen.durations()
    assert durations["rpc.server.call.duration", "double.{room}"].count == 1
    assert durations["rpc.client.call.duration", "numbers"].count == 1


async def test_a_handler_continues_the_trace_elsewhere():
    """What a handler sends to another server is a child of its own span."""
    seen = Seen()
    outer = Router(middleware=[seen.telemetry])
    async with served(application(seen)) as inner_dial:
        async with connect(inner_dial, middleware=[seen.telemetry]) as inner:

            @outer.request_response("ask")
            async def ask(data: int) -> int:
                return await Caller(inner).request_response("double.x", data, returns=int)

            async with served(outer) as dial:
                async with connect(dial, middleware=[seen.telemetry]) as requester:
                    assert await Caller(requester).request_response("ask", 2, returns=int) == 4
    by_id = {each.context.span_id: each for each in seen.spans.get_finished_spans()}
    (last,) = [each for each in by_id.values() if each.name == "inner"]
    chain = [last.name]
    while last.parent is not None:
        last = by_id[last.parent.span_id]
        chain.append(last.name)
    assert chain == ["inner", "double.{room}", "double.x", "ask", "ask"]


async def test_errors_have_a_type_and_no_text(autojump_clock):
    """A fault of the server is an error of its span; a refusal is one of the client's only."""
    seen = Seen()
    async with served(application(seen)) as dial:
        async with connect(dial, middleware=[seen.telemetry]) as requester:
            for route in ("double.secret-fails", "double.secret-says", "secret.route"):
                with pytest.raises(StreamError):
                    await Caller(requester).request_response(route, 1, returns=int)
    server = seen.finished(SpanKind.SERVER)
    told = [(each.name, each.status.status_code, each.attributes["error.type"]) for each in server]
    assert told == [
        ("double.{room}", StatusCode.ERROR, "ValueError"),
        ("double.{room}", StatusCode.UNSET, "0x00000321"),
        ("rsocket", StatusCode.UNSET, "INVALID"),
    ]
    assert server[2].attributes["rpc.method"] == "_OTHER"
    assert [each.attributes["error.type"] for each in seen.finished(SpanKind.CLIENT)] == [
        "APPLICATION_ERROR",
        "0x00000321",
        "INVALID",
    ]
    assert "secret" not in str([(each.name, each.attributes, each.events) for each in server])
    assert ("rpc.server.call.duration", "_OTHER") in seen.durations()


async def ask_with(router, *entries, metadata_mime_type=None, **extra):
    async with served(router) as dial, connect(dial) as requester:
        extra = [MetadataEntry(name, content) for name, content in entries]
        await Caller(requester).request_response(
            "double.x", 1, returns=int, metadata=Metadata(extra=extra)
        )


HOSTILE = [
    b"",
    b"\xff\xfe",
    PARENT.encode().replace(b"00-", b"ff-"),
    PARENT.encode().upper(),
    PARENT.encode() + b"-more",
    b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01",
    PARENT.encode().replace(b"b7ad6b7169203331", b"0" * 16),
    PARENT.encode() + b"-" + b"x" * 1000,
    b"01-" + PARENT.encode()[3:] + b"-" + b"x" * 300,
]


@pytest.mark.parametrize("parent", HOSTILE)
async def test_a_hostile_traceparent_is_ignored_with_its_tracestate(parent):
    """W3C Trace Context, "Processing Model": the call begins a trace of its own."""
    seen = Seen()
    await ask_with(application(seen), ("traceparent", parent), ("tracestate", b"a=1"))
    (span,) = seen.finished(SpanKind.SERVER)
    assert span.parent is None
    assert span.context.trace_id != TRACE_ID
    assert not span.context.trace_state


async def test_what_is_valid_is_continued():
    """A tracestate of a usual size is kept, a huge one is dropped, and two parents are none."""
    seen = Seen()
    router = application(seen)
    parent = ("traceparent", PARENT.encode())
    await ask_with(router, parent, ("tracestate", b"a=1"))
    await ask_with(router, parent, ("tracestate", b"a=" + b"1" * 600))
    await ask_with(router, parent, parent)
    await ask_with(router)
    kept, dropped, doubled, none = seen.finished(SpanKind.SERVER)
    assert kept.context.trace_id == dropped.context.trace_id == TRACE_ID
    assert dict(kept.context.trace_state) == {"a": "1"}
    assert not dropped.context.trace_state
    assert doubled.parent is none.parent is None


@given(st.binary(max_size=300), st.binary(max_size=700))
@settings(max_examples=50, deadline=None)
def test_no_bytes_of_a_peer_harm_a_call(parent, state):
    """Whatever is in the entries, the handler answers."""
    seen = Seen(baggage=True)
    entries = ("traceparent", parent), ("tracestate", state), ("baggage", state)
    trio.run(partial(ask_with, application(seen), *entries))
    assert len(seen.finished(SpanKind.SERVER)) == 1


@pytest.mark.parametrize(
    "entry",
    [
        b"5",
        b"[null]",
        b'[["traceparent"]]',
        b'[["traceparent", null]]',
        b'[["baggage", "\\ud800=1"]]',
        b"[" * 100_000,
    ],
)
async def test_any_peer_may_send_metadata_of_ttrpc(entry):
    """What cannot be read as such is no trace, and no fault of the handler."""
    seen = Seen(baggage=True)
    await ask_with(application(seen), (METADATA_TYPE, entry))
    (span,) = seen.finished(SpanKind.SERVER)
    assert span.parent is None
    assert span.status.status_code is StatusCode.UNSET


async def test_a_peer_writes_no_lines_of_the_log(caplog):
    """OpenTelemetry logs members of baggage that it cannot read, with their text."""
    seen = Seen(baggage=True)
    await ask_with(application(seen), ("baggage", b"bad\nERROR forged"), ("tracestate", b"\x1b[2J"))
    parent = ("traceparent", PARENT.encode())
    await ask_with(application(seen), parent, ("baggage", b"x," * 1000), ("tracestate", b"A=1"))
    assert not caplog.records
    assert seen.finished(SpanKind.SERVER)[-1].context.trace_id == TRACE_ID


async def test_the_trace_of_one_who_is_not_trusted_is_a_link():
    seen = Seen(trusted=lambda call: False)
    await ask_with(application(seen), ("traceparent", PARENT.encode()))
    await ask_with(application(seen))
    linked, alone = seen.finished(SpanKind.SERVER)
    assert linked.parent is None
    assert [each.context.trace_id for each in linked.links] == [TRACE_ID]
    assert not alone.links


def seeing(seen, see, **options):
    router = Router(middleware=[seen.telemetry], **options)

    @router.request_response("see")
    async def handle() -> None:
        see()

    return router


async def test_baggage_travels_only_where_it_is_asked_for():
    """And within its limit, on both ends."""
    for ours, theirs, size, arrives in (
        (True, True, 5, True),
        (False, True, 5, False),
        (True, False, 5, False),
        (True, True, 200, False),
    ):
        seen = Seen(baggage=theirs, max_baggage_size=100)
        client = Seen(baggage=ours)
        found = []
        router = seeing(seen, lambda found=found: found.append(baggage.get_baggage("user")))
        token = context.attach(baggage.set_baggage("user", "x" * size))
        try:
            async with served(router) as dial:
                async with connect(dial, middleware=[client.telemetry]) as requester:
                    await Caller(requester).request_response("see", returns=None)
        finally:
            context.detach(token)
        assert found == ["x" * size if arrives else None]


async def test_ttrpc_has_it_in_the_metadata_of_calls():
    """A service, a Router, and streams; the names are those that other languages use."""
    for make in (service_of, router_of):
        seen = Seen()
        here, there = trio.testing.memory_stream_pair()
        served_, options = make(seen)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ttrpc.serve_stream, served_, there, **options))
            async with ttrpc.connect(here, middleware=[seen.telemetry]) as client:
                await client.unary(ttrpc.Method.raw("demo.Words", "Echo"), b"x")
                await client.unary(
                    ttrpc.Method.raw("demo.Words", "Echo"), b"x", metadata={"TraceParent": PARENT}
                )
            nursery.cancel_scope.cancel()
        (ours, _), (call, doubled) = map(seen.finished, (SpanKind.CLIENT, SpanKind.SERVER))
        assert call.parent.span_id == ours.context.span_id
        assert call.name == ours.name == "demo.Words/Echo"
        assert ours.attributes["rpc.system.name"] == "ttrpc"
        assert doubled.parent is None  # that of the caller, and that of the middleware


def service_of(seen):
    service = ttrpc.Service("demo.Words")

    @service.method("Echo")
    async def echo(request: bytes) -> bytes:
        return request

    return service, {"middleware": [seen.telemetry]}


def router_of(seen):
    router = Router(middleware=[seen.telemetry])

    @router.request_response("demo.Words/Echo")
    async def echo(data: bytes) -> bytes:
        return data

    return router, {}


async def test_zipkin_and_metadata_of_other_kinds_stay_as_they_are():
    """Both traces go beside each other; where there is no place for entries, nothing is sent."""
    seen = Seen()
    found = []
    router = seeing(seen, lambda: found.append(current_trace()), tracing=Tracing())
    zipkin = ZipkinTrace(trace_id=b"t" * 8, span_id=b"s" * 8)
    async with served(router) as dial:
        async with connect(dial, middleware=[seen.telemetry]) as requester:
            await Caller(requester).request_response(
                "see", returns=None, metadata=Metadata(trace=zipkin)
            )
        async with connect(
            dial, middleware=[seen.telemetry], metadata_mime_type=MIME.ROUTING
        ) as requester:
            await Caller(requester).request_response("see", returns=None)
    assert found == [zipkin, None]
    first, second = seen.finished(SpanKind.SERVER)
    assert first.parent is not None
    assert second.parent is None


async def test_each_span_ends_wherever_a_call_is_cancelled():
    """At each step of both ends; the context of the caller is what it was."""
    seen = Seen()
    router = application(seen)

    async def scene():
        async with served(router) as dial:
            async with connect(dial, middleware=[seen.telemetry]) as requester:
                caller = Caller(requester)
                await caller.request_response("double.x", 11, returns=int)
                async with caller.request_stream("numbers", 3, returns=int) as items:
                    await anext(items)

    async def check():
        spans = seen.spans.get_finished_spans()
        servers = [each for each in spans if each.kind is SpanKind.SERVER]
        known = {each.context.span_id for each in spans}
        assert all(each.parent.span_id in known for each in servers)
        assert not trace.get_current_span().get_span_context().is_valid
        seen.spans.clear()

    assert await cancel_everywhere(scene, check, every_task=True) > 20


@pytest.mark.parametrize(
    "options",
    [{"trusted": 1}, {"baggage": 1}, {"max_baggage_size": 0}, {"system": None}],
)
def test_arguments(options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        Telemetry(**options)
