"""The bytes that a connection has received and still holds: `ReceiveAccount`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .reassembly import Reassembler, ReassemblyBudget

if TYPE_CHECKING:
    from rsocket_trio.config import Limits

__all__ = ["ReceiveAccount"]


class ReceiveAccount:
    """Counts the received bytes of all streams of one connection, against its limits.

    Attributes:
        unread: Bytes of payloads that the application has not taken yet. The operations count
            them here, after they have checked the limits.
        max_unread: The most bytes that may be unread (`Limits.max_unread_size`).
        max_unread_body: The most unread bytes of one payload that is read while it arrives
            (`Limits.max_unread_body_size`).
    """

    __slots__ = ("_max_payload", "_unfinished", "max_unread", "max_unread_body", "unread")

    def __init__(self, limits: Limits) -> None:
        self.unread = 0
        self.max_unread = limits.max_unread_size
        self.max_unread_body = limits.max_unread_body_size
        self._max_payload = limits.max_payload_size
        self._unfinished = ReassemblyBudget(limits.max_reassembly_size)

    def reassembler(self, stream_id: int, max_metadata: int | None = None) -> Reassembler:
        """Return a new reassembler within the connection's limits."""
        return Reassembler(
            self._max_payload, self._unfinished, stream_id=stream_id, max_metadata=max_metadata
        )
