"""One run of trio in a daemon thread, and the tasks that other threads start in it: `ThreadRun`.

No lock is shared between the trio thread and the others: results and items go through a
`queue.SimpleQueue`, and everything else by `trio.lowlevel.TrioToken.run_sync_soon`. So neither side
waits for the other in the middle of a change, also if the garbage collector or a signal handler
comes in between.
"""

from __future__ import annotations

import codecs
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar, cast

import attrs
import trio

from ..errors import single_error
from ..log_policy import logger

__all__ = ["ServiceFailed", "Task", "ThreadClosed", "ThreadRun"]

_T = TypeVar("_T")

codecs.lookup("idna")
"""`socket.getaddrinfo` would import this codec in the thread. A fork in the middle of an import
leaves the lock of the module held in the child, which then cannot import it."""


class ThreadClosed(RuntimeError):
    """The `TrioThread` was closed before the call was finished."""


class ServiceFailed(RuntimeError):
    """A service of a `TrioThread` has failed; ``__cause__`` is its error."""


@attrs.frozen
class _Result:
    """How a task has ended."""

    value: object = None
    error: BaseException | None = None


class Task(Generic[_T]):
    """An async function that runs in the thread, for a caller without trio.

    Args:
        run: Where it runs.
        function: The function.
        name: What it is called in errors.
        timeout: It is cancelled after so many seconds.
        queue: The task itself comes here when it has ended.
    """

    def __init__(
        self,
        run: ThreadRun,
        function: Callable[[], Awaitable[_T]],
        name: str,
        timeout: float | None = None,
        queue: SimpleQueue[Any] | None = None,
    ) -> None:
        self._run: Final = run
        self.function: Final = function
        self.name: Final = name
        self.timeout: Final = timeout
        self.scope: Final = trio.CancelScope()
        self.queue: Final[SimpleQueue[Any]] = SimpleQueue() if queue is None else queue
        self._result: _Result | None = None

    def finish(self, value: object = None, error: BaseException | None = None) -> None:
        """Note how the task has ended."""
        if self._result is None:
            self._result = _Result(value, error)
            self.queue.put(self)

    def cancel(self) -> None:
        """Cancel the task, soon."""
        self._run.call_soon(partial(self.scope.cancel, reason="its caller has gone"))

    def wait(self) -> None:
        """Wait until the task has ended, unless this thread or process can never see that."""
        while self._result is None and self._run.can_be_awaited:
            self.queue.get()

    def result(self) -> _T:
        """Wait for the task, and return its value or raise its error.

        If the wait is interrupted, e.g. by Ctrl-C, the task is cancelled and has ended.
        """
        try:
            self.wait()
        except BaseException:  # goes on below
            self.cancel()
            self.wait()
            raise
        if self._result is None:
            raise ThreadClosed(f"{self._run.name}: the program ends")
        result, error = self._result, self._result.error
        if error is None:
            return cast("_T", result.value)
        try:
            raise error
        finally:
            del self, result, error  # The traceback has this frame.


