"""Which protocol a peer speaks that does not speak ours, by its first octets: `recognise_foreign`.

For the texts of errors only, and only where it is sure: each beginning is long, or follows
from what the other protocol must answer.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ENOUGH", "recognise_foreign"]

ENOUGH: Final = 64
"""`recognise_foreign` looks at this many octets at most."""

_HTTP_REQUEST: Final = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH) [/*h].")

_RSIO_HELLO: Final = b"\x02\x00"
"""The type and the version of a serverHello."""
_RSIO_REFUSAL: Final = b"protocol error: hello-expected"
"""The goodbye of rsio to a client that says no hello."""

_RSOCKET_ERROR: Final = b"\x00\x00\x00\x00\x2c\x00\x00\x00"
"""An ERROR frame on stream 0, and the half of its code. Its last octets follow."""
_RSOCKET_CODES: Final = frozenset((b"\x00\x01", b"\x00\x02", b"\x00\x03", b"\x01\x01"))
"""INVALID_SETUP, UNSUPPORTED_SETUP, REJECTED_SETUP, CONNECTION_ERROR."""


def recognise_foreign(first: bytes) -> str | None:
    """Return the name of the protocol whose octets these are, ``None`` if it is not sure.

    Args:
        first: The first octets of the peer, as many as have come, up to `ENOUGH`.
    """
    if first.startswith(b"HTTP/1.") or _HTTP_REQUEST.match(first):
        return "HTTP"
    if first.startswith(b"SSH-2.0-"):
        return "SSH"
    if first[:2] == b"\x15\x03" and first[3:6] in (b"\x00\x02\x01", b"\x00\x02\x02"):
        return "TLS"  # an alert, as the first message was no TLS
    if first[:2] == b"\x16\x03" and first[2:3] <= b"\x04" and first[5:6] == b"\x01":
        return "TLS"  # a ClientHello
    if first.startswith(_RSIO_HELLO) and _RSIO_REFUSAL in first[:ENOUGH]:
        return "rsio"
    for at in (0, 3):  # a WebSocket message has no length before the frame
        if first[at : at + 8] == _RSOCKET_ERROR and first[at + 8 : at + 10] in _RSOCKET_CODES:
            return "RSocket"
    return None
