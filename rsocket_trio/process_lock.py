"""A lock that one process holds as long as it lives: `ProcessLock`.

`rsocket_trio.sockets.file_lock` is for the other case: a lock for some milliseconds, which the next
process waits for, and whose file is removed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import os_support
from .private_files import open_private

__all__ = ["LockHeld", "NoFileLocks", "ProcessLock"]


class LockHeld(Exception):
    """Another block holds the lock, in this process or in another.

    Attributes:
        holder: The id of its process, or ``unknown``.
    """

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class NoFileLocks(Exception):
    """The system has no file locks (flock)."""


class ProcessLock:
    """Takes the lock of the file at ``path``, at once or not at all.

    The lock is the kernel's (flock), so it ends with the process that holds it, also after a crash.
    The file stays. It has the id of the process, for error texts only.

    Raises:
        LockHeld: Another block holds the lock.
        NoFileLocks: The system has no file locks.
        OSError: The file cannot be opened, or it is a symbolic link.
    """

    def __init__(self, path: Path) -> None:
        if not os_support.FILE_LOCKS:
            raise NoFileLocks
        import fcntl  # Windows does not have it.

        # Python's descriptors are closed in programs that are started.
        self._descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
                raise LockHeld(holder or "unknown") from None
            os.ftruncate(self._descriptor, 0)
            # Only error texts need the id: a full disk must not refuse the lock.
            with suppress(OSError):
                os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:  # closed before the error goes on
            os.close(self._descriptor)
            raise
        _held.add(self._descriptor)

    def release(self) -> None:
        """Release the lock."""
        _held.discard(self._descriptor)
        os.close(self._descriptor)


_held: Final[set[int]] = set()
"""The descriptors of the locks that this process holds."""


def _leave_to_parent() -> None:
    """Close the locks in a forked child: otherwise the child holds them after its parent ends."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
