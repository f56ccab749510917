"""Several kinds of metadata in one: `CompositeMetadata` (CompositeMetadata.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from ..errors import MetadataError
from .mime_types import IdOrName, decode_mime_type, encode_mime_type, same_mime_type

__all__ = ["CompositeMetadata", "MetadataEntry"]

_MAX_CONTENT_SIZE: Final = 0xFFFFFF
"""An entry has 24 bits for the length of its content."""


@attrs.frozen(repr=False)
class MetadataEntry:
    """One entry: a MIME type and content of that type.

    Attributes:
        mime_type: The type's name; its number, if nobody has assigned that number yet.
        content: The entry's bytes.
    """

    mime_type: IdOrName
    content: bytes = b""

    def __repr__(self) -> str:
        """Without the content, which may be a password."""
        return f"<MetadataEntry {self.mime_type!r}, {len(self.content)} bytes>"

    def encode(self) -> bytes:
        """Encode this entry; composite metadata is its encoded entries, one after the other.

        Raises:
            MetadataError: The MIME type cannot be written, or the content is 16 MiB or longer.
        """
        size = len(self.content)
        if size > _MAX_CONTENT_SIZE:
            raise MetadataError(f"{size} bytes are too many for an entry of composite metadata")
        return encode_mime_type(self.mime_type) + size.to_bytes(3, "big") + self.content


class CompositeMetadata:
    """Entries of metadata, in order; any MIME type may occur, and more than once.

    Made from entries to be sent, or with `decode` from bytes received. What was received is read
    only as far as somebody asks: `first` stops at the entry it finds. Entries of unknown types
    are kept like all others. Iterating, ``len`` and ``==`` go through all entries.
    """

    __slots__ = ("_data", "_offset", "_read")

    def __init__(self, entries: Iterable[MetadataEntry] = ()) -> None:
        self._read = list(entries)
        self._data = b""
        self._offset = 0

    @classmethod
    def decode(cls, data: bytes) -> CompositeMetadata:
        """Composite metadata as received. Nothing is read yet, and so nothing is raised."""
        composite = cls()
        composite._data = data
        return composite

    def encode(self) -> bytes:
        """Encode all entries.

        Raises:
            MetadataError: An entry cannot be encoded; or decoded, if it was received.
        """
        return b"".join([entry.encode() for entry in self])

    @property
    def entries(self) -> tuple[MetadataEntry, ...]:
        """All entries, in order.

        Raises:
            MetadataError: The bytes received are no composite metadata.
        """
        return tuple(iter(self))  # `tuple(self)` would ask `len`, which asks here

    def first(self, mime_type: IdOrName) -> bytes | None:
        """The content of the first entry of that type, or ``None``.

        Raises:
            MetadataError: No such entry precedes the place where the bytes received go wrong.
        """
        for entry in self:
            if same_mime_type(entry.mime_type, mime_type):
                return entry.content
        return None

    def all(self, mime_type: IdOrName) -> tuple[bytes, ...]:
        """The contents of all entries of that type, in order.

        Raises:
            MetadataError: The bytes received are no composite metadata.
        """
        return tuple([e.content for e in self if same_mime_type(e.mime_type, mime_type)])

    def __iter__(self) -> Iterator[MetadataEntry]:
        index = 0
        while True:
            if index == len(self._read) and not self._read_one():
                return
            yield self._read[index]
            index += 1

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        # Without this `if composite:` would read all, and raise for what is damaged.
        return bool(self._read) or self._offset < len(self._data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompositeMetadata):
            return NotImplemented
        return self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        unread = len(self._data) - self._offset
        more = f", {unread} bytes unread" if unread else ""
        return f"<CompositeMetadata {self._read!r}{more}>"

    def _read_one(self) -> bool:
        data = self._data
        if self._offset >= len(data):
            return False
        mime_type, start = decode_mime_type(data, self._offset)
        content = start + 3
        end = content + int.from_bytes(data[start:content], "big")
        if content > len(data) or end > len(data):
            raise MetadataError(f"the entry of composite metadata at {self._offset} is cut short")
        self._read.append(MetadataEntry(mime_type, data[content:end]))
        self._offset = end
        return True
