"""The end of a worker process of `multiprocessing`: its last records are sent before.

Such a process ends without `atexit`, and so without `logging.shutdown`. And ``with Pool()`` and
`multiprocessing.Process.terminate` end it by SIGTERM.

A handler of `signal` would be no help: Python runs it in the main thread, which may be about to
block in a system call at this moment, and then the end of the pool waits for ever. A wakeup file
descriptor belongs to trio or asyncio, and a blocked signal is inherited by the programs that the
worker starts. But `faulthandler` writes to a pipe at the very moment of the signal, whatever the
main thread does, and any thread can begin and end that. A thread waits for these bytes. The main
thread is not disturbed: it goes on until the process ends.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

__all__ = ["settle_before_end"]


def settle_before_end(settle: Callable[[], None]) -> None:
    """Have a function called at the end, if this is a worker process of `multiprocessing`.

    It may be called more than once, also by two threads.
    """
    # Importing it here would cost every program some milliseconds.
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _settle_alone, args=(settle,), exitpriority=0)
        _termination.settle_first(settle)


def _settle_alone(settle: Callable[[], None]) -> None:
    """Call a function. Two ends may come at once: the first must not end the process too early."""
    with _termination.settling:
        settle()


class _Termination:
    """Calls functions when SIGTERM comes, and then lets it end the process.

    Attributes:
        settling: Held while a function is called.
    """

    def __init__(self) -> None:
        self.settling: Final = threading.Lock()
        self._starting: Final = threading.Lock()
        self._settle: Final[list[Callable[[], None]]] = []
        self._pipe: tuple[int, int] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether SIGTERM is handled here."""
        return self._pipe is not None

    def settle_first(self, settle: Callable[[], None]) -> None:
        """Add a function. A program that handles SIGTERM itself is left alone."""
        with self._starting:
            self._settle.append(settle)
            if self._pipe is None and _is_default() and hasattr(faulthandler, "register"):
                # Without a descriptor or a thread, SIGTERM ends the process at once, as ever.
                with suppress(OSError, RuntimeError):
                    self._begin()

    def _begin(self) -> None:
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        thread = threading.Thread(target=self._wait, args=(told,), name=__name__, daemon=True)
        try:
            thread.start()
        except BaseException:  # closed before the error goes on
            os.close(told)
            os.close(tell)
            raise
        self._pipe = told, tell
        faulthandler.register(signal.SIGTERM, tell, all_threads=False)

    def _wait(self, told: int) -> None:
        os.read(told, 1)
        try:
            for settle in self._settle:
                _settle_alone(settle)
        finally:
            faulthandler.unregister(signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

    def forget(self) -> None:
        """Do nothing, in a forked child: its SIGTERM is none of its parent."""
        if self._pipe is not None:
            if _is_default():
                faulthandler.unregister(signal.SIGTERM)
            for descriptor in self._pipe:
                os.close(descriptor)


def _is_default() -> bool:
    return signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


_termination = _Termination()


class _Fork(threading.local):
    """The signals that are blocked in this thread, while it forks."""

    blocked: set[signal.Signals | int] | None = None


_fork = _Fork()


def _hold_sigterm() -> None:
    """A child would swallow the signal and tell its parent, until it has its own handling."""
    if _termination.has_begun:
        _fork.blocked = set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}))


def _let_sigterm_come() -> None:
    blocked, _fork.blocked = _fork.blocked, None
    if blocked is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _begin_anew() -> None:
    global _termination
    _termination.forget()
    _termination = _Termination()
    _let_sigterm_come()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_sigterm, after_in_parent=_let_sigterm_come, after_in_child=_begin_anew
    )
