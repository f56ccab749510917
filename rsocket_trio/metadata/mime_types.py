"""MIME types that have a number: `WellKnownMimeType`, and the most used names: `MIME`.

The extensions encode a MIME type (and an authentication type) as one byte that is either a number,
with its high bit set, or the length of a string that follows. This module encodes and decodes that
form. CompositeMetadata.md says that the seven bits are the length, but gives its range as 1 to 128,
which does not fit seven bits. All implementations store the length minus one; so does this one.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, Self, TypeAlias

from ..errors import MetadataError

__all__ = [
    "MIME",
    "IdOrName",
    "WellKnownMimeType",
    "check_mime_name",
    "check_mime_type",
    "decode_mime_type",
    "encode_mime_type",
    "mime_type_name",
    "same_mime_type",
]

IdOrName: TypeAlias = str | int
"""The name of a type; or its number, if the number is not assigned to a name."""

WELL_KNOWN_BIT: Final = 0x80
"""The high bit of the first byte: the other bits are a number, not the length of a name."""

MAX_NUMBER: Final = 0x7F
_MAX_NAME_SIZE: Final = 128

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MIME_TYPE: Final = re.compile(rf"{_TOKEN}/{_TOKEN}(\s*;[\x20-\x7e]*)?")
"""Type, subtype and maybe parameters (RFC 2045, section 5.1)."""


class WellKnownMimeType(Enum):
    """The table of WellKnownMimeTypes.md. The value of a member is its id.

    Attributes:
        id: The number that is sent for the type, 0 to 127.
        mime_type: The type's name, e.g. ``application/json``.
    """

    AVRO = 0x00, "application/avro"
    CBOR = 0x01, "application/cbor"
    GRAPHQL = 0x02, "application/graphql"
    GZIP = 0x03, "application/gzip"
    JAVASCRIPT = 0x04, "application/javascript"
    JSON = 0x05, "application/json"
    OCTET_STREAM = 0x06, "application/octet-stream"
    PDF = 0x07, "application/pdf"
    THRIFT_BINARY = 0x08, "application/vnd.apache.thrift.binary"
    PROTOBUF = 0x09, "application/vnd.google.protobuf"
    XML = 0x0A, "application/xml"
    ZIP = 0x0B, "application/zip"
    AUDIO_AAC = 0x0C, "audio/aac"
    AUDIO_MP3 = 0x0D, "audio/mp3"
    AUDIO_MP4 = 0x0E, "audio/mp4"
    AUDIO_MPEG3 = 0x0F, "audio/mpeg3"
    AUDIO_MPEG = 0x10, "audio/mpeg"
    AUDIO_OGG = 0x11, "audio/ogg"
    AUDIO_OPUS = 0x12, "audio/opus"
    AUDIO_VORBIS = 0x13, "audio/vorbis"
    IMAGE_BMP = 0x14, "image/bmp"
    IMAGE_GIF = 0x15, "image/gif"
    IMAGE_HEIC_SEQUENCE = 0x16, "image/heic-sequence"
    IMAGE_HEIC = 0x17, "image/heic"
    IMAGE_HEIF_SEQUENCE = 0x18, "image/heif-sequence"
    IMAGE_HEIF = 0x19, "image/heif"
    IMAGE_JPEG = 0x1A, "image/jpeg"
    IMAGE_PNG = 0x1B, "image/png"
    IMAGE_TIFF = 0x1C, "image/tiff"
    MULTIPART_MIXED = 0x1D, "multipart/mixed"
    TEXT_CSS = 0x1E, "text/css"
    TEXT_CSV = 0x1F, "text/csv"
    TEXT_HTML = 0x20, "text/html"
    TEXT_PLAIN = 0x21, "text/plain"
    TEXT_XML = 0x22, "text/xml"
    VIDEO_H264 = 0x23, "video/H264"
    VIDEO_H265 = 0x24, "video/H265"
    VIDEO_VP8 = 0x25, "video/VP8"
    HESSIAN = 0x26, "application/x-hessian"
    JAVA_OBJECT = 0x27, "application/x-java-object"
    CLOUDEVENTS_JSON = 0x28, "application/cloudevents+json"
    CAPNP = 0x29, "application/x-capnp"
    FLATBUFFERS = 0x2A, "application/x-flatbuffers"
    RSOCKET_MIME_TYPE = 0x7A, "message/x.rsocket.mime-type.v0"
    RSOCKET_ACCEPT_MIME_TYPES = 0x7B, "message/x.rsocket.accept-mime-types.v0"
    RSOCKET_AUTHENTICATION = 0x7C, "message/x.rsocket.authentication.v0"
    RSOCKET_TRACING_ZIPKIN = 0x7D, "message/x.rsocket.tracing-zipkin.v0"
    RSOCKET_ROUTING = 0x7E, "message/x.rsocket.routing.v0"
    RSOCKET_COMPOSITE_METADATA = 0x7F, "message/x.rsocket.composite-metadata.v0"

    id: int
    mime_type: str

    def __new__(cls, number: int, mime_type: str) -> Self:
        """Make a member whose value is its id."""
        member = object.__new__(cls)
        member._value_ = member.id = number
        member.mime_type = mime_type
        return member

    @classmethod
    def from_name(cls, mime_type: str) -> WellKnownMimeType | None:
        """Return the member of that name (any case), or ``None``: then the name itself is sent."""
        return _BY_NAME.get(mime_type.lower())


_BY_ID: Final = {member.id: member.mime_type for member in WellKnownMimeType}
_BY_NAME: Final = {member.mime_type.lower(): member for member in WellKnownMimeType}


class MIME:
    """Names of the types that RSocket programs use most."""

    CBOR: Final = "application/cbor"
    JSON: Final = "application/json"
    OCTET_STREAM: Final = "application/octet-stream"
    TEXT: Final = "text/plain"
    COMPOSITE_METADATA: Final = "message/x.rsocket.composite-metadata.v0"
    ROUTING: Final = "message/x.rsocket.routing.v0"
    AUTHENTICATION: Final = "message/x.rsocket.authentication.v0"
    TRACING_ZIPKIN: Final = "message/x.rsocket.tracing-zipkin.v0"
    MIME_TYPE: Final = "message/x.rsocket.mime-type.v0"
    ACCEPT_MIME_TYPES: Final = "message/x.rsocket.accept-mime-types.v0"


def check_mime_name(mime_type: object, name: str) -> str:
    """Check the name of a MIME type that is sent to a peer, as in a SETUP.

    It may be any text: the specification says only that it SHOULD be a MIME type, and peers may
    have names of their own.

    Args:
        mime_type: The MIME type.
        name: The name of the argument, for the error.

    Raises:
        TypeError: It is not a str.
    """
    if not isinstance(mime_type, str):
        raise TypeError(f"{name} must be a str, not {type(mime_type).__name__}")
    return mime_type


def check_mime_type(mime_type: object, name: str) -> str:
    """Check a MIME type that no peer decides about: it chooses a codec.

    Args:
        mime_type: The MIME type.
        name: The name of the argument, for the error.

    Raises:
        TypeError: It is not a str.
        ValueError: It is not of the form ``type/subtype``.
    """
    mime_type = check_mime_name(mime_type, name)
    if not _MIME_TYPE.fullmatch(mime_type):
        raise ValueError(
            f'{name} must be a MIME type, such as "{MIME.JSON}" or "{MIME.TEXT}", not '
            f"{mime_type[:100]!a}"
        )
    return mime_type


def same_mime_type(one: IdOrName, other: IdOrName) -> bool:
    """Return whether both are the same type. Case does not matter, parameters do."""
    if one == other:
        return True
    return isinstance(one, str) and isinstance(other, str) and one.lower() == other.lower()


def mime_type_name(mime_type: IdOrName) -> str:
    """Return a type as text: its name, or its number in hexadecimal."""
    return mime_type if isinstance(mime_type, str) else f"0x{mime_type:02x}"


def encode_mime_type(mime_type: IdOrName) -> bytes:
    """Encode a MIME type as its number if it has one, else as its name.

    Raises:
        MetadataError: The number is not 0 to 127, or the name is not 1 to 128 ASCII characters.
    """
    if isinstance(mime_type, str) and (known := WellKnownMimeType.from_name(mime_type)):
        mime_type = known.id
    return encode_id_or_name(mime_type, "MIME type")


def decode_mime_type(data: bytes, offset: int = 0) -> tuple[IdOrName, int]:
    """Decode the MIME type at ``offset``.

    Returns:
        Its name, or its number if it is not assigned to a name; and the offset behind it.

    Raises:
        MetadataError: The bytes end too soon, or the name is not ASCII.
    """
    value, offset = decode_id_or_name(data, offset, "MIME type")
    return (value if isinstance(value, str) else _BY_ID.get(value, value)), offset


def encode_id_or_name(value: IdOrName, what: str) -> bytes:
    """Encode a number (0 to 127), or a name as its length minus one and its characters."""
    if isinstance(value, int):
        if not 0 <= value <= MAX_NUMBER:
            raise MetadataError(f"the id of a {what} must be 0 to 127, not {value}")
        return bytes((WELL_KNOWN_BIT | value,))
    if not value.isascii() or not 0 < len(value) <= _MAX_NAME_SIZE:
        raise MetadataError(
            f"a {what} must be 1 to {_MAX_NAME_SIZE} ASCII characters, not {value!r}"
        )
    return bytes((len(value) - 1,)) + value.encode("ascii")


def decode_id_or_name(data: bytes, offset: int, what: str) -> tuple[IdOrName, int]:
    """Decode a number or a name at ``offset``; return it and the offset behind it."""
    if offset >= len(data):
        raise MetadataError(f"a {what} is missing at byte {offset}")
    first = data[offset]
    offset += 1
    if first & WELL_KNOWN_BIT:
        return first & ~WELL_KNOWN_BIT, offset
    end = offset + first + 1
    if end > len(data):
        raise MetadataError(f"a {what} of {first + 1} bytes at byte {offset} is cut off")
    try:
        return data[offset:end].decode("ascii"), end
    except UnicodeDecodeError:
        raise MetadataError(f"the {what} at byte {offset} is not ASCII") from None
