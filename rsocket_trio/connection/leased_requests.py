"""Requests of the peer on a connection with leases: `LeasedRequests`.

Protocol.md, "Lease Semantics": what goes beyond the lease is answered with REJECTED, also before
the first lease. A fire_and_forget has no answer and is dropped. A request in fragments is counted
with its first one, before anything of it is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import ErrorCode
from .requests import Requests

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..payload import Payload
    from .leases import Leases
    from .streams import Streams
    from .workers import Workers

__all__ = ["LeasedRequests"]

_BEYOND: Final = "beyond the lease"


class LeasedRequests(Requests):
    """As `Requests`; each request of the peer is counted against the lease we granted."""

    def __init__(
        self,
        config: ConnectionConfig,
        streams: Streams,
        workers: Workers,
        leases: Leases,
        *,
        client: bool,
    ) -> None:
        super().__init__(config, streams, workers, client=client)
        self._leases = leases

    def take_on(
        self,
        frame_type: int,
        stream_id: int,
        complete: int,
        initial_n: int,
        payload: Payload,
        size: int,
    ) -> None:
        """A request that came in one frame."""
        if self._leases.spend():
            super().take_on(frame_type, stream_id, complete, initial_n, payload, size)
        else:
            self.answer(stream_id, frame_type, ErrorCode.REJECTED, _BEYOND)

    def begin(
        self,
        frame_type: int,
        stream_id: int,
        flags: int,
        initial_n: int,
        metadata: bytes | None,
        data: bytes,
    ) -> None:
        """The first fragment of a request."""
        if self._leases.spend():
            super().begin(frame_type, stream_id, flags, initial_n, metadata, data)
        else:
            self.answer(stream_id, frame_type, ErrorCode.REJECTED, _BEYOND)

    def take_on_reassembled(
        self,
        frame_type: int,
        stream_id: int,
        complete: int,
        initial_n: int,
        payload: Payload,
        size: int,
    ) -> None:
        """It has been counted already."""
        super().take_on(frame_type, stream_id, complete, initial_n, payload, size)
