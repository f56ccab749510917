"""Put fragments together, within bounds.

Protocol.md, "Handling the Unexpected": reassembly must assume that the stream of fragments never
ends. So each payload has a limit, all unfinished payloads of a connection have a common account
(`ConnectionMemory.fragments`), and both are asked before a fragment is kept. The number of empty or
tiny fragments is limited too: they cost almost no memory, but no payload needs them.

The bytes go into one growing buffer for metadata and one for data, not into a list of pieces. A
piece of a few bytes is an object of ten times its size, so with a list, tiny fragments could use
ten times the limit. A buffer over-allocates by an eighth and takes linear time.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.account import Account
from rsocket_trio.errors import ErrorCode, RemoteProtocolError
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, NEXT
from rsocket_trio.payload import Payload

__all__ = [
    "FRAGMENT_COST",
    "Reassembler",
    "has_payload",
    "is_followed",
    "too_much_metadata",
]

FRAGMENT_COST: Final = 32
"""The minimum number of bytes counted for a fragment. The smallest fragments in use (64 bytes with
the length prefix, of rsocket-java) have more, so an honest peer's bytes are counted exactly."""

_SPARE_FRAGMENTS: Final = 2  # the first may be empty, the last may be short


def is_followed(flags: int) -> bool:
    """Whether a PAYLOAD with these flags is a fragment, and not the last of its payload.

    By the text F is ignored if C is set (Protocol.md, "Handling the Unexpected"). Here F counts if
    N is set too: rsocket-go and rsocket-rust set all three flags on the first fragment of an
    answer, and by the text that fragment would silently count as the whole answer. C then applies
    to the whole payload, as it does beside F in REQUEST_CHANNEL, where the text is silent.
    """
    return bool(flags & FOLLOWS) and flags & (NEXT | COMPLETE) != COMPLETE


def has_payload(flags: int) -> bool:
    """Whether a PAYLOAD with these flags is an item, or the first fragment of one.

    Not all senders set N on fragments. Data with C and without N are no item ("PAYLOAD Frame").
    """
    return bool(flags & NEXT) or is_followed(flags)


def too_much_metadata(at_most: int) -> str:
    """The error text for a requester whose metadata are longer than ``at_most`` bytes."""
    return f"more than {at_most} bytes of metadata (max_metadata_size)"


class Reassembler:
    """One payload that is still arriving: `add` each fragment, then `finish`.

    If it is dropped unfinished (CANCEL, end of the stream), the caller must call `discard`, which
    gives its share of the budget back.

    Attributes:
        size: The bytes of metadata and data so far.
        flags: The flags of earlier fragments that the caller keeps here.
    """

    __slots__ = (
        "_budget",
        "_charged",
        "_data",
        "_fragments",
        "_limit",
        "_max_metadata",
        "_metadata",
        "_stream_id",
        "flags",
        "size",
    )

    def __init__(
        self,
        limit: int,
        budget: Account | None = None,
        *,
        stream_id: int = 0,
        max_metadata: int | None = None,
    ) -> None:
        """Begin an empty payload.

        Args:
            limit: The maximum size of the payload, in bytes of metadata and data.
            budget: The budget of the connection, shared with its other reassemblers.
            stream_id: The stream id for errors.
            max_metadata: For the payload of a request: the maximum size of its metadata, in bytes.
        """
        self._limit = limit
        self._max_metadata = limit if max_metadata is None else max_metadata
        self._budget = budget
        self._stream_id = stream_id
        self._data = bytearray()
        self._metadata: bytearray | None = None
        self._fragments = 0
        self._charged = 0
        self.flags = 0
        self.size = 0

    def __repr__(self) -> str:
        return f"<Reassembler {self.size} bytes in {self._fragments} fragments>"

    def add(self, metadata: bytes | None, data: bytes) -> None:
        """Add the next fragment, the first and the last included.

        Metadata after data are illegal; if they come, they are appended to the metadata.

        Raises:
            RemoteProtocolError: The payload or its metadata are too large (code INVALID), or the
                unfinished payloads of the connection are (CANCELED). It ends the stream, not the
                connection. The fragment was not kept, and the earlier ones are discarded.
        """
        length = len(data)
        if metadata is not None:
            length += len(metadata)
            before = 0 if self._metadata is None else len(self._metadata)
            if before + len(metadata) > self._max_metadata:
                self._refuse(too_much_metadata(self._max_metadata), ErrorCode.INVALID)
        size = self.size + length
        fragments = self._fragments + 1
        if size > self._limit:
            self._refuse(
                f"a payload of more than {self._limit} bytes (max_payload_size)", ErrorCode.INVALID
            )
        if fragments > self._limit // FRAGMENT_COST + _SPARE_FRAGMENTS:
            self._refuse(f"{fragments} fragments for {size} bytes", ErrorCode.INVALID)
        budget = self._budget
        if budget is not None:
            charge = max(length, FRAGMENT_COST)
            if not budget.take(charge):
                self._refuse(budget.refusal, ErrorCode.CANCELED)
            self._charged += charge
        self.size = size
        self._fragments = fragments
        if metadata is not None:
            if self._metadata is None:
                self._metadata = bytearray()
            self._metadata += metadata
        self._data += data

    @property
    def metadata(self) -> bytes | None:
        """The metadata so far; complete once data have arrived."""
        return None if self._metadata is None else bytes(self._metadata)

    def finish(self) -> Payload:
        """Return the whole payload, empty the reassembler and give its share of the budget back."""
        payload = self.take()
        self.discard()
        return payload

    def take(self) -> Payload:
        """Return the whole payload; its share of the budget is kept until `discard`."""
        payload = Payload(bytes(self._data), self.metadata)
        self._data = bytearray()
        self._metadata = None
        return payload

    def discard(self) -> None:
        """Drop the fragments and give their share of the budget back. Safe to call twice."""
        if self._budget is not None:
            self._budget.give_back(self._charged)
        self._charged = self.size = self._fragments = 0
        self._data = bytearray()
        self._metadata = None

    def _refuse(self, reason: str, code: ErrorCode) -> None:
        self.discard()
        raise RemoteProtocolError(reason, code=code, stream_id=self._stream_id)
