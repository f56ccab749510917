"""Several entries of metadata in one: `CompositeMetadata` (CompositeMetadata.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Final

import attrs

from ..config import DEFAULT_LIMITS, Limits
from ..errors import MetadataError, MetadataTooLarge
from ..field_checks import instance_of
from .mime_types import (
    MAX_NUMBER,
    WELL_KNOWN_BIT,
    IdOrName,
    WellKnownMimeType,
    decode_mime_type,
    encode_mime_type,
    same_mime_type,
)

__all__ = ["CompositeMetadata", "MetadataEntry", "WantedEntries", "entry_positions"]

_MAX_CONTENT_SIZE: Final = 0xFFFFFF
"""The length of an entry's content has 24 bits."""

_LENGTH_SIZE: Final = 3

from_bytes = int.from_bytes


@attrs.frozen(repr=False)
class MetadataEntry:
    """One entry: a MIME type and content of that type.

    Attributes:
        mime_type: The type's name; its number, if the number is not assigned to a name.
        content: The entry's bytes.
    """

    mime_type: IdOrName = attrs.field(validator=instance_of(str, int))
    content: bytes = attrs.field(default=b"", validator=instance_of(bytes))

    def __repr__(self) -> str:
        """Without the content, which may be a password."""
        return f"<MetadataEntry {self.mime_type!r}, {len(self.content)} bytes>"

    def encode(self) -> bytes:
        """Encode this entry; composite metadata is its encoded entries, one after the other.

        Raises:
            MetadataError: The MIME type cannot be encoded, or the content is 16 MiB or longer.
        """
        size = len(self.content)
        if size > _MAX_CONTENT_SIZE:
            raise MetadataError(
                f"an entry of composite metadata must have at most {_MAX_CONTENT_SIZE} bytes, not "
                f"{size}"
            )
        return encode_mime_type(self.mime_type) + size.to_bytes(3, "big") + self.content


