"""What an ERROR on stream 0 means.

Protocol.md, "Error Codes" and "Handling the Unexpected": the setup codes (INVALID_SETUP to
REJECTED_RESUME) mean something to a client that waits for its SETUP to be accepted and to nobody
else; the two connection codes end the connection, at once or when its streams have ended.

Choices where the text is silent: a code that does not belong on stream 0 is ignored on a
connection that is established, like all that makes no sense. Before that the client takes any
ERROR there as a refusal ("Connection Establishment"): a server that sends one will not go on.
"""

from __future__ import annotations

from enum import Enum, auto

from rsocket_trio.errors import ErrorCode

__all__ = ["ZeroStreamError", "classify_error"]


class ZeroStreamError(Enum):
    """What to do about an ERROR on stream 0."""

    IGNORE = auto()
    """Nothing."""
    SETUP_REFUSED = auto()
    """Our SETUP was refused: the connection never came about."""
    CONNECTION_ERROR = auto()
    """The connection is over now, and with it all its streams."""
    CONNECTION_CLOSE = auto()
    """No new requests; the connection is over when the open streams have ended."""


def classify_error(code: int, *, client: bool, established: bool) -> ZeroStreamError:
    """Say what an ERROR on stream 0 means.

    Args:
        code: As received, any u32.
        client: Whether we are the client.
        established: Whether the SETUP is accepted (server), or something came that only an
            accepted SETUP can cause (client).
    """
    if code == ErrorCode.CONNECTION_ERROR:
        return ZeroStreamError.CONNECTION_ERROR
    if code == ErrorCode.CONNECTION_CLOSE:
        return ZeroStreamError.CONNECTION_CLOSE
    if client and not established:
        return ZeroStreamError.SETUP_REFUSED
    return ZeroStreamError.IGNORE
