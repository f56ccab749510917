"""Which frames mean something, to whom and on which stream: one look-up for a reader.

Protocol.md, "Frame Types" and "Handling the Unexpected", for an established connection: what is
not accounted for is ignored. What cannot be understood is skipped if its I flag is set and ends
the connection if not ("Handling Ignore Flag"; no EXT is understood here).

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

"Handled" still leaves the questions that need state: whether the stream is known (else ignored),
whether its id is in use (a second request is ignored), what `legality` says, and whether leases
were negotiated (else a LEASE has no effect).

PAYLOAD and requests are nearly all there is to read, so `rsocket_trio.connection.dispatch` delivers
them without this look-up. `tests/rules/test_frame_rules_cells.py` holds each cell of it, theirs
included, against what a real connection does.
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
    """Say what to do with a frame of an established connection, from its header alone.

    Args:
        frame_type: The code, known or not.
        flags: As received.
        stream_id: As received.
        client: Whether we are the client.
    """
    verdict = (_STREAMS if stream_id else _ZERO[client]).get(frame_type)
    if verdict is None:
        return Verdict.IGNORE if flags & IGNORE else Verdict.REFUSE
    # "Stream Identifiers": what the peer calls a request of ours is not accounted for.
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
        flags: Of the frame; of the last one, if the payload came in fragments.
        reassembled: It came in fragments: it is an item then, whether or not N was set on each
            of them, which not all senders do.

    Returns:
        The event, or ``None`` for a frame with neither N nor C, which nobody may send and which
        is ignored.
    """
    if reassembled:
        flags |= NEXT
    return _EVENTS.get(flags & (NEXT | COMPLETE))
