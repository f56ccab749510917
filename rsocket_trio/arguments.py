"""Turn the arguments of a request into its payload and its window of demand."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping

import attrs

from .config import ConnectionConfig
from .connection.sendable import not_sendable
from .errors import LocalProtocolError, RSocketError, never_sent
from .field_checks import argument, instance_of
from .metadata.builder import Metadata
from .metadata.mime_types import MIME, same_mime_type
from .metadata.routing import route_metadata
from .metadata.tracing_zipkin import ZipkinTrace
from .payload import Payload
from .protocol.credit import Window
from .reactive_streams.interfaces import Publisher
from .streamed import AnyPayload, StreamedPayload

__all__ = ["check_source", "payload_for", "window_for"]


def payload_for(
    payload: AnyPayload,
    route: str | None,
    metadata: Metadata | None,
    mime_type: str,
    trace: ZipkinTrace | None,
) -> AnyPayload:
    """Return the payload with route, metadata and trace added to its metadata.

    Args:
        payload: The payload the caller gave.
        route: Added in front of the payload's metadata.
        metadata: Added between the route and the payload's metadata.
        mime_type: The connection's metadata MIME type.
        trace: The trace of the request being answered. It is added to composite metadata that
            has no other trace.

    Raises:
        TypeError: ``payload`` is not a payload, or has metadata that are not bytes; or ``metadata``
            is not a `Metadata`.
        MetadataError: The metadata MIME type has no place for the addition.
        LocalProtocolError: The route is given twice.
    """
    if trace is not None and same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        metadata = Metadata() if metadata is None else metadata
        if metadata.trace is None:
            metadata = attrs.evolve(metadata, trace=trace)
    if type(payload) is not Payload and not isinstance(payload, Payload | StreamedPayload):
        raise TypeError(f"a Payload is needed, not {type(payload).__name__}")
    encoded = payload.metadata
    if encoded is not None and type(encoded) is not bytes:
        raise not_sendable(payload)
    try:
        if metadata is not None:
            if not isinstance(metadata, Metadata):
                raise TypeError(
                    f"metadata= takes a Metadata, not {type(metadata).__name__}; pass encoded "
                    "metadata as the metadata of the Payload"
                )
            if route is not None:
                if metadata.route is not None:
                    raise LocalProtocolError(
                        "the route is given twice, by route= and by metadata.route: give it once"
                    )
                if metadata.tags:  # they are in the entry of the route
                    metadata, route = attrs.evolve(metadata, route=route), None
            encoded = metadata.encode(mime_type, more=encoded)
        if route is not None:
            encoded = route_metadata(route, mime_type, more=encoded)
    except RSocketError as error:
        never_sent(error)
        raise
    if isinstance(payload, StreamedPayload):
        return StreamedPayload(payload.data, encoded)
    return Payload(payload.data, encoded)


def check_source(name: str, source: object, items: str) -> None:
    """Check the source of a channel before the channel is opened.

    Args:
        name: The name of the argument.
        source: Its value. Text, bytes and mappings are refused: their items are hardly meant.
        items: What its items have to be, for the text of the error.

    Raises:
        TypeError: It has no items.
    """
    if not isinstance(source, AsyncIterable | Publisher | Iterable) or isinstance(
        source, str | bytes | bytearray | memoryview | Mapping
    ):
        raise TypeError(
            f"{name} must be an iterable of {items}, asynchronous or not, or a Publisher, not "
            f"{type(source).__name__}"
        )


def window_for(
    config: ConnectionConfig, prefetch: int | None, initial_request_n: int | None
) -> Window:
    """Return the window a stream opens with.

    Args:
        config: The connection's settings: default prefetch, and limit.
        prefetch: The caller's prefetch; ``None`` takes the connection's.
        initial_request_n: The caller's first credit, for manual demand.

    Raises:
        LocalProtocolError: The two do not go together, or one is out of range
            (`Limits.max_prefetch`).
        TypeError: One is no whole number.
    """
    limit = config.limits.max_prefetch
    if prefetch is None:
        prefetch = config.prefetch
    elif type(prefetch) is not int:
        argument("prefetch", prefetch, instance_of(int, none=True))
    if not 0 <= prefetch <= limit:
        raise LocalProtocolError(
            f"prefetch must be 0 to {limit} (Limits.max_prefetch), not {prefetch}"
        )
    if initial_request_n is None:
        return Window(prefetch)
    if type(initial_request_n) is not int:
        argument("initial_request_n", initial_request_n, instance_of(int, none=True))
    if prefetch:
        raise LocalProtocolError(
            "initial_request_n= needs prefetch=0 (manual demand); with automatic demand the "
            "first credit is the prefetch"
        )
    if not 1 <= initial_request_n <= limit:
        raise LocalProtocolError(
            f"initial_request_n must be 1 to {limit} (Limits.max_prefetch), not {initial_request_n}"
        )
    return Window(0, initial=initial_request_n)
