"""A lock between processes, by a file: `locked`."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from ..private_files import open_private

__all__ = ["locked"]

_PATIENCE: Final = 5.0
"""How long to wait for another process, in seconds. It holds the lock for milliseconds."""

_PAUSE: Final = 0.01
"""The time between two attempts, in seconds: the kernel cannot wait for a lock with a timeout."""


@asynccontextmanager
async def locked(path: str) -> AsyncIterator[None]:
    """Hold the lock of the file ``path`` for the block. The file exists only for that time.

    The lock is the kernel's (flock), so it ends with the process that holds it, also after a crash;
    a file that a crash has left is not locked. If the file was removed while a process took its
    lock, the process tries again with the file that exists now.

    Raises:
        OSError: The file cannot be made, or another process holds it for 5 s (EADDRINUSE).

    Checkpoint: entering, if another process holds it.
    If cancelled: the lock is released.
    """
    descriptor = await _acquire(path)
    try:
        yield
    finally:
        # Removed first: other processes cannot take the lock before the file is closed.
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


async def _acquire(path: str) -> int:
    end = trio.current_time() + _PATIENCE
    while True:
        # Whoever can open the file can hold its lock.
        descriptor = open_private(path, os.O_RDONLY | os.O_CREAT)
        held = False
        try:
            held = _try_lock(descriptor, path)
        finally:
            if not held:
                os.close(descriptor)
        if held:
            return descriptor
        if trio.current_time() >= end:
            reason = (
                f"another process has held this lock file for {_PATIENCE:g} s, in order to listen "
                "at the address"
            )
            raise OSError(errno.EADDRINUSE, reason, path)
        await trio.sleep(_PAUSE)


def _try_lock(descriptor: int, path: str) -> bool:
    """Try to take the lock; return whether we hold it, and the file still has this path."""
    import fcntl  # Windows does not have it; `os_support.UNIX_SOCKETS` says whether it exists.

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
