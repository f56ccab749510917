"""The frames that each side accepts, and on which stream: one look-up for a reader.

Protocol.md, "Frame Types" and "Handling the Unexpected", for an established connection: frames
that the text does not account for are ignored. A frame of an unknown type is skipped if its I flag
is set and ends the connection if not ("Handling Ignore Flag"; no EXT is supported here).

    frame              stream 0                     stream > 0
    SETUP              ignored                      ignored
    RESUME             server: refused              ignored
    RESUME_OK          ignored                      ignored
    KEEPALIVE LEASE    handled                      ignored
    METADATA_PUSH      handled                      ignored
    REQUEST_*          ignored                      handled if the id is of the peer's parity
    PAYLOAD REQUEST_N  ignored                      handled
    CANCEL             ignored                      handled
    ERROR              handled (zero_stream)        handled
    EXT, unknown       I: ignored, else refused     I: ignored, else refused

A "handled" frame still needs the checks that depend on state: whether the stream is known (else the
frame is ignored), whether its id is in use (a second request is ignored), whether `legality` allows
it, and whether leases were negotiated (else a LEASE has no effect).

Nearly all frames are PAYLOAD and requests, so `rsocket_trio.connection.dispatch` delivers them
without this look-up. `tests/rules/test_frame_rules_cells.py` compares each cell of the table, also
of these frames, with a real connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from rsocket_trio.frames.header import COMPLETE, IGNORE, NEXT, FrameType

from .legality import Event
from .stream_ids import is_peers

__all__ = ["REQUEST_TYPES", "Verdict", "judge", "payload_event"]


class Verdict(Enum):
    """What to do with a frame."""

    HANDLE = auto()
    IGNORE = auto()
    REFUSE = auto()
    """Send ERROR[CONNECTION_ERROR] on stream 0 and close."""


REQUEST_TYPES: Final = frozenset(
    {
        FrameType.REQUEST_RESPONSE,
        FrameType.REQUEST_FNF,
        FrameType.REQUEST_STREAM,
        FrameType.REQUEST_CHANNEL,
    }
)

_ON_STREAMS: Final = frozenset(
    REQUEST_TYPES | {FrameType.PAYLOAD, FrameType.REQUEST_N, FrameType.CANCEL, FrameType.ERROR}
)
_ON_ZERO: Final = frozenset(
    {FrameType.KEEPALIVE, FrameType.LEASE, FrameType.METADATA_PUSH, FrameType.ERROR}
)


def _verdicts(handled: frozenset[FrameType]) -> dict[int, Verdict]:
    return {
        frame_type: Verdict.HANDLE if frame_type in handled else Verdict.IGNORE
        for frame_type in FrameType
        if frame_type is not FrameType.EXT
    }


# Keyed by whether we are the client. "Resume Operation": a RESUME on a connection that is set up
# SHOULD be answered with CONNECTION_ERROR.
_ZERO: Final[Mapping[bool, Mapping[int, Verdict]]] = MappingProxyType(
    {
        True: _verdicts(_ON_ZERO),
        False: _verdicts(_ON_ZERO) | {FrameType.RESUME: Verdict.REFUSE},
    }
)
_STREAMS: Final = MappingProxyType(_verdicts(_ON_STREAMS))


def judge(frame_type: int, flags: int, stream_id: int, *, client: bool) -> Verdict:
    """Decide what to do with a frame of an established connection, from its header only.

    Args:
        frame_type: The code of the frame type, known or not.
        flags: The received flags.
        stream_id: The received stream id.
        client: Whether we are the client.
    """
    verdict = (_STREAMS if stream_id else _ZERO[client]).get(frame_type)
    if verdict is None:
        return Verdict.IGNORE if flags & IGNORE else Verdict.REFUSE
    # "Stream Identifiers": the text does not account for a request with an id of our own.
    if stream_id and frame_type in REQUEST_TYPES and not is_peers(stream_id, client):
        return Verdict.IGNORE
    return verdict


# Indexed by N and C. Data beside C without N is no item ("PAYLOAD Frame") and is dropped.
_EVENTS: Final[Mapping[int, Event]] = MappingProxyType(
    {NEXT: Event.NEXT, COMPLETE: Event.COMPLETE, NEXT | COMPLETE: Event.NEXT_COMPLETE}
)


def payload_event(flags: int, *, reassembled: bool = False) -> Event | None:
    """The event of a received PAYLOAD.

    Args:
        flags: The flags of the frame; of the last frame, if the payload came in fragments.
        reassembled: Whether it came in fragments. Then it is an item even without N, because not
            all senders set N on each fragment.

    Returns:
        The event, or ``None`` for a frame with neither N nor C, which is illegal and is ignored.
    """
    if reassembled:
        flags |= NEXT
    return _EVENTS.get(flags & (NEXT | COMPLETE))
