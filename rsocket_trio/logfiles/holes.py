"""NUL bytes in log files that belong to no line: `without_holes`, `find_data`.

After ``copytruncate``, a writer that does not append goes on at its old offset. In front of that is
a hole, which the file system reads as NUL bytes. A crash of the host leaves such bytes, too. A hole
may have any size, but takes no room on the disk.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Final

__all__ = ["find_data", "without_holes"]

_HOLE: Final = re.compile(rb"(\0{64,})")
"""No program writes so many NUL bytes into a line of text."""
_REST_OF_HOLE: Final = re.compile(rb"(\A\0+|\0{64,})")
_ANY: Final = re.compile(rb"(\0+)")
_UNKNOWN: Final = (errno.EINVAL, errno.ENOTSUP)
"""Some file systems cannot tell where data is: then it is read."""
_PART: Final = 2**20
_AT_ONCE: Final = 64 * 2**20
"""How far one call looks for data, in bytes, where the file system cannot tell."""


def without_holes(data: bytes, *, begun: bool, any_size: bool) -> list[tuple[int, bytes]]:
    """Divide bytes of a file at its holes.

    Args:
        data: The bytes. They do not end with NUL bytes.
        begun: Whether a hole begins before them, so that the first NUL bytes belong to it, however
            few they are.
        any_size: Whether all NUL bytes belong to holes. The file begins with a hole, so its writer
            does not append, and each truncation can leave a further hole, of any size.

    Returns:
        For each part, the size of the hole before it, and its bytes.
    """
    if b"\0" not in data:  # A search for one byte is much faster.
        return [(0, data)]
    pattern = _ANY if any_size else _REST_OF_HOLE if begun else _HOLE
    first, *others = pattern.split(data)
    holes, texts = others[::2], others[1::2]
    return [(0, first), *zip(map(len, holes), texts, strict=True)]


def find_data(descriptor: int, start: int) -> tuple[int, bool]:
    """Find the next byte of an open file that is not NUL.

    Returns:
        The offset up to which there are NUL bytes only, and whether there is another byte. If not,
        the file ends there, or has so many that the next call goes on there.

    Raises:
        OSError: The file cannot be read.
    """
    stop = start + _AT_ONCE
    while start < stop:
        if hasattr(os, "SEEK_DATA"):
            try:
                start = os.lseek(descriptor, start, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # From here to the end there is a hole.
                    return max(start, os.fstat(descriptor).st_size), False
                if error.errno not in _UNKNOWN:
                    raise
        data = os.pread(descriptor, _PART, start)
        if not data:
            break
        rest = data.lstrip(b"\0")
        start += len(data) - len(rest)
        if rest:
            return start, True
    return start, False
