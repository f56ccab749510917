"""Something to do when the program ends, while threads still work: `ProgramEnd`.

A daemon thread stops wherever it is, so connections and files would stay as they are. `atexit` is
too late: no thread can be started any more, which trio does e.g. to write to a disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["ProgramEnd"]


class _Watcher(threading.Thread):
    """A thread that waits for the end. Two of them do not wait for each other."""


class ProgramEnd:
    """Calls a function when the main thread and all others that are no daemons have ended.

    Args:
        function: The function. It is called once, by a thread.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Final = function
        # Reentrant: a signal handler may come in between.
        self._lock = threading.RLock()
        self._watcher: threading.Thread | None = None

    def watch(self) -> None:
        """Wait for the end, from now on."""
        if self._watcher is not None or not threading.main_thread().is_alive():
            return
        with self._lock:
            if self._watcher is None:
                # A thread takes over from its maker whether it is a daemon.
                watcher = _Watcher(target=self._wait, name="end of trio threads", daemon=False)
                watcher.start()
                self._watcher = watcher

    def _wait(self) -> None:
        threading.main_thread().join()
        while others := [each for each in threading.enumerate() if _works(each)]:
            others[0].join()
        self._function()

    def forget(self) -> None:
        """Forget the watcher and the lock: the process was forked, and has neither."""
        self._lock = threading.RLock()
        self._watcher = None


def _works(thread: threading.Thread) -> bool:
    """Return whether a thread keeps the program from ending, besides the main thread and ours."""
    known = isinstance(thread, _Watcher) or thread is threading.main_thread()
    return not thread.daemon and not known
