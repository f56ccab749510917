"""The metadata of a payload without those for the collector itself: `own_metadata`."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..errors import MetadataError
from ..metadata import MIME, CompositeMetadata, DataMimeType, MetadataEntry
from ..metadata.mime_types import mime_type_name, same_mime_type
from ..payload import Payload

__all__ = ["Item", "own_metadata"]

_NOT_KEPT: Final = (MIME.ROUTING, MIME.AUTHENTICATION.removesuffix(".v0"), MIME.MIME_TYPE)
"""What their names begin with. The route is a fact of the batch, and the MIME type of the data too.
A password must not be in a file that readers get: before there was a type for it, Spring had two,
``message/x.rsocket.authentication.basic.v0`` and ``.bearer.v0``."""


class Item(NamedTuple):
    """A payload to be stored, and the MIME type of its data: a tuple, as there is one per event."""

    payload: Payload
    mime_type: str


def own_metadata(payload: Payload, data_type: str, metadata_type: str) -> Item:
    """Return a payload as it is stored.

    Route, authentication and the MIME type of the data are taken out of composite metadata.
    Metadata of another kind stay as they are. Composite metadata that cannot be read are dropped.

    Args:
        payload: As it came.
        data_type: The MIME type of the data of its connection.
        metadata_type: The MIME type of the metadata of its connection.
    """
    if payload.metadata is None:
        return Item(payload, data_type)
    if same_mime_type(metadata_type, MIME.ROUTING):
        return Item(Payload(payload.data), data_type)
    if not same_mime_type(metadata_type, MIME.COMPOSITE_METADATA):
        return Item(payload, data_type)
    try:
        entries = CompositeMetadata.decode(payload.metadata).entries
        types = [each.content for each in entries if _kind(each) == MIME.MIME_TYPE]
        if types:
            data_type = mime_type_name(DataMimeType.decode(types[0]).mime_type)
    except MetadataError:
        # They may hold a password behind the damage.
        return Item(Payload(payload.data), data_type)
    kept = [each for each in entries if not _kind(each).startswith(_NOT_KEPT)]
    metadata = CompositeMetadata(kept).encode() if kept else None
    return Item(Payload(payload.data, metadata), data_type)


def _kind(entry: MetadataEntry) -> str:
    """Return the type of an entry for comparing: as for a router, its case does not matter."""
    return mime_type_name(entry.mime_type).lower()
