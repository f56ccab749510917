"""What a peer can do wrong, and what follows from it: `ProtocolViolation`."""

from __future__ import annotations

from enum import StrEnum

from rsocket_trio.errors import ProtocolError

__all__ = ["Handling", "ProtocolViolation", "ViolationCode"]


class Handling(StrEnum):
    """What follows from a violation."""

    CONNECTION_ERROR = "connection-error"
    """Send a goodbye with the reason, read no more, close without waiting for the peer."""
    VERSION_MISMATCH = "version-mismatch"
    """The same, and nothing that the peer has sent behind its version counts."""
    STREAM_ERROR = "stream-error"
    """The publisher ends this one stream with an onError."""


class ViolationCode(StrEnum):
    """The kinds of violations. The goodbye names them."""

    UNKNOWN_TYPE = "unknown-type"
    HELLO_EXPECTED = "hello-expected"
    HELLO_REPEATED = "hello-repeated"
    VERSION = "version"
    VARINT_NOT_MINIMAL = "varint-not-minimal"
    VARINT_TOO_LONG = "varint-too-long"
    LIMIT = "limit"
    UTF8 = "utf8"
    UNKNOWN_ID = "unknown-id"
    DUPLICATE_ID = "duplicate-id"
    NOT_SUBSCRIBED = "not-subscribed"
    SUBSCRIBED_TWICE = "subscribed-twice"
    DEMAND = "demand"
    DEMAND_ZERO = "demand-zero"
    PACKED_EMPTY = "packed-empty"
    PACKED_VARIABLE = "packed-variable"
    PART_MISSING = "part-missing"
    PARTS_OPEN = "parts-open"
    ELEMENT_SIZE = "element-size"


class ProtocolViolation(ProtocolError):
    """The peer broke a rule of rsio. The text begins with the code.

    Attributes:
        code: The kind.
        handling: What follows.
        reason: The text of our goodbye.
    """

    def __init__(
        self,
        code: ViolationCode,
        detail: str,
        handling: Handling = Handling.CONNECTION_ERROR,
    ) -> None:
        super().__init__(f"{code} {detail}")
        self.code = code
        self.handling = handling
        self.reason = (
            f"unsupported version {detail}"
            if handling is Handling.VERSION_MISMATCH
            else f"protocol error: {code} {detail}"
        )
