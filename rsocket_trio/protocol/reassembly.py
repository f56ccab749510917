"""Putting fragments together, within bounds.

Protocol.md, "Handling the Unexpected": reassembly must assume that the stream of fragments never
ends. So a payload has a limit, all the unfinished payloads of a connection have one together
(`ReassemblyBudget`), and both are checked before anything is kept. Fragments with little or
nothing in them are limited in number: they cost no memory to speak of, but no payload needs them.

The bytes go into one growing buffer per part, not into a list of pieces: a piece of a few bytes
costs ten times its size as an object, so a list would let tiny fragments pass the limit by that.
A buffer over-allocates by an eighth and takes linear time.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import ErrorCode, RemoteProtocolError
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, NEXT
from rsocket_trio.payload import Payload

__all__ = [
    "FRAGMENT_COST",
    "Reassembler",
    "ReassemblyBudget",
    "has_payload",
    "is_followed",
    "too_much_metadata",
]

FRAGMENT_COST: Final = 32
"""What a fragment is charged at least, in bytes. The smallest fragments in use (rsocket-java's,
of 64 bytes with its length prefix) hold more, so no honest peer is charged more than it sends."""

_SPARE_FRAGMENTS: Final = 2  # the first may be empty, the last may be short


def is_followed(flags: int) -> bool:
    """Whether a PAYLOAD with these flags is a fragment, and not the last of its payload.

    By the letter F is ignored where C is set (Protocol.md, "Handling the Unexpected"). It counts
    where N is set too: rsocket-go and rsocket-rust set all three on the first fragment of an
    answer, and by the letter that fragment would pass for the whole, without a word. C then means
    the whole payload, as it does beside F in REQUEST_CHANNEL, of which the text says nothing.
    """
    return bool(flags & FOLLOWS) and flags & (NEXT | COMPLETE) != COMPLETE


def has_payload(flags: int) -> bool:
    """Whether a PAYLOAD with these flags is an item, or the first fragment of one.

    Not all senders set N on fragments. Data beside C alone are no item ("PAYLOAD Frame").
    """
    return bool(flags & NEXT) or is_followed(flags)


def too_much_metadata(at_most: int) -> str:
    """What a requester is told whose metadata are longer than ``at_most`` bytes."""
    return f"more than {at_most} bytes of metadata (max_metadata_size)"


class ReassemblyBudget:
    """What the unfinished payloads of one connection may hold together.

    Attributes:
        limit: In bytes.
        used: In bytes, at present.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def __repr__(self) -> str:
        return f"<ReassemblyBudget {self.used} of {self.limit}>"


class Reassembler:
    """One payload that is still arriving: `add` each fragment, then `finish`.

    Whoever drops one unfinished (CANCEL, end of the stream) must call `discard`, which gives its
    share of the budget back.

    Attributes:
        size: Bytes of metadata and data so far.
        flags: For whoever adds the fragments: what flags of theirs are to be remembered.
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
        budget: ReassemblyBudget | None = None,
        *,
        stream_id: int = 0,
        max_metadata: int | None = None,
    ) -> None:
        """Begin an empty payload.

        Args:
            limit: The largest payload there may be, in bytes of metadata and data.
            budget: The connection's, shared with its other reassemblers.
            stream_id: The stream the errors name.
            max_metadata: For the payload of a request: of its bytes so many may be metadata.
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

        Metadata after data must not be sent; should it come, it is appended to the metadata.

        Raises:
            RemoteProtocolError: The payload or its metadata are too large (code INVALID), or the
                connection holds too many unfinished ones (CANCELED). It ends the stream, not the
                connection. The fragment was not kept, and all before it has been discarded.
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
            if budget.used + charge > budget.limit:
                self._refuse(
                    f"more than {budget.limit} bytes of payloads that are not whole yet "
                    "(max_reassembly_size)",
                    ErrorCode.CANCELED,
                )
            budget.used += charge
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
        """The metadata so far; complete once there are data."""
        return None if self._metadata is None else bytes(self._metadata)

    def finish(self) -> Payload:
        """The whole payload. The reassembler is empty then and its budget given back."""
        payload = self.take()
        self.discard()
        return payload

    def take(self) -> Payload:
        """The whole payload, whose share of the budget is kept until `discard`."""
        payload = Payload(bytes(self._data), self.metadata)
        self._data = bytearray()
        self._metadata = None
        return payload

    def discard(self) -> None:
        """Forget what has arrived and give its share of the budget back. May be repeated."""
        if self._budget is not None:
            self._budget.used -= self._charged
        self._charged = self.size = self._fragments = 0
        self._data = bytearray()
        self._metadata = None

    def _refuse(self, reason: str, code: ErrorCode) -> None:
        self.discard()
        raise RemoteProtocolError(reason, code=code, stream_id=self._stream_id)
