"""The thread that sends: it runs trio, and is a daemon."""

from __future__ import annotations

import codecs
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Final
from uuid import uuid4

import trio

from ...log_policy import logger

__all__ = ["MARK", "Worker", "is_own"]

_RETRY: Final = 1.0
"""Seconds until a thread that could not be started, or that has failed, is started again."""

codecs.lookup("idna")
"""`socket.getaddrinfo` would import this codec in the thread. A fork in the middle of an import
leaves the lock of the module held in the child, which then cannot import it."""

MARK: Final = "_rsocket_trio_worker"
"""The attribute of a record that was made in the thread of a worker: the identity of its process.

The ident of the thread would not do: another thread gets it when this one has ended, and those of a
forked child have the idents of its parent's.
"""


class _Here(threading.local):
    """What is known of the current thread."""

    is_worker = False


_here: Final = _Here()
_identity = uuid4().hex


def is_own(record: logging.LogRecord) -> bool:
    """Return whether a record was made in the thread of a worker of this process.

    Our records carry a mark, so that this is known in another thread too, behind a queue.
    """
    return _here.is_worker or record.__dict__.get(MARK) == _identity


def _mark(record: logging.LogRecord) -> bool:
    """Mark a record of our logger where it is made; let it pass."""
    if _here.is_worker:
        setattr(record, MARK, _identity)
    return True


logger.add_filter(_mark)


class Worker:
    """A thread that runs an async function, from the first `start` on.

    Args:
        main: The function. When it fails, the thread ends, and the next `start` begins another.
        on_wake: Called in the thread after `wake`.
        on_failure: Called in the thread with a text and the exception.
        name: The name of the thread.
    """

    def __init__(
        self,
        main: Callable[[], Awaitable[None]],
        on_wake: Callable[[], None],
        on_failure: Callable[[str, Exception], None],
        name: str,
    ) -> None:
        self._main: Final = main
        self._on_wake: Final = on_wake
        self._on_failure: Final = on_failure
        self._name: Final = name
        # Reentrant: a signal handler may log while this thread starts the worker.
        self._starting: Final = threading.RLock()
        self._thread: threading.Thread | None = None
        self._not_before = 0.0
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope: trio.CancelScope | None = None
        self._stopped = self._cancelled = False
        self.running = False
        """Whether the thread has been started and has not ended."""

    def start(self) -> bool:
        """Start the thread if it does not run; return whether this is the first one."""
        with self._starting:
            if self.running or self._stopped or monotonic() < self._not_before:
                return False
            is_first = self._thread is None
            self._not_before = monotonic() + _RETRY
            self.running = True
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads: the limit of the system, or Python is ending
                self._thread = None
                self.running = False
                return False
            return is_first

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return self._thread is threading.current_thread()

    def wake(self) -> None:
        """Have ``on_wake`` called in the thread. If it does not run trio yet, nothing waits."""
        self._call(self._on_wake)

    def cancel(self) -> None:
        """Cancel the function."""
        self._cancelled = True
        self._call(self._cancel_now)

    def _cancel_now(self) -> None:
        if self._scope is not None:
            self._scope.cancel(reason="the log handler has been closed")

    def _call(self, function: Callable[[], object]) -> None:
        token = self._token
        if token is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(function, idempotent=True)

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; return whether it has ended. It does not start again."""
        self._stopped = True
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        _here.is_worker = True
        try:
            trio.run(self._serve)
        except Exception as error:  # of any kind: the system may have no more file descriptors
            self._on_failure("the sending thread has failed; a later record starts it again", error)
        finally:
            self.running = False

    async def _serve(self) -> None:
        with trio.CancelScope() as self._scope:
            self._token = trio.lowlevel.current_trio_token()
            if self._cancelled:  # before there was a token
                self._cancel_now()
            await self._main()


def _become_another() -> None:
    """Be no worker in a forked child, and take a new identity: its parent may ship its records."""
    global _identity
    _identity = uuid4().hex
    _here.is_worker = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_become_another)
