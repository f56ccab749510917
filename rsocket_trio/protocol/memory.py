"""All that a connection holds in memory for its peer: `ConnectionMemory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsocket_trio.account import Account

from .reassembly import Reassembler

if TYPE_CHECKING:
    from rsocket_trio.config import Limits

__all__ = ["ConnectionMemory"]


class ConnectionMemory:
    """The accounts of one connection. What a peer can make it keep is taken from one of them first.

    Beside them are what is bounded by construction: one frame that is not whole
    (`Limits.max_frame_size`; `Limits.max_setup_size` before the client is accepted), one read, and
    the outbox (`Limits.max_outbox_size`, `Limits.max_unsent_control_size`).

    Attributes:
        fragments: Payloads that are not whole yet.
        requests: The peer's requests that wait or are answered.
        unread: Items and chunks that the application has not received.
        answers: Answers and items of handlers that wait for room or for credit.
        max_unread_body: The most unread bytes of one payload that is read while it arrives
            (`Limits.max_unread_body_size`).
    """

    __slots__ = ("_max_payload", "answers", "fragments", "max_unread_body", "requests", "unread")

    def __init__(self, limits: Limits) -> None:
        self.fragments = Account(
            limits.max_reassembly_size,
            "Limits.max_reassembly_size",
            "of payloads that are not whole yet",
        )
        self.requests = Account(
            limits.max_requests_size, "Limits.max_requests_size", "of requests are not answered yet"
        )
        self.unread = Account(
            limits.max_unread_size, "Limits.max_unread_size", "are unread on this connection"
        )
        self.answers = Account(
            limits.max_answers_size, "Limits.max_answers_size", "of answers wait for the peer"
        )
        self.max_unread_body = limits.max_unread_body_size
        self._max_payload = limits.max_payload_size

    @property
    def held(self) -> int:
        """The bytes of all accounts together."""
        return self.fragments.held + self.requests.held + self.unread.held + self.answers.held

    def reassembler(self, stream_id: int, max_metadata: int | None = None) -> Reassembler:
        """Return a new reassembler within the connection's limits."""
        return Reassembler(
            self._max_payload, self.fragments, stream_id=stream_id, max_metadata=max_metadata
        )
