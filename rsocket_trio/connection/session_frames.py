"""The positions and retained frames of a session, for its resumption: `SessionFrames`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import ErrorCode, MalformedFrame
from ..frames.error import ErrorFrame
from ..frames.header import HEADER_SIZE, FrameType
from ..frames.keepalive import KeepaliveFrame, encode_keepalive
from ..frames.union import decode
from ..protocol.resume_log import is_tracked

if TYPE_CHECKING:
    from .retention import Retention

__all__ = ["SessionFrames"]

_KEEPALIVE: Final = FrameType.KEEPALIVE.value
_ERROR: Final = FrameType.ERROR.value
_ENDINGS: Final = (ErrorCode.CONNECTION_ERROR, ErrorCode.CONNECTION_CLOSE)


class SessionFrames:
    """Looks at each frame of a session on its way out or in.

    Frames of streams have a position, and ours are retained. KEEPALIVE carries the position that
    was received. ERROR on stream 0 announces the end of the session.

    Attributes:
        closing: One side has announced the end, so the session is not resumed any more.
    """

    def __init__(self, retention: Retention) -> None:
        self.closing = False
        self._retention = retention

    def outgoing(self, frame: bytes) -> bytes:
        """Return the frame to send: a KEEPALIVE of ours with the position of this moment."""
        if is_tracked(frame):
            self._retention.record(frame)
        elif frame[4] >> 2 == _KEEPALIVE:
            decoded = decode(frame)
            if isinstance(decoded, KeepaliveFrame):
                received = self._retention.log.received
                return encode_keepalive(decoded.respond, received, decoded.data)
        elif frame[4] >> 2 == _ERROR:
            self.closing = True  # the engine sends no other ERROR on stream 0
        return frame

    def incoming(self, frame: bytes) -> None:
        """Count a frame that has arrived, or note what it says about the session."""
        if len(frame) < HEADER_SIZE:
            return  # the reader refuses it
        if is_tracked(frame):
            self._retention.log.count_received(frame)
        elif frame[4] >> 2 in {_KEEPALIVE, _ERROR}:
            try:
                decoded = decode(frame)
            except MalformedFrame:
                return  # the reader refuses it
            if decoded.stream_id:
                return
            if isinstance(decoded, KeepaliveFrame):
                self._retention.confirmed(decoded)
            elif isinstance(decoded, ErrorFrame) and decoded.code in _ENDINGS:
                self.closing = True
