"""Translate error codes between the draft and RSocket 1.0. No state, no I/O.

RSocket 1.0 has the codes of the draft and two more. Some implementations of the draft did not adopt
its last change, and send the older numbers (0x11 for CONNECTION_ERROR and so on). We read these
numbers, and never send them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rsocket_trio.errors import ErrorCode

__all__ = ["read_code", "read_reason", "reason_fields"]

# The numbers before 2015-09-11. Peers that had no other code for a refused SETUP sent 0x24 on
# stream 0.
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
    """Return the code of RSocket 1.0 for a received code."""
    return (_OLD_ON_STREAMS if stream_id else _OLD_ON_ZERO).get(code, code)


def read_reason(metadata: bytes | None, data: bytes) -> bytes:
    """Return the text of a received ERROR: its data, or its metadata if the data is empty.

    By "Error Codes" the reason of a REJECTED is in the metadata. The data may end in a NUL.
    """
    return data.removesuffix(b"\0") or (metadata or b"")


def reason_fields(code: int, text: bytes) -> tuple[bytes | None, bytes]:
    """Return metadata and data of an ERROR to send.

    The reason of a REJECTED goes into the metadata as the draft says, and also into the data, as
    most peers read only the data. Data MUST be UTF-8 ("Error Frame"). A large text must not grow,
    as the frame must still fit: it goes into the data only, and may lose its end.
    """
    data = text.decode("utf-8", "replace").encode()
    if len(text) > _LARGE_TEXT:
        return None, data[: len(text)].decode("utf-8", "ignore").encode()
    return (data if code == ErrorCode.REJECTED and data else None), data
