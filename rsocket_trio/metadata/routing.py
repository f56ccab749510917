"""Where a request goes: routing metadata (Routing.md), bare or in composite metadata."""

from __future__ import annotations

from functools import lru_cache

from ..config import DEFAULT_LIMITS, Limits
from ..errors import MetadataError, MetadataTooLarge
from .composite import CompositeMetadata, MetadataEntry
from .mime_types import MIME, same_mime_type

__all__ = ["decode_route", "encode_route", "find_route", "route_metadata"]


def encode_route(*tags: str) -> bytes:
    """Encode routing tags; the first one is what everybody calls the route.

    Raises:
        MetadataError: A tag is longer than 255 bytes of UTF-8, or cannot be encoded.
        TypeError: A tag is no str.
    """
    parts: list[bytes] = []
    for tag in tags:
        if not isinstance(tag, str):
            raise TypeError(f"a routing tag is a str, not {type(tag).__name__}")
        try:
            encoded = tag.encode()
        except UnicodeEncodeError:
            raise MetadataError(f"the routing tag {tag!a} cannot be written as UTF-8") from None
        if len(encoded) > 255:
            raise MetadataError(f"a routing tag has at most 255 bytes, not {len(encoded)}")
        parts += (bytes((len(encoded),)), encoded)
    return b"".join(parts)


def decode_route(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """Decode the tags of routing metadata; there may be none.

    Args:
        data: The content of routing metadata.
        limits: No more than ``max_routing_tags`` tags are read.

    Raises:
        MetadataError: The bytes end inside a tag, or a tag is not UTF-8.
        MetadataTooLarge: They are more tags than are read.
    """
    at_most = limits.max_routing_tags
    tags: list[str] = []
    offset = 0
    while offset < len(data):
        if len(tags) == at_most:
            raise MetadataTooLarge(f"more than {at_most} routing tags (max_routing_tags)")
        start = offset + 1
        offset = start + data[offset]
        if offset > len(data):
            raise MetadataError(f"the routing tag at byte {start} is cut short")
        try:
            tags.append(data[start:offset].decode())
        except UnicodeDecodeError:
            raise MetadataError(f"the routing tag at byte {start} is not UTF-8") from None
    return tuple(tags)


def route_metadata(
    route: str, mime_type: str = MIME.COMPOSITE_METADATA, metadata: bytes | None = None
) -> bytes:
    """Metadata for a request to ``route``.

    Args:
        route: The route, at most 255 bytes of UTF-8.
        mime_type: The connection's metadata MIME type.
        metadata: The request's other metadata, of the connection's metadata MIME type: for
            composite metadata its entries follow the route's.

    Raises:
        MetadataError: The connection's metadata MIME type has no place for a route, or none
            beside ``metadata``; or the route is too long.
    """
    encoded = _route_metadata(route, mime_type)
    if not metadata:
        return encoded
    if same_mime_type(mime_type, MIME.ROUTING):
        raise MetadataError(
            f"this connection's metadata is {MIME.ROUTING}: a request carries a route or other "
            f"metadata; connect with metadata_mime_type={MIME.COMPOSITE_METADATA!r} to send both"
        )
    return encoded + metadata


# Programs use few routes, and ask for them with each request.
@lru_cache(maxsize=256)
def _route_metadata(route: str, mime_type: str) -> bytes:
    content = encode_route(route)
    if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        return MetadataEntry(MIME.ROUTING, content).encode()
    if same_mime_type(mime_type, MIME.ROUTING):
        return content
    raise MetadataError(
        f"a route cannot be written as {mime_type!r}, this connection's metadata MIME type: "
        f"connect with metadata_mime_type={MIME.COMPOSITE_METADATA!r}, or leave the route out "
        "and write the metadata yourself"
    )


def find_route(
    metadata: bytes | None, mime_type: str, limits: Limits = DEFAULT_LIMITS
) -> tuple[str, ...] | None:
    """The routing tags in a request's metadata.

    Args:
        metadata: The request's metadata.
        mime_type: The connection's metadata MIME type.
        limits: How many entries and tags are read.

    Returns:
        The tags; ``None`` if there is no routing metadata.

    Raises:
        MetadataError: The metadata is damaged.
        MetadataTooLarge: There are more entries, or tags, than are read.
    """
    if metadata is None:
        return None
    content: bytes | None = None
    if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        content = CompositeMetadata.decode(metadata, limits).first(MIME.ROUTING)
    elif same_mime_type(mime_type, MIME.ROUTING):
        content = metadata
    return None if content is None else decode_route(content, limits)
