"""The MIME type of one stream's data (PerStreamDataMimeTypesDefinition.md).

Both are entries of composite metadata. `DataMimeType` replaces the MIME type of the connection's
SETUP for the data of one request, or of a response. `AcceptMimeTypes` lists the types that the
requester would like for the response; the responder may ignore them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from ..config import DEFAULT_LIMITS, Limits
from ..errors import MetadataError, MetadataTooLarge
from .mime_types import IdOrName, decode_mime_type, encode_mime_type

__all__ = ["AcceptMimeTypes", "DataMimeType", "each_mime_type"]


@attrs.frozen
class DataMimeType:
    """The MIME type of the payload's data.

    Attributes:
        mime_type: The type's name; its number, if the number is not assigned to a name.
    """

    mime_type: IdOrName

    def encode(self) -> bytes:
        """Encode as the content of a mime-type entry.

        Raises:
            MetadataError: The MIME type cannot be encoded.
        """
        return encode_mime_type(self.mime_type)

    @classmethod
    def decode(cls, data: bytes) -> DataMimeType:
        """Decode the content of a mime-type entry.

        Raises:
            MetadataError: The content is not exactly one MIME type.
        """
        mime_type, end = decode_mime_type(data)
        if end != len(data):
            raise MetadataError(
                f"{len(data) - end} bytes follow the MIME type; a mime-type entry has only one type"
            )
        return cls(mime_type)


def _in_order(mime_types: Iterable[IdOrName]) -> tuple[IdOrName, ...]:
    return tuple(mime_types)


@attrs.frozen
class AcceptMimeTypes:
    """The MIME types a requester would like its answer in.

    Attributes:
        mime_types: The names of the types, in order; numbers that are not assigned to a name.
    """

    mime_types: tuple[IdOrName, ...] = attrs.field(converter=_in_order)

    def encode(self) -> bytes:
        """Encode as the content of an accept-mime-types entry.

        Raises:
            MetadataError: One of the MIME types cannot be encoded.
        """
        return b"".join([encode_mime_type(mime_type) for mime_type in self.mime_types])

    @classmethod
    def decode(cls, data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> AcceptMimeTypes:
        """Decode the content of an accept-mime-types entry.

        Args:
            data: The content.
            limits: At most ``max_accept_types`` types are read.

        Raises:
            MetadataError: The bytes end inside a MIME type, or one is not ASCII.
            MetadataTooLarge: There are more types than the limit allows.
        """
        at_most = limits.max_accept_types
        mime_types: list[IdOrName] = []
        for mime_type in each_mime_type(data):
            if len(mime_types) == at_most:
                raise MetadataTooLarge(f"more than {at_most} accepted types (max_accept_types)")
            mime_types.append(mime_type)
        return cls(tuple(mime_types))


def each_mime_type(data: bytes) -> Iterator[IdOrName]:
    """Yield the types of an accept-mime-types entry, decoded one by one as they are needed.

    Raises:
        MetadataError: The bytes end inside a MIME type, or one is not ASCII.
    """
    offset = 0
    while offset < len(data):
        mime_type, offset = decode_mime_type(data, offset)
        yield mime_type
