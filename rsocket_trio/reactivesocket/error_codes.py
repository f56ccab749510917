"""Error codes of the draft and of RSocket 1.0, one for the other. Pure.

The codes of 1.0 are those of the draft with two more. Some peers of the draft never learnt its
last change and send the numbers it had before (0x11 for CONNECTION_ERROR and so on); these are
read, and never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rsocket_trio.errors import ErrorCode

__all__ = ["read_code", "read_reason", "reason_fields"]

# Before 2015-09-11. 0x24 on stream 0 is how a refused SETUP came from peers that had no other
# code for it.
_OLD_ON_ZERO: Final[Mapping[int, int]] = MappingProxyType(
    {
        0x11: ErrorCode.CONNECTION_ERROR,
        0x24: ErrorCode.INVALID_SETUP,
        ErrorCode.INVALID: ErrorCode.INVALID_SETUP,
    }
)
_OLD_ON_STREAMS: Final[Mapping[int, int]] = MappingProxyType(
    {
        0x21: ErrorCode.APPLICATION_ERROR,
        0x22: ErrorCode.REJECTED,
        0x23: ErrorCode.CANCELED,
        0x24: ErrorCode.INVALID,
    }
)


_LARGE_TEXT: Final = 256


def read_code(code: int, stream_id: int) -> int:
    """The code of 1.0 for a code received."""
    return (_OLD_ON_STREAMS if stream_id else _OLD_ON_ZERO).get(code, code)


def read_reason(metadata: bytes | None, data: bytes) -> bytes:
    """The text of an ERROR received: its data, or where that is empty its metadata.

    "Error Codes" has the reason of a REJECTED in the metadata. The data may end in a NUL.
    """
    return data.removesuffix(b"\0") or (metadata or b"")


def reason_fields(code: int, text: bytes) -> tuple[bytes | None, bytes]:
    """Metadata and data of an ERROR to send.

    The reason of a REJECTED goes into the metadata as the draft says, and into the data, which is
    all that most peers look at. Data MUST be UTF-8 ("Error Frame"). A text that is large stays
    as large as it is, since it fitted a frame as it was: it comes once, and may lose its end.
    """
    data = text.decode("utf-8", "replace").encode()
    if len(text) > _LARGE_TEXT:
        return None, data[: len(text)].decode("utf-8", "ignore").encode()
    return (data if code == ErrorCode.REJECTED and data else None), data
