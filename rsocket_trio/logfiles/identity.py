"""Which file is which: `FileKey`, `Fingerprint`.

A path does not identify a log file, because rotation renames it. Device and inode do, but the
inode of a deleted file is soon used for a new one. So the first bytes of the file belong to its
identity too.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final, NamedTuple

import attrs

__all__ = ["HEAD_SIZE", "FileKey", "Fingerprint", "head_of"]

HEAD_SIZE: Final = 1024
"""The bytes at the beginning of a file that are compared, as Filebeat's fingerprint."""


class FileKey(NamedTuple):
    """The device and the inode of a file: its identity as long as it is open."""

    device: int
    inode: int

    @classmethod
    def of(cls, facts: os.stat_result) -> FileKey:
        """Return the key in what ``stat`` returns."""
        return cls(facts.st_dev, facts.st_ino)


def head_of(descriptor: int) -> bytes:
    """Return the first bytes of an open file, `HEAD_SIZE` of them if there are so many.

    Room behind the last line that a program has reserved for further ones does not belong to them.
    """
    head = os.pread(descriptor, HEAD_SIZE, 0)
    return head.rstrip(b"\0") or head


@attrs.frozen
class Fingerprint:
    """The first bytes of a file, as a hash: they may be confidential.

    Attributes:
        size: How many bytes there are, at most `HEAD_SIZE`.
        digest: Their SHA-256 in hexadecimal.
    """

    size: int
    digest: str

    @classmethod
    def of(cls, head: bytes) -> Fingerprint:
        """Return the fingerprint of the first bytes of a file."""
        return cls(len(head), hashlib.sha256(head).hexdigest())

    def matches(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` can be this file, grown meanwhile."""
        return len(head) >= self.size and Fingerprint.of(head[: self.size]) == self
