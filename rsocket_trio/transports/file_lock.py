"""A lock between processes, for as long as something takes that must not happen twice: `locked`."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

__all__ = ["locked"]

_PATIENCE: Final = 5.0
"""How long to wait for another process, in seconds. What it does takes milliseconds."""

_PAUSE: Final = 0.01
"""Between two looks, in seconds: the kernel has no way to wait for a lock and for a deadline."""


@asynccontextmanager
async def locked(path: str) -> AsyncIterator[None]:
    """Hold the lock file ``path``, which is there only for that time.

    The lock is the kernel's (flock), so it is gone with the process that held it, however that
    ends; a file that is left by a crash means nothing. Who has got the lock of a file that was
    removed meanwhile has got nothing, and tries again with the file that is there now.

    Raises:
        OSError: The file cannot be made, or another process holds it for 5 s (EADDRINUSE).

    Checkpoint: entering, where another process holds it.
    If cancelled: it is not held any more.
    """
    descriptor = await _acquire(path)
    try:
        yield
    finally:
        # Removed first: nobody else can hold it before it is closed.
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


async def _acquire(path: str) -> int:
    end = trio.current_time() + _PATIENCE
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        held = False
        try:
            held = _holds(descriptor, path)
        finally:
            if not held:
                os.close(descriptor)
        if held:
            return descriptor
        if trio.current_time() >= end:
            reason = "another process is about to listen there"
            raise OSError(errno.EADDRINUSE, reason, path)
        await trio.sleep(_PAUSE)


def _holds(descriptor: int, path: str) -> bool:
    """Whether the lock could be had, of the file that is there."""
    import fcntl  # Not everywhere; but where there are Unix sockets.

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
