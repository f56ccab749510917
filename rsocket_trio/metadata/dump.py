"""Metadata as readable values, and without secrets: `as_fields`, `describe`, `masked`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..config import DEFAULT_LIMITS
from ..errors import MetadataError
from .authentication import CustomAuthentication, SimpleAuthentication, decode_authentication
from .composite import CompositeMetadata, entry_positions
from .data_mime_types import AcceptMimeTypes, DataMimeType
from .mime_types import MIME, decode_mime_type, mime_type_name, same_mime_type
from .routing import decode_route
from .tracing_zipkin import ZipkinTrace

__all__ = ["MASK", "as_fields", "describe", "masked"]

MASK: Final = b"*"


def as_fields(metadata: bytes, mime_type: str) -> list[dict[str, object]]:
    """Return the entries of metadata as plain values, suitable for JSON. Never raises.

    Args:
        metadata: The metadata of a frame.
        mime_type: The connection's metadata MIME type.

    Returns:
        For each entry its ``mime`` type, and what is in it: ``route`` and ``tags``; ``auth``, the
        type of authentication, without the secret; ``data_mime``; ``accept``; the ids and
        ``sampling`` of a trace; else ``text``, or ``hex`` if it is not UTF-8. What cannot be read
        is an entry with ``error``, and of composite metadata the last one.
    """
    if not same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        return [_entry(mime_type, metadata)]
    found: list[dict[str, object]] = []
    try:
        for entry in CompositeMetadata.decode(metadata):
            found.append(_entry(mime_type_name(entry.mime_type), entry.content))  # noqa: PERF401
    except MetadataError as error:
        found.append({"error": str(error)})
    return found


def _entry(name: str, content: bytes) -> dict[str, object]:
    fields: dict[str, object] = {"mime": name}
    try:
        fields |= _KNOWN[name.lower()](content) if name.lower() in _KNOWN else _text(content)
    except MetadataError as error:
        fields["error"] = str(error)
    return fields


def _text(content: bytes) -> dict[str, object]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"hex": content.hex()}


def _route(content: bytes) -> dict[str, object]:
    route, *tags = decode_route(content) or (None,)
    return {"route": route, "tags": tags}


def _authentication(content: bytes) -> dict[str, object]:
    found = decode_authentication(content)
    if isinstance(found, SimpleAuthentication):
        return {"auth": "simple", "username": found.username}
    if isinstance(found, CustomAuthentication):
        return {"auth": mime_type_name(found.auth_type)}
    return {"auth": "bearer"}


def _data_mime(content: bytes) -> dict[str, object]:
    return {"data_mime": mime_type_name(DataMimeType.decode(content).mime_type)}


def _accept(content: bytes) -> dict[str, object]:
    return {"accept": [mime_type_name(each) for each in AcceptMimeTypes.decode(content).mime_types]}


def _trace(content: bytes) -> dict[str, object]:
    trace = ZipkinTrace.decode(content)
    ids = {"trace_id": trace.trace_id, "span_id": trace.span_id, "parent_id": trace.parent_id}
    shown = {name: each.hex() for name, each in ids.items() if each is not None}
    return {**shown, "sampling": trace.sampling.name.lower()}


_KNOWN: Final = {
    MIME.ROUTING: _route,
    MIME.AUTHENTICATION: _authentication,
    MIME.MIME_TYPE: _data_mime,
    MIME.ACCEPT_MIME_TYPES: _accept,
    MIME.TRACING_ZIPKIN: _trace,
}


def describe(metadata: bytes, mime_type: str) -> str:
    """Return the entries of metadata as words for a line of a log. Never raises.

    Of types that this package does not know only the size is shown: they may hold credentials.
    """
    return " ".join(_words(as_fields(metadata, mime_type)))


def _words(entries: list[dict[str, object]]) -> Iterator[str]:
    for entry in entries:
        name = entry.pop("mime", "metadata")
        if "text" in entry or "hex" in entry:
            size = len(str(entry["text"]).encode()) if "text" in entry else None
            size = len(str(entry["hex"])) // 2 if size is None else size
            yield f"{name}={size} bytes"
        elif "error" in entry:
            yield f"{name}=malformed ({entry['error']})"
        else:
            yield from (
                f"{key}={value!r}" for key, value in entry.items() if value not in ([], None)
            )


def masked(metadata: bytes, mime_type: str) -> bytes:
    """Return metadata of the same size with ``*`` in place of passwords and tokens.

    Where the entries of composite metadata are cut off or cannot be read, all the rest is masked.
    """
    if same_mime_type(mime_type, MIME.AUTHENTICATION):
        return _without_secret(metadata)
    if not same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        return metadata
    parts: list[bytes] = []
    done = 0
    try:
        for at, content, end in entry_positions(metadata, DEFAULT_LIMITS.max_metadata_entries):
            name, _ = decode_mime_type(metadata, at)
            secret = same_mime_type(name, MIME.AUTHENTICATION)
            body = metadata[content:end]
            parts += (metadata[at:content], _without_secret(body) if secret else body)
            done = end
    except MetadataError:
        pass  # the rest is masked
    return b"".join(parts) + MASK * (len(metadata) - done)


def _without_secret(content: bytes) -> bytes:
    try:
        found = decode_authentication(content)
    except MetadataError:
        return MASK * len(content)
    if isinstance(found, SimpleAuthentication):
        secret = found.password.encode()
    elif isinstance(found, CustomAuthentication):
        secret = found.payload
    else:
        secret = found.token.encode()
    return content[: len(content) - len(secret)] + MASK * len(secret)
