"""Spans and durations for OpenTelemetry, with W3C trace context: `Telemetry`.

It needs ``opentelemetry-api`` alone; a program that wants to see anything brings the SDK.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import attrs
import trio

from .errors import StreamError, code_name
from .escapes import escaped
from .field_checks import COUNT, FLAG, FUNCTION, TEXT, argument, optional
from .metadata.composite import MetadataEntry
from .metadata.mime_types import MIME, same_mime_type
from .routing.call import AnyCall, Call, Outcome
from .routing.outgoing import OutgoingCall
from .statistics import Histogram
from .ttrpc.metadata import METADATA_TYPE, pairs_in

try:
    from opentelemetry import context as contexts
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.metrics import MeterProvider, get_meter
    from opentelemetry.trace import (
        Link,
        SpanKind,
        StatusCode,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(
        "rsocket_trio.otel needs opentelemetry-api: pip install 'rsocket-trio[otel]'"
    ) from error

__all__ = ["Telemetry"]

_NAME: Final = "rsocket_trio"
_OTHER: Final = "_OTHER"  # RPC conventions, "rpc.method": for a method that is not there
_TRACE: Final = TraceContextTextMapPropagator()
_BAGGAGE: Final = W3CBaggagePropagator()

_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_BAG: Final = "baggage"
_MAX_PARENT: Final = 256
"""Bytes of a ``traceparent``; that of version 00 has 55, and later ones may have more."""
_MAX_STATE: Final = 512
"""Bytes of a ``tracestate``. W3C Trace Context asks for so many to be passed on, at least."""
_MAX_BAGGAGE: Final = 8192

_MEMBERS: Final = {
    # W3C Trace Context, 3.3.1; W3C Baggage, 3.2.1
    _STATE: (re.compile(r"[ \t]*[a-z0-9][a-z0-9_*/@-]{0,255}=[!-+\--<>-~][ -+\--<>-~]{0,255}"), 32),
    _BAG: (
        re.compile(
            r"[ \t]*[!#-'*+.0-9A-Z^-z|~-]+[ \t]*=[ \t]*[!#-+\--:<-[\]-~]*(?:[ \t]*;.*)?[ \t]*"
        ),
        180,
    ),
}
"""What the members of a list look like, and how many there may be."""


class Telemetry:
    """Middleware of both ends: a span for each call, which continues the trace of the requester.

    ``Router(middleware=[telemetry])``, ``connect(..., middleware=[telemetry])``, and the same for
    ttrpc's services and clients. A handler runs in the span of its call, so requests that it sends
    are children of that. Names and attributes are those of the conventions for RPC: the route of
    the handler is ``rpc.method``, and ``_OTHER`` for all calls without a handler. How long calls
    take is the histogram ``rpc.server.call.duration`` or ``rpc.client.call.duration``. Texts of
    errors and data are in neither.

    Trace context travels as entries of the metadata with the names ``traceparent`` and
    ``tracestate``, as rsocket-java's integration of Micrometer writes them, and on ttrpc as keys of
    the metadata. It is sent where the connection has composite metadata. What comes from a peer is
    read as W3C Trace Context says: a ``traceparent`` that is not valid, or is there twice, is
    ignored with its ``tracestate``, and the call begins a trace. A ``tracestate`` of more than 512
    bytes is dropped. Zipkin's metadata are another thing (`Tracing`), and stay as they are.

    Args:
        tracer_provider: Makes the spans; by default the global one.
        meter_provider: Makes the histograms; by default the global one.
        trusted: Whether the trace of a peer is continued. The span of another one begins a trace,
            and links to that of the peer, which then decides about no sampling. By default all are.
        baggage: Take in and send baggage too. Whoever connects decides what is in it.
        max_baggage_size: In bytes; more is dropped.
        system: ``rpc.system.name`` of calls of a Router; those of ttrpc's services have ``ttrpc``.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: ``max_baggage_size`` is less than 1.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        trusted: Callable[[Call], bool] | None = None,
        baggage: bool = False,
        max_baggage_size: int = _MAX_BAGGAGE,
        system: str = "rsocket",
    ) -> None:
        argument("trusted", trusted, optional(FUNCTION))
        argument("baggage", baggage, FLAG)
        argument("max_baggage_size", max_baggage_size, COUNT)
        argument("system", system, TEXT)
        self._tracer = get_tracer(_NAME, tracer_provider=tracer_provider)
        meter = get_meter(_NAME, meter_provider=meter_provider)
        self._durations = {
            kind: meter.create_histogram(
                f"rpc.{name}.call.duration",
                unit="s",
                description=text,
                explicit_bucket_boundaries_advisory=list(Histogram.bounds),
            )
            for kind, name, text in (
                (SpanKind.SERVER, "server", "How long calls took that were handled."),
                (SpanKind.CLIENT, "client", "How long calls took that were made."),
            )
        }
        self._trusted = trusted
        self._limits = {_PARENT: _MAX_PARENT, _STATE: _MAX_STATE}
        if baggage:
            self._limits[_BAG] = max_baggage_size
        self._system = system

    async def __call__(self, call: AnyCall) -> AsyncIterator[None]:
        """See `Middleware`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        began = call.began()
        template = call.template
        method = _OTHER if template is None else escaped(template) or str(call.interaction)
        facts: dict[str, Any] = {
            "rpc.system.name": "ttrpc" if hasattr(call, "pairs") else self._system,
            "rpc.method": method,
        }
        kind, within, links = SpanKind.CLIENT, None, []
        if isinstance(call, Call):
            kind = SpanKind.SERVER
            within = self._extracted(call)
            if self._trusted is not None and not self._trusted(call):
                theirs = get_current_span(within).get_span_context()
                links = [Link(theirs)] if theirs.is_valid else []
                within = contexts.Context()
        host, _, port = call.transport.peer.rpartition(":")
        peer: dict[str, Any] = {}
        if _is(port):
            peer = {"network.peer.address": host, "network.peer.port": int(port)}
        span = self._tracer.start_span(
            facts["rpc.system.name"] if method == _OTHER else method,
            within,
            kind,
            {**facts, **peer, "rsocket.interaction": str(call.interaction)},
            links,
        )
        inside = set_span_in_context(span, within)
        token = None
        if kind is SpanKind.SERVER:
            token = contexts.attach(inside)
        else:
            # Not attached: the block of a stream is around code of the caller, which may leave
            # the blocks of several streams in any order.
            self._inject(call, inside)
        try:
            yield
        finally:
            if token is not None:
                contexts.detach(token)
            if call.outcome is not Outcome.COMPLETED:
                facts["error.type"] = named = _named(call)
                span.set_attribute("error.type", named)
                is_fault = kind is SpanKind.CLIENT or not isinstance(call.error, StreamError)
                if call.outcome is Outcome.FAILED and is_fault:
                    span.set_status(StatusCode.ERROR)
            if call.interaction.is_stream:
                span.set_attribute("rsocket.items", call.items)
            self._durations[kind].record(trio.current_time() - began, facts, inside)
            span.end()

    def _extracted(self, call: Call) -> contexts.Context:
        """Return the context that the requester has sent; an empty one if there is none."""
        carrier = {}
        for name, value in _received(call, self._limits):
            if name in carrier:
                carrier[name] = ""  # which of the two is meant?
            elif len(value) <= self._limits[name]:
                carrier[name] = value
        for name, (members, at_most) in _MEMBERS.items():
            found = [each for each in carrier.get(name, "").split(",") if each.strip(" \t")]
            if found and (len(found) > at_most or not all(map(members.fullmatch, found))):
                del carrier[name]  # OpenTelemetry would log each of its faults
        within = _TRACE.extract(carrier, contexts.Context())
        return _BAGGAGE.extract(carrier, within) if carrier.get(_BAG) else within

    def _inject(self, call: AnyCall, within: contexts.Context) -> None:
        """Send the context along, where there is a place for it."""
        carrier: dict[str, str] = {}
        _TRACE.inject(carrier, within)
        if _BAG in self._limits:
            _BAGGAGE.inject(carrier, within)
        sent = {name: each for name, each in carrier.items() if len(each) <= self._limits[name]}
        if isinstance(call, OutgoingCall):
            if same_mime_type(call.requester.metadata_mime_type, MIME.COMPOSITE_METADATA):
                entries = [MetadataEntry(name, value.encode()) for name, value in sent.items()]
                extra = (*call.metadata.extra, *entries)
                call.metadata = attrs.evolve(call.metadata, extra=extra)
        else:
            ttrpc: Any = call
            ttrpc.pairs = (*ttrpc.pairs, *sent.items())


def _received(call: Call, wanted: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return what has come of trace context, in order."""
    pairs: Any = getattr(call, "pairs", None)
    try:
        if pairs is None:
            content = call.entry(METADATA_TYPE)  # a Router over ttrpc
            if content is not None:
                pairs = pairs_in(content)
            elif call.entry(_PARENT) is None and call.entry(_BAG) is None:
                return []
            else:
                pairs = [
                    (each.mime_type, each.content.decode("ascii"))
                    for each in call.metadata.extra
                    if each.mime_type in wanted
                ]
    except (StreamError, ValueError):
        return []  # it cannot be read, which the handler says
    return [
        # What is not printable is not valid; OpenTelemetry would log it as it is.
        (key.lower(), value if value.isascii() and value.isprintable() else "")
        for key, value in pairs
        if key.lower() in wanted
    ]


def _named(call: AnyCall) -> str:
    """Return what an attribute says of an error: no text of it."""
    if call.outcome is Outcome.CANCELLED or call.error is None:
        return "cancelled"
    if isinstance(call.error, StreamError):
        return code_name(call.error.code)
    return type(call.error).__qualname__


def _is(port: str) -> bool:
    return port.isascii() and port.isdigit()
