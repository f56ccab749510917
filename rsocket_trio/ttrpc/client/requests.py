"""The body of a REQUEST, and the time in it: `request_body`, `timeout_until`."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from ..codec import plain_bytes
from ..wire.envelopes import Metadata, Request, encode_request
from ..wire.protobuf import varint

if TYPE_CHECKING:
    from ..methods import Method

__all__ = ["fresh_body", "request_body", "timeout_until"]

_LONGEST: Final = 2**63 - 1


def timeout_until(deadline: float) -> int:
    """Return how long the caller waits, in nanoseconds; 0 if there is no limit.

    It is at least 1: a deadline that is over is for the caller's own cancel scope to notice.

    Args:
        deadline: `trio.current_effective_deadline`.
    """
    if deadline == inf:
        return 0
    left = deadline - trio.current_time()
    if left <= 0:
        return 1
    return max(1, int(left * 1e9)) if left < _LONGEST / 1e9 else _LONGEST


def request_body(
    method: Method[Any, Any], payload: bytes, timeout: int, metadata: Metadata
) -> bytes:
    """Return the body of a REQUEST.

    Raises:
        LocalProtocolError: Metadata cannot be written as UTF-8.
        TypeError: The codec has made no bytes of the message.
    """
    if type(payload) is not bytes:
        payload = plain_bytes(payload)
    body = method.head
    if payload:
        size = len(payload)
        if size < 0x80:
            body += b"\x1a%c" % size + payload
        elif size < 0x4000:
            body += b"\x1a%c%c" % (size & 0x7F | 0x80, size >> 7) + payload  # saves a call
        else:
            body += b"\x1a" + varint(size) + payload
    if timeout:
        body += b"\x20" + varint(timeout)
    if metadata:
        body += encode_request(Request("", "", metadata=metadata))
    return body


def fresh_body(method: Method[Any, Any], payload: bytes, metadata: Metadata) -> bytes:
    """Return the body of a REQUEST that leaves now, with the time that the caller has left.

    Raises:
        LocalProtocolError: As `request_body`.
        TypeError: As `request_body`.
    """
    timeout = timeout_until(trio.current_effective_deadline())
    return request_body(method, payload, timeout, metadata)
