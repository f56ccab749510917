"""Whether the first bytes of a connection are those of a RESUME: `resume_token`.

(Protocol.md, "RESUME Frame" and "Framing Protocol Usage".) Only enough is read to find the token;
the worker checks the frame.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..frames.header import FrameType

__all__ = ["LONGEST", "Incomplete", "resume_token"]

LONGEST: Final = 1024
"""How far into a connection is looked, in bytes: the token of a RESUME may have 65535, but those
that are random have no more than some dozen."""

_TYPE: Final = 7  # behind the length of TCP and the stream id
_TOKEN_SIZE: Final = 13  # behind the type, flags and version
_TOKEN: Final = 15


class Incomplete(Enum):
    """There are too few bytes to know."""

    INCOMPLETE = "incomplete"


def resume_token(head: bytes) -> bytes | Incomplete | None:
    """Return the token of a RESUME, ``None`` if it is another frame, or that more is needed."""
    if any(head[3:_TYPE]):  # the stream id of connections is 0
        return None
    if len(head) <= _TYPE:
        return Incomplete.INCOMPLETE
    if head[_TYPE] >> 2 != FrameType.RESUME.value:
        return None
    if len(head) < _TOKEN:
        return Incomplete.INCOMPLETE
    end = _TOKEN + int.from_bytes(head[_TOKEN_SIZE:_TOKEN])
    if end > LONGEST:
        return None
    return head[_TOKEN:end] if len(head) >= end else Incomplete.INCOMPLETE
