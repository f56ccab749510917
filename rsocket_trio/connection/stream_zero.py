"""The frames of stream 0 of an established connection: `StreamZero`.

These are KEEPALIVE, ERROR, METADATA_PUSH and LEASE. This module also knows which frames tell a
client that its SETUP is accepted (Protocol.md, "Connection Establishment").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import ClosedByPeer, setup_error
from ..frames.error import ErrorFrame
from ..frames.header import HEADER, RESPOND, FrameType
from ..frames.keepalive import KeepaliveFrame, encode_keepalive
from ..frames.lease import LeaseFrame
from ..frames.metadata_push import MetadataPushFrame
from ..protocol.zero_stream import ZeroStreamError, classify_error

if TYPE_CHECKING:
    from ..frames.union import Frame
    from .incoming_requests import IncomingRequests
    from .leases import Leases
    from .lifecycle import Lifecycle
    from .outbox import Outbox

__all__ = ["StreamZero"]

_ACCEPTANCE: Final = frozenset(
    (
        FrameType.PAYLOAD,
        FrameType.LEASE,
        FrameType.REQUEST_RESPONSE,
        FrameType.REQUEST_FNF,
        FrameType.REQUEST_STREAM,
        FrameType.REQUEST_CHANNEL,
        FrameType.REQUEST_N,
        FrameType.CANCEL,
        FrameType.METADATA_PUSH,
    )
)
"""Frames that a server sends only after it has accepted the SETUP. Also ERROR on a stream."""


class StreamZero:
    """Receives the frames of the connection itself."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        outbox: Outbox,
        requests: IncomingRequests,
        leases: Leases | None,
        *,
        client: bool,
    ) -> None:
        self._lifecycle = lifecycle
        self._outbox = outbox
        self._requests = requests
        self._leases = leases
        self._client = client

    def receive(self, frame: Frame) -> None:
        """Receive a frame of stream 0 that has a meaning for this side."""
        if isinstance(frame, KeepaliveFrame):
            if frame.respond:
                # Protocol.md, "KEEPALIVE Frame": the same data, with R clear.
                self._outbox.put_urgent(encode_keepalive(False, 0, frame.data))
        elif isinstance(frame, MetadataPushFrame):
            self._requests.receive_metadata_push(frame.metadata)
        elif isinstance(frame, ErrorFrame):
            self._error(frame)
        elif isinstance(frame, LeaseFrame) and self._leases is not None:
            # Without L in SETUP a LEASE is ignored (Protocol.md, "Connection Establishment").
            self._leases.receive(frame)

    def _error(self, frame: ErrorFrame) -> None:
        lifecycle = self._lifecycle
        meaning = classify_error(frame.code, client=self._client, established=lifecycle.established)
        if meaning is ZeroStreamError.SETUP_REFUSED:
            lifecycle.end(setup_error(frame.code, frame.data))
        elif meaning is ZeroStreamError.CONNECTION_ERROR:
            lifecycle.end(ClosedByPeer(frame.data, code=frame.code))
        elif meaning is ZeroStreamError.CONNECTION_CLOSE:
            lifecycle.drain(ClosedByPeer(frame.data, code=frame.code))

    def look_for_acceptance(self, frame: bytes) -> None:
        """Client that is not established: check whether this frame means that SETUP is accepted."""
        if len(frame) < HEADER.size:
            return
        stream_id, type_and_flags = HEADER.unpack_from(frame)
        frame_type = type_and_flags >> 10
        if (
            frame_type in _ACCEPTANCE
            or (frame_type == FrameType.ERROR and stream_id)
            or (frame_type == FrameType.KEEPALIVE and not type_and_flags & RESPOND)
        ):
            self._lifecycle.accepted()
