"""The first frame: how a client builds SETUP, and when a server refuses it.

Protocol.md, "Connection Establishment" and "SETUP Frame". The server sends the errors of the two
checks to the client with an ERROR on stream 0, and then closes. The caller that decodes the first
frame refuses it with INVALID_SETUP if it is malformed.

Choices where the text is silent: another version and times of 0 are INVALID_SETUP, leases that
are not offered are UNSUPPORTED_SETUP, leases that are required and not asked for are
REJECTED_SETUP. The MIME types are not checked ("SETUP Frame" forbids it).
"""

from __future__ import annotations

from typing import Final

import attrs

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.errors import (
    InvalidSetup,
    LocalProtocolError,
    RejectedResume,
    RejectedSetup,
    UnsupportedSetup,
)
from rsocket_trio.frames.header import METADATA_LENGTH_SIZE
from rsocket_trio.frames.resume import ResumeFrame
from rsocket_trio.frames.setup import SetupFrame
from rsocket_trio.frames.union import Frame
from rsocket_trio.payload import Payload

__all__ = [
    "MAJOR_VERSION",
    "MINOR_VERSION",
    "build_setup",
    "check_first_frame",
    "check_setup",
    "limit_lifetime",
    "longest_first_frame",
    "too_much_setup",
]

MAJOR_VERSION: Final = 1
MINOR_VERSION: Final = 0

MAX_MILLISECONDS: Final = 2**31 - 1

LEASE_REQUIRED: Final = (
    "this server serves only clients that ask for leases: set the flag L in SETUP "
    "(rsocket-trio: lease=LeaseOptions() of connect, or --lease)"
)
"""The text for a client that does not ask for leases, where they are required."""


_FIELDS: Final = 6 + 12 + 2 * (1 + 255) + METADATA_LENGTH_SIZE
"""The most bytes of a SETUP besides its token, metadata and data: header, version, times, MIME
types and metadata length."""

_TOKEN: Final = 2 + 0xFFFF


def longest_first_frame(max_setup_size: int, *, resume_offered: bool) -> int:
    """Return the bytes of the longest first frame that may be accepted.

    A longer one is refused before it has arrived: it comes from a stranger.
    """
    return _FIELDS + max_setup_size + (_TOKEN if resume_offered else 0)


def too_much_setup(max_setup_size: int) -> RejectedSetup:
    """Return the refusal of a SETUP with too much metadata and data."""
    return RejectedSetup(f"more than {max_setup_size} bytes of metadata and data (max_setup_size)")


def check_first_frame(frame: Frame, *, resume_offered: bool = False) -> SetupFrame | ResumeFrame:
    """Check the type of the first frame that a server receives.

    Args:
        frame: The decoded frame.
        resume_offered: Whether this server keeps sessions for resumption.

    Returns:
        The frame, if it is a SETUP (`check_setup` checks its fields), or a RESUME, if resumption
        is offered.

    Raises:
        InvalidSetup: It is neither SETUP nor RESUME, or is not on stream 0.
        RejectedResume: It is a RESUME: sessions are not resumed here.
    """
    # Protocol.md, "Connection Establishment". A RESUME on another stream than 0 is no valid
    # RESUME, so it gets the answer for an invalid first frame and not that of resumption.
    if not isinstance(frame, SetupFrame | ResumeFrame):
        raise InvalidSetup(f"the first frame must be SETUP or RESUME, not {frame.frame_type.name}")
    if frame.stream_id:
        raise InvalidSetup(f"{frame.frame_type.name} must be on stream 0, not {frame.stream_id}")
    if isinstance(frame, ResumeFrame) and not resume_offered:
        raise RejectedResume("this server does not resume sessions")
    return frame


