"""All kinds of metadata in one object: `Metadata`, for writing and for reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

import attrs

from ..config import DEFAULT_LIMITS, Limits
from ..errors import MetadataError
from ..field_checks import instance_of, listed
from .authentication import (
    Authentication,
    BearerAuthentication,
    CustomAuthentication,
    SimpleAuthentication,
    decode_authentication,
)
from .composite import CompositeMetadata, MetadataEntry
from .data_mime_types import AcceptMimeTypes, DataMimeType
from .mime_types import MIME, IdOrName, same_mime_type
from .routing import decode_route, encode_route
from .tracing_zipkin import ZipkinTrace

__all__ = ["ExtraEntry", "Metadata"]

ExtraEntry: TypeAlias = MetadataEntry | tuple[IdOrName, bytes]
"""An entry of any type: a `MetadataEntry`, or its MIME type and its content."""


def _types(mime_types: Iterable[IdOrName]) -> tuple[IdOrName, ...]:
    if isinstance(mime_types, str):  # one type; iterating it would give its letters
        return (mime_types,)
    return listed("Metadata.accept", mime_types, str, int)


def _entries(extra: Iterable[ExtraEntry]) -> tuple[MetadataEntry, ...]:
    entries = listed("Metadata.extra", extra, MetadataEntry, tuple)
    return tuple([e if isinstance(e, MetadataEntry) else MetadataEntry(*e) for e in entries])


def _tags(tags: Iterable[str]) -> tuple[str, ...]:
    return (tags,) if isinstance(tags, str) else listed("Metadata.tags", tags, str)


@attrs.frozen(kw_only=True)
class Metadata:
    """The contents of the metadata of a request, a SETUP or a response.

    ``repr`` does not show passwords, tokens or the content of entries of other types.

    Attributes:
        route: The route of a request.
        tags: Further routing tags.
        auth: The credentials of the sender.
        trace: The trace, and the span in it.
        data_mime_type: The MIME type of the payload's data, if it is not the connection's.
        accept: The MIME types a requester would like its answer in, best first.
        extra: Entries of other types, in order; you may give pairs of MIME type and bytes. In
            received metadata, also repeated entries of the types above.
    """

    route: str | None = attrs.field(default=None, validator=instance_of(str, none=True))
    tags: tuple[str, ...] = attrs.field(default=(), converter=_tags)
    auth: Authentication | None = attrs.field(
        default=None,
        validator=instance_of(
            SimpleAuthentication, BearerAuthentication, CustomAuthentication, none=True
        ),
    )
    trace: ZipkinTrace | None = attrs.field(
        default=None, validator=instance_of(ZipkinTrace, none=True)
    )
    data_mime_type: IdOrName | None = attrs.field(
        default=None, validator=instance_of(str, int, none=True)
    )
    accept: tuple[IdOrName, ...] = attrs.field(default=(), converter=_types)
    extra: tuple[MetadataEntry, ...] = attrs.field(default=(), converter=_entries)

    def entries(self) -> Iterator[MetadataEntry]:
        """Yield the entries of composite metadata for this object, the route first.

        Raises:
            MetadataError: A value cannot be encoded, or there are tags without a route.
        """
        if self.route is not None:
            yield MetadataEntry(MIME.ROUTING, encode_route(self.route, *self.tags))
        elif self.tags:
            raise MetadataError("there are routing tags, but no route: set route= too")
        if self.auth is not None:
            yield MetadataEntry(MIME.AUTHENTICATION, self.auth.encode())
        if self.trace is not None:
            yield MetadataEntry(MIME.TRACING_ZIPKIN, self.trace.encode())
        if self.data_mime_type is not None:
            yield MetadataEntry(MIME.MIME_TYPE, DataMimeType(self.data_mime_type).encode())
        if self.accept:
            yield MetadataEntry(MIME.ACCEPT_MIME_TYPES, AcceptMimeTypes(self.accept).encode())
        yield from self.extra

    def encode(
        self, mime_type: str = MIME.COMPOSITE_METADATA, *, more: bytes | None = None
    ) -> bytes | None:
        """Encode as metadata of a connection.

        Args:
            mime_type: The connection's metadata MIME type. A type other than composite metadata
                has room for one entry only, of that type.
            more: Encoded metadata of that MIME type, to be added behind.

        Returns:
            The bytes; ``more`` if there are no entries.

        Raises:
            MetadataError: A value cannot be encoded, or not as this MIME type.
        """
        if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
            encoded = self._composite
            return encoded + (more or b"") if encoded else more
        entries = list(self.entries())
        if not entries:
            return more
        if len(entries) == 1 and not more and same_mime_type(entries[0].mime_type, mime_type):
            return entries[0].content
        what = " and ".join(dict.fromkeys(str(entry.mime_type) for entry in entries))
        beside = " together with the payload's metadata" if more else ""
        raise MetadataError(
            f"{what} cannot be sent{beside} as {mime_type!r}, this connection's metadata MIME "
            f"type: connect with metadata_mime_type={MIME.COMPOSITE_METADATA!r}"
        )

    @cached_property
    def _composite(self) -> bytes:
        """The entries as composite metadata: one object may be sent with each of many requests."""
        return b"".join([entry.encode() for entry in self.entries()])

    @classmethod
    def decode(
        cls,
        data: bytes | None,
        mime_type: str = MIME.COMPOSITE_METADATA,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Metadata:
        """Decode received metadata.

        Args:
            data: The bytes; ``None`` if there is no metadata.
            mime_type: The connection's metadata MIME type.
            limits: How many entries, routing tags and accepted types are read.

        Raises:
            MetadataError: The metadata, or an entry of a type above, are not valid. The error text
                does not contain any secret.
            MetadataTooLarge: There are more entries, tags or types than the limits allow.
        """
        if data is None:
            return cls()
        if not same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
            return _read([MetadataEntry(mime_type, data)], limits)
        return _read(CompositeMetadata.decode(data, limits=limits), limits)


def _read(entries: Iterable[MetadataEntry], limits: Limits) -> Metadata:
    route: tuple[str, ...] = ()
    auth: Authentication | None = None
    trace: ZipkinTrace | None = None
    data_mime_type: IdOrName | None = None
    accept: tuple[IdOrName, ...] = ()
    extra: list[MetadataEntry] = []
    seen: set[IdOrName] = set()
    empty: dict[IdOrName, MetadataEntry] = {}
    for entry in entries:
        name = entry.mime_type.lower() if isinstance(entry.mime_type, str) else entry.mime_type
        content = entry.content
        if name in seen:
            # The first entry is the one that counts, also if there is nothing in it. Without it,
            # this one would count once the metadata are encoded again, by a proxy perhaps.
            if name in empty:
                extra.append(empty.pop(name))
            extra.append(entry)
            continue
        match name:
            case MIME.ROUTING:
                route = decode_route(content, limits=limits)
            case MIME.AUTHENTICATION:
                auth = decode_authentication(content)
            case MIME.TRACING_ZIPKIN:
                trace = ZipkinTrace.decode(content)
            case MIME.MIME_TYPE:
                data_mime_type = DataMimeType.decode(content).mime_type
            case MIME.ACCEPT_MIME_TYPES:
                accept = AcceptMimeTypes.decode(content, limits=limits).mime_types
            case _:
                extra.append(entry)
                continue
        seen.add(name)
        if not content:
            empty[name] = entry
    return Metadata(
        route=route[0] if route else None,
        tags=route[1:],
        auth=auth,
        trace=trace,
        data_mime_type=data_mime_type,
        accept=accept,
        extra=tuple(extra),
    )