class CompositeMetadata:
    """Entries of metadata, in order. A MIME type may occur more than once.

    Make one from entries to send them, or with `decode` from received bytes. Received metadata stay
    bytes: `first` and `find` skip entries of other types without decoding them, and stop at the
    entries they look for; later bytes are not read. Iterating and ``==`` decode all entries, each
    time.
    """

    __slots__ = ("_data", "_entries", "_max_entries")

    def __init__(self, entries: Iterable[MetadataEntry] = ()) -> None:
        self._entries = tuple(entries)
        self._data: bytes | None = None
        self._max_entries = 0

    @classmethod
    def decode(cls, data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> CompositeMetadata:
        """Return received composite metadata. The bytes are not read yet, so this never raises.

        Args:
            data: The received bytes.
            limits: At most ``max_metadata_entries`` entries will be read.
        """
        composite = cls()
        composite._data = data
        composite._max_entries = limits.max_metadata_entries
        return composite

    def encode(self) -> bytes:
        """Encode all entries.

        Raises:
            MetadataError: An entry cannot be encoded, or the received bytes are not valid.
        """
        return b"".join([entry.encode() for entry in self])

    @property
    def entries(self) -> tuple[MetadataEntry, ...]:
        """All entries, in order.

        Raises:
            MetadataError: The received bytes are not valid composite metadata.
            MetadataTooLarge: There are more entries than the limit allows.
        """
        return tuple(iter(self))  # `tuple(self)` would call `len`, which reads all the bytes too

    def first(self, mime_type: IdOrName) -> bytes | None:
        """Return the content of the first entry of that type, or ``None``.

        Raises:
            MetadataError: The received bytes are not valid, and the entry is not before the error.
            MetadataTooLarge: There are more entries than the limit allows, and the entry is not
                within the limit.
        """
        return self.find((mime_type,)).get(mime_type)

    def find(
        self, mime_types: Collection[IdOrName], optional: Collection[IdOrName] = ()
    ) -> dict[IdOrName, bytes]:
        """Return the contents of the first entries of several types, read in one pass.

        Args:
            mime_types: The types.
            optional: More types. If all of ``mime_types`` are found, an error or the limit before
                an entry of these types is ignored, and the entry is not found.

        Returns:
            The contents by type, as given. A type without an entry is not in the dictionary.

        Raises:
            MetadataError: The received bytes are not valid, and not all of ``mime_types`` are
                before the error.
            MetadataTooLarge: There are more entries than the limit allows, and not all of
                ``mime_types`` are within the limit.
        """
        wanted = _wanted(tuple(mime_types), tuple(optional))
        data = self._data
        if data is not None:
            return wanted.find(data, self._max_entries, {})
        found: dict[IdOrName, bytes] = {}
        for entry in self._entries:
            mime_type = wanted.keys.get(_key(entry.mime_type))
            if mime_type is not None:
                found.setdefault(mime_type, entry.content)
        return found

    def all(self, mime_type: IdOrName) -> tuple[bytes, ...]:
        """Return the contents of all entries of that type, in order.

        Raises:
            MetadataError: The received bytes are not valid composite metadata.
            MetadataTooLarge: There are more entries than the limit allows.
        """
        return tuple([e.content for e in self if same_mime_type(e.mime_type, mime_type)])

    def __iter__(self) -> Iterator[MetadataEntry]:
        data = self._data
        if data is None:
            yield from self._entries
            return
        for at, content, end in entry_positions(data, self._max_entries):
            mime_type, _ = decode_mime_type(data, at)
            yield MetadataEntry(mime_type, data[content:end])

    def __len__(self) -> int:
        if self._data is None:
            return len(self._entries)
        return sum(1 for _ in entry_positions(self._data, self._max_entries))

    def __bool__(self) -> bool:
        # Without this, `if composite:` would call `len`, which reads all and may raise.
        return bool(self._entries or self._data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompositeMetadata):
            return NotImplemented
        return self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        if self._data is None:
            return f"<CompositeMetadata {list(self._entries)!r}>"
        return f"<CompositeMetadata {len(self._data)} bytes as received>"


class WantedEntries:
    """The types of entries that `CompositeMetadata.find` looks for; made once for many metadata.

    Args:
        mime_types: See `CompositeMetadata.find`.
        optional: See there.

    Attributes:
        keys: The types by their encodings: of a well-known type its number, and also its name.
    """

    __slots__ = ("_mime_types", "_number", "keys")

    def __init__(
        self, mime_types: Collection[IdOrName], optional: Collection[IdOrName] = ()
    ) -> None:
        self.keys: dict[bytes | int, IdOrName] = {}
        for mime_type in (*mime_types, *optional):
            self.keys.setdefault(_key(mime_type), mime_type)
            known = WellKnownMimeType.from_name(mime_type) if isinstance(mime_type, str) else None
            if known is not None:
                self.keys.setdefault(_key(known.id), mime_type)
        self._mime_types = tuple(mime_types)
        self._number = len(set(self.keys.values()))

    def find(
        self, data: bytes, at_most: int, found: dict[IdOrName, bytes], at: int = 0
    ) -> dict[IdOrName, bytes]:
        """Return the contents of the first entries of the types; see `CompositeMetadata.find`.

        Args:
            data: The received bytes.
            at_most: The most entries that are read.
            found: The contents of the entry before ``at``, if it is known; they are added to it.
            at: Where to begin, 0 or behind the first entry.

        Raises:
            MetadataError: See `CompositeMetadata.find`.
            MetadataTooLarge: See there.
        """
        get, size = self.keys.get, len(data)
        # As `entry_positions`, written out: this loop is a part of the cost of every request.
        for _ in range(1 if at else 0, at_most):
            if at >= size:
                return found
            first = data[at]
            content = at + 4 if first >= WELL_KNOWN_BIT else at + 5 + first
            end = content + from_bytes(data[content - 3 : content], "big")
            if content > size or end > size:
                break
            mime_type = get(first if first >= WELL_KNOWN_BIT else data[at : content - 3].lower())
            if mime_type is not None and mime_type not in found:
                found[mime_type] = data[content:end]
                if len(found) == self._number:
                    return found
            at = end
        if at < size and not all(mime_type in found for mime_type in self._mime_types):
            list(entry_positions(data, at_most))  # it raises what is wrong
        return found


def entry_positions(data: bytes, at_most: int) -> Iterator[tuple[int, int, int]]:
    """Yield for each entry the positions of its start, its content and its end.

    Raises:
        MetadataError: An entry is cut off.
        MetadataTooLarge: There are more than ``at_most`` entries.
    """
    size = len(data)
    at = 0
    for _ in range(at_most):
        if at >= size:
            return
        first = data[at]
        start = at + 1 if first & WELL_KNOWN_BIT else at + 2 + first
        content = start + _LENGTH_SIZE
        end = content + int.from_bytes(data[start:content], "big")
        # If the length itself is cut off, `content` is past the end.
        if content > size or end > size:
            raise MetadataError(f"the entry of composite metadata at byte {at} is cut off")
        yield at, content, end
        at = end
    if at < size:
        raise MetadataTooLarge(f"more than {at_most} entries of metadata (max_metadata_entries)")


def _key(mime_type: IdOrName) -> bytes | int:
    """Return the encoded type for comparing: the byte of a number, or a name in lower case.

    `lower` may change the first byte of a name too, but that makes no two types equal: types whose
    lengths differ have different sizes.
    """
    if isinstance(mime_type, int):
        return WELL_KNOWN_BIT | mime_type & MAX_NUMBER
    name = mime_type.encode("ascii", "backslashreplace")
    return (bytes((len(name) - 1 & MAX_NUMBER,)) + name).lower()


_wanted = lru_cache(maxsize=64)(WantedEntries)