def check_setup(
    frame: SetupFrame,
    *,
    resume_offered: bool = False,
    lease_offered: bool = False,
    lease_required: bool = False,
    max_size: int | None = None,
) -> None:
    """Check the fields of a SETUP, before any acceptor sees it.

    Args:
        frame: The decoded frame.
        resume_offered: Whether this server keeps sessions for resumption.
        lease_offered: Whether this server grants leases.
        lease_required: Whether it serves only clients that ask for leases.
        max_size: The maximum size of its metadata and data, in bytes.

    Raises:
        InvalidSetup: It is not on stream 0, is of another version than 1.0, has a keepalive
            interval or max lifetime of 0, or asks for resumption with an empty token.
        RejectedSetup: It asks for resumption, which is not offered; does not ask for leases, which
            are required; or has too much metadata and data.
        UnsupportedSetup: It asks for leases, which are not offered.
    """
    if frame.stream_id:
        raise InvalidSetup(f"SETUP must be on stream 0, not {frame.stream_id}")
    # Protocol.md, "Versioning Scheme": a lower version may be accepted, a higher one cannot be.
    if (frame.major, frame.minor) != (MAJOR_VERSION, MINOR_VERSION):
        raise InvalidSetup(
            f"version {frame.major}.{frame.minor} is not {MAJOR_VERSION}.{MINOR_VERSION}"
        )
    if frame.keepalive_interval_ms < 1:
        raise InvalidSetup("the keepalive interval must be greater than 0")
    if frame.max_lifetime_ms < 1:
        raise InvalidSetup("the max lifetime must be greater than 0")
    if frame.resume_token is not None:
        # "SETUP Frame": without resumption the answer MUST be REJECTED_SETUP.
        if not resume_offered:
            raise RejectedSetup("resumption is not supported")
        if not frame.resume_token:
            raise InvalidSetup("the resume token is empty")
    if frame.lease and not lease_offered:
        raise UnsupportedSetup("leases are not supported")
    if lease_required and not frame.lease:
        # Not UNSUPPORTED_SETUP: nothing that the client specified is unsupported ("Error Codes").
        raise RejectedSetup(LEASE_REQUIRED)
    if max_size is not None and len(frame.data) + len(frame.metadata or b"") > max_size:
        raise too_much_setup(max_size)


def limit_lifetime(frame: SetupFrame, at_most: float) -> SetupFrame:
    """Return the SETUP with its max lifetime limited to ``at_most`` seconds.

    It is limited, not refused: clients use 2**31 - 1 milliseconds for "no limit". The keepalive
    interval does not change: a client that is silent for longer than the lifetime is dead here,
    also if it announced a longer interval.
    """
    milliseconds = max(1, round(at_most * 1000))
    return attrs.evolve(frame, max_lifetime_ms=min(frame.max_lifetime_ms, milliseconds))


def build_setup(
    *,
    keepalive_interval: float,
    max_lifetime: float,
    data_mime_type: str,
    metadata_mime_type: str,
    payload: Payload = Payload(),  # noqa: B008 - immutable
    resume_token: bytes | None = None,
    lease: bool = False,
) -> SetupFrame:
    """Build the SETUP frame of a client.

    Args:
        keepalive_interval: In seconds; rounded to milliseconds, to 1 ms at least.
        max_lifetime: In seconds; rounded to milliseconds, to 1 ms at least.
        data_mime_type: US-ASCII, up to 255 bytes.
        metadata_mime_type: US-ASCII, up to 255 bytes.
        payload: The setup payload.
        resume_token: Identifies the session; ``None`` if it cannot be resumed.
        lease: Whether to ask for leases.

    Raises:
        LocalProtocolError: A time is not above 0 or too long for its field; a MIME type is not
            US-ASCII, contains NUL, or is too long; the resume token is empty or too long; or the
            payload does not fit, as SETUP cannot be fragmented.
    """
    # "SETUP Frame": MIME types MUST NOT be null terminated.
    if "\0" in data_mime_type or "\0" in metadata_mime_type:
        raise LocalProtocolError("a MIME type must not contain NUL")
    if resume_token is not None and not resume_token:
        raise LocalProtocolError("a resume token must not be empty")
    bare = SetupFrame(
        MAJOR_VERSION,
        MINOR_VERSION,
        _milliseconds("keepalive interval", keepalive_interval),
        _milliseconds("max lifetime", max_lifetime),
        resume_token=resume_token,
        lease=lease,
        metadata_mime_type=metadata_mime_type,
        data_mime_type=data_mime_type,
    )
    # Encoding checks the fields. It is cheap without the payload, which may be large.
    size = len(bare.encode()) + len(payload.data)
    if payload.metadata is not None:
        size += METADATA_LENGTH_SIZE + len(payload.metadata)
    # "Fragmentation And Reassembly": only requests and PAYLOAD are fragmented.
    if size > MAX_FRAME_SIZE:
        raise LocalProtocolError(
            f"SETUP would be {size} bytes long: it cannot be fragmented, and a frame has at most"
            f" {MAX_FRAME_SIZE}"
        )
    return attrs.evolve(bare, metadata=payload.metadata, data=payload.data)


def _milliseconds(what: str, seconds: float) -> int:
    # This form of the condition also refuses NaN.
    if not 0 < seconds <= MAX_MILLISECONDS / 1000:
        raise LocalProtocolError(f"{what} must be above 0 s and below 2**31 ms, not {seconds} s")
    return max(1, round(seconds * 1000))
