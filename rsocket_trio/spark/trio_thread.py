"""Use trio from code without trio, as Spark's processes run it: `TrioThread`."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar
from weakref import WeakSet

from .items import Items
from .program_end import ProgramEnd
from .thread_run import ServiceFailed, Task, ThreadClosed, ThreadRun

__all__ = ["ServiceFailed", "ThreadClosed", "TrioThread"]

_T = TypeVar("_T")

CLOSE_TIMEOUT: Final = 10.0
"""Seconds that `TrioThread.close` waits: enough for the goodbyes of connections."""

EXIT_TIMEOUT: Final = 5.0
"""Seconds that the end of the program waits for the threads that it has not closed."""


class TrioThread:
    """Runs async functions in a daemon thread. The thread starts with the first call.

    Any thread may call, except for this one. Each call waits for its function. If the wait is
    interrupted (Ctrl-C, or a signal handler that raises), the function is cancelled and has ended
    when the call raises.

    A forked child has a thread of its own, which starts with its first call. Pickling gives a
    thread of the same name that has not started, so an object that has one can be sent to another
    process. At the end of the program all threads are closed.

    Args:
        name: The name of the thread.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        # Reentrant: a signal handler may close the thread while this one starts it.
        self._lock = threading.RLock()
        self._thread_run: ThreadRun | None = None
        self._closed = False
        _threads.add(self)

    def __reduce__(self) -> tuple[type[TrioThread], tuple[str]]:
        return TrioThread, (self.name,)

    def __repr__(self) -> str:
        return f"<TrioThread {self.name!r}>"

    @property
    def is_running(self) -> bool:
        """Whether the thread runs, in this process."""
        run = self._thread_run
        return run is not None and not run.ended

    def run(
        self,
        function: Callable[..., Awaitable[_T]],
        *args: Any,
        timeout: float | None = None,
    ) -> _T:
        """Run an async function, and return its value or raise its error.

        A group of one exception is raised as this exception.

        Args:
            function: The function.
            *args: Its arguments.
            timeout: Cancel it after so many seconds.

        Raises:
            TimeoutError: The timeout is over, and the function was cancelled.
            ThreadClosed: The thread was closed.
            ServiceFailed: A service of this thread has failed.
        """
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be above 0, not {timeout!r}")
        return self._call(partial(function, *args), _name(function), timeout)

    def serve(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Start a service, and return what it has started with.

        The service runs until it returns or the thread is closed. If it fails after its start, the
        other functions of the thread are cancelled, and their calls and all later ones raise
        `ServiceFailed`.

        Args:
            function: An async function for `trio.Nursery.start`: it has an argument
                ``task_status``, and calls ``task_status.started(value)``.
            *args: Its arguments.

        Raises:
            ThreadClosed: The thread was closed.
            ServiceFailed: Another service of this thread has failed.
        """
        run = self._running()
        task: Task[Any] = Task(
            run, partial(run.start_service, function, *args), f"the start of {_name(function)}"
        )
        run.start(task)
        return task.result()

    def iterate(
        self,
        open_items: Callable[[], AbstractAsyncContextManager[AsyncIterable[_T]]],
        *,
        buffer: int,
    ) -> Items[_T]:
        """Iterate over async items, which a task in the thread fetches ahead.

        Args:
            open_items: Called in the thread, for the first item. It returns an async context
                manager that gives the items.
            buffer: So many items at most are fetched and have not been taken.

        Returns:
            An iterator. It raises the error of ``open_items`` or of an item behind the items before
            it. ``close()``, and the end of a ``with`` block on it, cancel the task and wait until
            the context manager has exited. An iterator that is dropped cancels its task.
        """
        if buffer < 1:
            raise ValueError(f"buffer must be at least 1, not {buffer!r}")
        return Items(self._running, open_items, buffer, _name(open_items))

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Cancel all functions and services, and end the thread. It cannot be used any more.

        Args:
            timeout: Wait so many seconds for the end.

        Returns:
            Whether the thread has ended. If not, it is left behind: it does not keep the program
            from ending.
        """
        with self._lock:
            self._closed = True
            run = self._thread_run
        if run is None:
            return True
        run.cancel()
        return run.join(timeout)

    def _call(self, function: Callable[[], Awaitable[_T]], name: str, timeout: float | None) -> _T:
        run = self._running()
        task = Task(run, function, name, timeout)
        run.start(task)
        return task.result()

    def _running(self) -> ThreadRun:
        """Return the run, and start it if it is not there."""
        with self._lock:
            run = self._thread_run
            if run is not None and run.is_current:
                raise RuntimeError(f"{self.name}: a function in this thread cannot wait for it")
            if run is not None and (failure := run.failure) is not None:
                raise failure
            if self._closed:
                raise ThreadClosed(f"{self.name} has been closed")
            if run is None or run.ended:
                _at_the_end.watch()
                run = self._thread_run = ThreadRun(self.name)
            return run

    def forget(self) -> None:
        """Forget the run and the lock: the process was forked, and has neither."""
        self._lock = threading.RLock()
        self._thread_run = None


def _name(function: object) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__qualname__", None) or repr(function)


_threads: Final[WeakSet[TrioThread]] = WeakSet()


def _close_all() -> None:
    """Close all threads, all within the time."""
    deadline = monotonic() + EXIT_TIMEOUT
    threads = list(_threads)
    for thread in threads:
        thread.close(0)
    for thread in threads:
        thread.close(max(0, deadline - monotonic()))


_at_the_end: Final = ProgramEnd(_close_all)


def _forget_parent() -> None:
    """Forget the threads of the parent: a forked child does not have them."""
    _at_the_end.forget()
    for thread in list(_threads):
        thread.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
