"""What the arguments of a request come to: its metadata, and its demand."""

from __future__ import annotations

import attrs

from .config import ConnectionConfig
from .errors import LocalProtocolError
from .metadata.builder import Metadata
from .metadata.mime_types import MIME, same_mime_type
from .metadata.routing import route_metadata
from .metadata.tracing_zipkin import ZipkinTracing
from .payload import Payload
from .protocol.credit import Window
from .streamed import AnyPayload, StreamedPayload

__all__ = ["payload_for", "window_for"]


def payload_for(
    payload: AnyPayload,
    route: str | None,
    metadata: Metadata | None,
    mime_type: str,
    trace: ZipkinTracing | None,
) -> AnyPayload:
    """The payload with all that the call, and the trace, add to its metadata.

    Args:
        payload: As given.
        route: Put in front of its metadata.
        metadata: Likewise, behind the route.
        mime_type: The connection's metadata MIME type.
        trace: Of what is being answered; for composite metadata that names no other.

    Raises:
        TypeError: It is no payload, or ``metadata`` is no `Metadata`.
        MetadataError: The metadata MIME type has no place for what is to be added.
        LocalProtocolError: The route is given twice.
    """
    if trace is not None and same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        metadata = Metadata() if metadata is None else metadata
        if metadata.trace is None:
            metadata = attrs.evolve(metadata, trace=trace)
    if not isinstance(payload, Payload | StreamedPayload):
        raise TypeError(f"a Payload is needed, not {type(payload).__name__}")
    encoded = payload.metadata
    if metadata is not None:
        if not isinstance(metadata, Metadata):
            raise TypeError(
                f"metadata= takes a Metadata, not {type(metadata).__name__}; bytes that are "
                "encoded already go into the Payload"
            )
        if route is not None:
            if metadata.route is not None:
                raise LocalProtocolError("the route is given twice: route= and metadata.route")
            metadata = attrs.evolve(metadata, route=route)
        encoded = metadata.encode(mime_type, encoded)
    elif route is not None:
        encoded = route_metadata(route, mime_type, encoded)
    if isinstance(payload, StreamedPayload):
        return StreamedPayload(payload.data, encoded)
    return Payload(payload.data, encoded)


def window_for(
    config: ConnectionConfig, prefetch: int | None, initial_request_n: int | None
) -> Window:
    """The window a stream is opened with.

    Args:
        config: Of the connection: its prefetch, and its limit.
        prefetch: As given; ``None`` is the connection's.
        initial_request_n: As given, for manual demand.

    Raises:
        LocalProtocolError: The demand makes no sense, or goes beyond `Limits.max_prefetch`.
    """
    limit = config.limits.max_prefetch
    if prefetch is None:
        prefetch = config.prefetch
    if not 0 <= prefetch <= limit:
        raise LocalProtocolError(
            f"prefetch must be 0 to {limit} (Limits.max_prefetch), not {prefetch}"
        )
    if initial_request_n is None:
        return Window(prefetch)
    if prefetch:
        raise LocalProtocolError(
            "initial_request_n goes with prefetch=0; automatic demand begins with prefetch"
        )
    if not 1 <= initial_request_n <= limit:
        raise LocalProtocolError(
            f"initial_request_n must be 1 to {limit} (Limits.max_prefetch), not {initial_request_n}"
        )
    return Window(0, initial=initial_request_n)
