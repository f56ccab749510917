"""Disk space that a spool holds, to give it up when the disk is full: `Reserve`."""

from __future__ import annotations

import errno
import os
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from .. import os_support
from ..log_policy import logger
from ..private_files import open_private
from .directory import reserve_of

__all__ = ["NO_ROOM", "Reserve"]

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The disk is full, the quota of the user is used up, or files cannot become larger."""

_RETRY: Final = 10.0
"""Seconds until a file that could not be written is tried again: a lack of descriptors passes."""

_BLOCK: Final = 2**20


class Reserve:
    """A file with real disk space beside the database. What it contains means nothing.

    The file is opened for each change, and is changed rarely. All methods block.

    Attributes:
        size: The bytes that it holds.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = reserve_of(directory)
        self._usable = True
        self._not_before = -inf
        self.size = _held_by(self._path)

    def holds(self, size: int) -> bool:
        """Return whether it holds so many bytes, or cannot hold any for now."""
        return self.size >= size or monotonic() < self._not_before

    def take(self, size: int) -> bool:
        """Hold at least so many bytes. Return whether the disk has them.

        If the file cannot be written for another reason, this logs a warning, and the spool goes on
        without a reserve. It is tried again from time to time.
        """
        if self.holds(size):
            return True
        try:
            status = os.statvfs(self._directory)
            free = status.f_bfree * status.f_frsize
            if status.f_blocks and free < size - self.size:
                # An attempt would take all that is left from other programs for a moment.
                return False
            _allocate(self._path, size)
        except OSError as error:
            self.cut(self.size)  # A failed attempt may leave a part of the space.
            if error.errno in NO_ROOM:
                return False
            self._give_up(error)
            return True
        self.size = size
        if not self._usable:
            self._usable = True
            logger.info(
                "the spool has a reserve of disk space again: %s can be written", self._path
            )
        return True

    def cut(self, size: int) -> None:
        """Hold at most so many bytes. The others are free on return."""
        self.size = min(self.size, size)
        try:
            descriptor = open_private(self._path, os.O_WRONLY)
        except FileNotFoundError:
            self.size = 0
            return
        except OSError as error:
            self._give_up(error)
            return
        try:
            if os.fstat(descriptor).st_size > self.size:
                os.ftruncate(descriptor, self.size)
                # Some file systems free the space of a file with their next transaction.
                os.fsync(descriptor)
        except OSError as error:
            self._give_up(error)
        finally:
            os.close(descriptor)

    def _give_up(self, error: OSError) -> None:
        self.size = 0
        self._not_before = monotonic() + _RETRY
        if self._usable:
            self._usable = False
            logger.warning(
                "the spool goes on without a reserve of disk space, because %s cannot be written:"
                " %s. If the disk becomes full, the spool may need room before positions are"
                " stored",
                self._path,
                error.strerror,
            )


def _held_by(path: Path) -> int:
    """Return the bytes that the file holds: 0 if it has holes, e.g. because it was copied."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if status.st_blocks * 512 >= status.st_size else 0


def _allocate(path: Path, size: int) -> None:
    """Let the file have real disk space for so many bytes.

    Raises:
        OSError: There is no such space, or the file cannot be written.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        if os_support.ALLOCATION:
            try:
                os.posix_fallocate(descriptor, 0, size)
            except OSError as error:
                # Some C libraries do not write blocks where the file system cannot allocate them.
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise
            else:
                return
        _write(descriptor, size)
    finally:
        os.close(descriptor)


def _write(descriptor: int, size: int) -> None:
    """Write blocks up to a size. They are random: some file systems store no zeros."""
    at = os.fstat(descriptor).st_size
    if os.fstat(descriptor).st_blocks * 512 < at:
        at = 0
    block = os.urandom(_BLOCK)
    while at < size:
        at += os.pwrite(descriptor, block[: size - at], at)