class ThreadRun:
    """Runs trio in a daemon thread, from the construction until `close`.

    Args:
        name: The name of the thread.

    Raises:
        RuntimeError: The system has no more threads.
        OSError: The system has no more file descriptors.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._process: Final = os.getpid()
        self._tasks: Final[set[Task[Any]]] = set()
        self._scope: Final = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._failure: tuple[str, BaseException] | None = None
        self.ended = False
        """Whether the run is over."""
        started: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread: Final = threading.Thread(
            target=self._work, args=(started,), name=name, daemon=True
        )
        self._thread.start()
        error = started.get()
        if error is not None:
            raise error

    @property
    def is_current(self) -> bool:
        """Whether the caller is in this thread."""
        return threading.current_thread() is self._thread

    @property
    def is_here(self) -> bool:
        """Whether the thread is in this process, not in the one that has forked it."""
        return os.getpid() == self._process

    @property
    def can_be_awaited(self) -> bool:
        """Whether the thread can go on while the caller waits for it."""
        return self.is_here and not self.is_current and not sys.is_finalizing()

    @property
    def failure(self) -> ServiceFailed | None:
        """An error that says which service has failed, if one has; a new one each time."""
        if self._failure is None:
            return None
        name, cause = self._failure
        error = ServiceFailed(f"{self.name}: {name} has failed: {cause!r}")
        error.__cause__ = cause
        return error

    def call_soon(self, function: Callable[[], object]) -> None:
        """Have a function called in the thread, unless it has ended."""
        if self._token is not None and self.is_here:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(function)

    def start(self, task: Task[Any]) -> None:
        """Start a task."""
        # In this order, and the thread does the reverse: one of them sees the other.
        self._tasks.add(task)
        if self.ended:
            task.finish(error=self._over())
        else:
            self.call_soon(partial(self._start_now, task))

    def cancel(self) -> None:
        """Cancel all tasks, and end the run, soon."""
        self.call_soon(partial(self._scope.cancel, reason="its thread has been closed"))

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        if self.can_be_awaited:
            self._thread.join(timeout)
        return not self.is_here or not self._thread.is_alive()

    # In the thread.

    def _work(self, started: SimpleQueue[BaseException | None]) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._main, started)
        except BaseException as caught:  # for those who wait for tasks
            error = caught
            started.put(caught)
        finally:
            self.ended = True
            for task in list(self._tasks):
                task.finish(error=error or self._over())

    async def _main(self, started: SimpleQueue[BaseException | None]) -> None:
        with self._scope:
            async with trio.open_nursery() as self._nursery:
                self._token = trio.lowlevel.current_trio_token()
                started.put(None)
                await trio.sleep_forever()

    def _over(self) -> BaseException:
        return self.failure or ThreadClosed(f"{self.name} has been closed")

    def _start_now(self, task: Task[Any]) -> None:
        if self._scope.cancel_called or self._nursery is None:
            self._tasks.discard(task)
            task.finish(error=self._over())
        else:
            self._nursery.start_soon(self._perform, task, name=task.name)

    async def _perform(self, task: Task[Any]) -> None:
        try:
            if task.timeout is not None:
                task.scope.deadline = trio.current_time() + task.timeout
            with task.scope:
                task.finish(await task.function())
            if task.timeout is None:
                task.finish(error=ThreadClosed(f"{task.name} was cancelled by its caller"))
            else:
                late = f"{task.name} was not finished within {task.timeout:g} s"
                task.finish(error=TimeoutError(late))
        except BaseException as error:  # all errors are the caller's, except for `Cancelled`
            cancelled, rest = _split(error)
            if rest is not None:
                task.finish(error=single_error(rest))
            if cancelled is not None:
                raise cancelled from None  # The run ends, and says to those who wait why it does.
        self._tasks.discard(task)

    async def start_service(self, function: Callable[..., Awaitable[None]], *args: object) -> Any:
        """Start a service that belongs to the thread. For the function of a task."""
        assert self._nursery is not None
        return await self._nursery.start(self._serve, function, args)

    async def _serve(
        self,
        function: Callable[..., Awaitable[None]],
        args: tuple[object, ...],
        *,
        task_status: trio.TaskStatus[Any],
    ) -> None:
        status = _Status(task_status)
        try:
            await function(*args, task_status=status)
        except BaseException as error:  # kept for the next caller
            cancelled, rest = _split(error)
            if not status.has_started:
                raise
            if rest is not None:
                error = single_error(rest)
                name = getattr(function, "__qualname__", repr(function))
                logger.error("%s: the service %s has failed", self.name, name, exc_info=error)
                self._failure = self._failure or (name, error)
                self._scope.cancel(reason="a service of the thread has failed")
            if cancelled is not None:
                raise cancelled from None


class _Status:
    """A `trio.TaskStatus` that remembers whether the task has started."""

    def __init__(self, status: trio.TaskStatus[Any]) -> None:
        self._status: Final = status
        self.has_started = False

    def started(self, value: object = None) -> None:
        """See `trio.TaskStatus`."""
        self._status.started(value)
        self.has_started = True


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the part of an error that is `Cancelled`, and the rest."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)
