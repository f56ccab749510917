"""The route of a request: routing metadata (Routing.md), alone or in composite metadata."""

from __future__ import annotations

from functools import lru_cache

from ..config import DEFAULT_LIMITS, Limits
from ..errors import MetadataError, MetadataTooLarge
from ..field_checks import TEXT, argument
from .composite import CompositeMetadata, MetadataEntry
from .mime_types import MIME, same_mime_type

__all__ = ["decode_route", "encode_route", "find_route", "route_metadata"]


def encode_route(*tags: str) -> bytes:
    """Encode routing tags; the first one is the route.

    Raises:
        MetadataError: A tag is longer than 255 bytes of UTF-8, or cannot be encoded.
        TypeError: A tag is not a str.
    """
    parts: list[bytes] = []
    for tag in tags:
        if not isinstance(tag, str):
            raise TypeError(f"a routing tag must be a str, not {type(tag).__name__}")
        try:
            encoded = tag.encode()
        except UnicodeEncodeError:
            raise MetadataError(f"the routing tag {tag!a} cannot be encoded as UTF-8") from None
        if len(encoded) > 255:
            raise MetadataError(f"a routing tag must have at most 255 bytes, not {len(encoded)}")
        parts += (bytes((len(encoded),)), encoded)
    return b"".join(parts)


def decode_route(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """Decode the tags of routing metadata; there may be none.

    Args:
        data: The content of routing metadata.
        limits: At most ``max_routing_tags`` tags are read.

    Raises:
        MetadataError: The bytes end inside a tag, or a tag is not UTF-8.
        MetadataTooLarge: There are more tags than the limit allows.
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
            raise MetadataError(f"the routing tag at byte {start} is cut off")
        try:
            tags.append(data[start:offset].decode())
        except UnicodeDecodeError:
            raise MetadataError(f"the routing tag at byte {start} is not UTF-8") from None
    return tuple(tags)


def route_metadata(
    route: str, mime_type: str = MIME.COMPOSITE_METADATA, *, more: bytes | None = None
) -> bytes:
    """Encode the metadata of a request to ``route``.

    Args:
        route: The route, at most 255 bytes of UTF-8.
        mime_type: The connection's metadata MIME type.
        more: Encoded metadata of that MIME type, to be added behind.

    Raises:
        TypeError: The route is not text.
        MetadataError: The connection's metadata MIME type has no place for a route, or no place for
            both a route and ``more``; or the route is too long.
    """
    if type(route) is not str:
        argument("route", route, TEXT)
    encoded = _route_metadata(route, mime_type)
    if not more:
        return encoded
    if same_mime_type(mime_type, MIME.ROUTING):
        raise MetadataError(
            f"this connection's metadata MIME type is {MIME.ROUTING!r}, so a request carries a "
            "route or other metadata, not both: to send both, connect with metadata_mime_type="
            f"{MIME.COMPOSITE_METADATA!r}"
        )
    return encoded + more


# Cached, as programs use few routes, each for many requests.
@lru_cache(maxsize=256)
def _route_metadata(route: str, mime_type: str) -> bytes:
    content = encode_route(route)
    if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        return MetadataEntry(MIME.ROUTING, content).encode()
    if same_mime_type(mime_type, MIME.ROUTING):
        return content
    raise MetadataError(
        f"a route cannot be sent as {mime_type!r}, this connection's metadata MIME type: "
        f"connect with metadata_mime_type={MIME.COMPOSITE_METADATA!r}, or leave the route out "
        "and encode the metadata yourself"
    )


def find_route(
    metadata: bytes | None, mime_type: str, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[str, ...] | None:
    """Return the routing tags in a request's metadata.

    Args:
        metadata: The request's metadata.
        mime_type: The connection's metadata MIME type.
        limits: How many entries and tags are read.

    Returns:
        The tags; ``None`` if there is no routing metadata.

    Raises:
        MetadataError: The metadata is not valid.
        MetadataTooLarge: There are more entries or tags than the limits allow.
    """
    if metadata is None:
        return None
    content: bytes | None = None
    if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        content = CompositeMetadata.decode(metadata, limits=limits).first(MIME.ROUTING)
    elif same_mime_type(mime_type, MIME.ROUTING):
        content = metadata
    return None if content is None else decode_route(content, limits=limits)
