"""The meaning of an ERROR on stream 0.

Protocol.md, "Error Codes" and "Handling the Unexpected": the setup codes (INVALID_SETUP to
REJECTED_RESUME) have a meaning only for a client that waits for its SETUP to be accepted. The two
connection codes end the connection, at once or when its streams have ended.

Choices where the text is silent: on an established connection, a code that does not belong on
stream 0 is ignored, like all frames that make no sense. Before that, the client takes any ERROR on
stream 0 as a refusal ("Connection Establishment"): a server that sends one will not go on.
"""

from __future__ import annotations

from enum import Enum, auto

from rsocket_trio.errors import ErrorCode

__all__ = ["ZeroStreamError", "classify_error"]


class ZeroStreamError(Enum):
    """The reaction to an ERROR on stream 0."""

    IGNORE = auto()
    """Do nothing."""
    SETUP_REFUSED = auto()
    """The server has refused our SETUP: there is no connection."""
    CONNECTION_ERROR = auto()
    """The connection and all its streams are over now."""
    CONNECTION_CLOSE = auto()
    """Begin no new requests; the connection is over when the open streams have ended."""


def classify_error(code: int, *, client: bool, established: bool) -> ZeroStreamError:
    """Decide the reaction to an ERROR on stream 0.

    Args:
        code: The received code, any u32.
        client: Whether we are the client.
        established: Whether the SETUP is accepted (server), or a frame came that a server sends
            only after it has accepted the SETUP (client).
    """
    if code == ErrorCode.CONNECTION_ERROR:
        return ZeroStreamError.CONNECTION_ERROR
    if code == ErrorCode.CONNECTION_CLOSE:
        return ZeroStreamError.CONNECTION_CLOSE
    if client and not established:
        return ZeroStreamError.SETUP_REFUSED
    return ZeroStreamError.IGNORE
