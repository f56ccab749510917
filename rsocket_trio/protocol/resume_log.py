"""The positions and frames that one end keeps so that a session can be resumed: `ResumeLog`.

Protocol.md, "Implied Position": both ends count the bytes of the tracked frames, as encoded, after
fragmentation and without the length prefix. So a position is a boundary between two frames, and
frames do not carry their position. A sent frame is retained until the peer's position shows that it
has received the frame.

Choice where the text is silent: only frames on streams above 0 are tracked. The text lists ERROR
without exception, but an ERROR on stream 0 ends the session, or announces its end.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from rsocket_trio.frames.header import FrameType

__all__ = ["FRAME_COST", "ResumeLog", "is_tracked", "possible"]

FRAME_COST: Final = 64
"""The bytes counted for a retained frame in addition to its own: the object and its queue entry."""

_FIRST_TRACKED: Final = FrameType.REQUEST_RESPONSE.value
_LAST_TRACKED: Final = FrameType.ERROR.value
_STREAM_ZERO: Final = b"\0\0\0\0"


def is_tracked(frame: bytes) -> bool:
    """Whether a frame has a position: requests, REQUEST_N, CANCEL, PAYLOAD, ERROR, on a stream.

    Args:
        frame: A whole frame, of at least the header's size.
    """
    # The tracked types have consecutive codes, in the six high bits of the fifth byte.
    return _FIRST_TRACKED <= frame[4] >> 2 <= _LAST_TRACKED and frame[:4] != _STREAM_ZERO


class ResumeLog:
    """Both positions of one end, and the frames it can send again.

    Attributes:
        limit: The maximum of `size`, in bytes.
        sent: The position behind the last tracked frame sent.
        received: The position behind the last tracked frame received.
        first_retained: The position of the first frame that can be sent again.
        size: The bytes of the retained frames, plus `FRAME_COST` for each.
        evicted: The number of frames dropped before they were acknowledged. After the first,
            resumption succeeds only if the peer has received the dropped frames.
    """

    __slots__ = ("_frames", "evicted", "first_retained", "limit", "received", "sent", "size")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.sent = 0
        self.received = 0
        self.first_retained = 0
        self.size = 0
        self.evicted = 0
        self._frames: deque[bytes] = deque()

    def __repr__(self) -> str:
        return (
            f"<ResumeLog sent={self.sent} retained from {self.first_retained} "
            f"received={self.received}>"
        )

    def record(self, frame: bytes) -> None:
        """Count a tracked frame that is about to be sent, and retain it.

        Beyond the limit the oldest frames are dropped, if necessary also this one, and counted in
        `evicted`.
        """
        self._frames.append(frame)
        self.sent += len(frame)
        self.size += len(frame) + FRAME_COST
        while self.size > self.limit:
            self._drop_first()
            self.evicted += 1

    def count_received(self, frame: bytes) -> None:
        """Count a tracked frame that has arrived as a whole."""
        self.received += len(frame)

    def acknowledge(self, position: int) -> bool:
        """Drop the frames before ``position``, which the peer has received.

        Returns:
            Whether the position is possible. One beyond `sent` is not, and changes nothing.
        """
        if position > self.sent:
            return False
        frames = self._frames
        while frames and self.first_retained + len(frames[0]) <= position:
            self._drop_first()
        return True

    def can_replay_from(self, position: int) -> bool:
        """Whether all frames from this position on are retained, and it is a frame boundary."""
        at = self.first_retained
        if not at <= position <= self.sent:
            return False
        for frame in self._frames:
            if at >= position:
                break
            at += len(frame)
        return at == position

    def replay(self) -> list[bytes]:
        """Return the retained frames, in order. Call `acknowledge` first."""
        return list(self._frames)

    def _drop_first(self) -> None:
        frame = self._frames.popleft()
        self.first_retained += len(frame)
        self.size -= len(frame) + FRAME_COST


def possible(log: ResumeLog, *, last_received: int, first_available: int) -> bool:
    """Whether a server can resume (Protocol.md, "Implied Position").

    Args:
        log: The log of the server.
        last_received: The position that the client has received, from its RESUME.
        first_available: The first position from which the client can send again, from its RESUME.

    Returns:
        Whether neither direction has a gap: the client still has all frames that have not arrived
        here, and this log has all frames that have not arrived at the client.
    """
    return first_available <= log.received and log.can_replay_from(last_received)
