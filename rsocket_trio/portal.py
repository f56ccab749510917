"""A thread that runs trio, for callers that do not: `Portal`.

`rsocket_trio.blocking` and `rsocket_trio.from_asyncio` are its two faces. One async block, such as
that of a connection, is open in the thread from the beginning to the end:

    Portal.start      a thread, trio in it, and the block
    ├─ Call           a task: one async function, e.g. a request; it has a cancel scope of its own
    └─ Held           a task: one inner block, e.g. of a stream, and the calls within it

A call is begun from any thread, and told to the caller by a `concurrent.futures.Future`. Its task
has a copy of the caller's context variables.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from contextvars import Context, copy_context
from typing import Any, Final, Generic, TypeVar

import trio

from .errors import fresh_copy
from .interactions.isolation import split

__all__ = ["Call", "Held", "Portal"]

T = TypeVar("T")
R = TypeVar("R")

_OVER: Final = "the block of this client has ended"


def _tell(error: BaseException, fail: Callable[[BaseException], None]) -> None:
    """Tell an error that has ended a function, and let the cancellation of the thread go on."""
    cancelled, failure = split(error, trio.Cancelled)
    fail(trio.ClosedResourceError(_OVER) if failure is None else failure)
    if cancelled is not None:
        raise cancelled


class Call(Generic[R]):
    """One async function that runs in the thread of a portal.

    Args:
        function: The function.
        portal: The portal.
        timeout: The seconds after which it is cancelled, and fails with `TimeoutError`.

    Attributes:
        done: Its outcome. It is told after all code of the function has ended.
    """

    def __init__(
        self, function: Callable[[], Awaitable[R]], portal: Portal[Any], timeout: float | None
    ) -> None:
        self.done: Future[R] = Future()
        self.done.set_running_or_notify_cancel()  # only `cancel` of this class cancels it
        self._function = function
        self._portal = portal
        self._timeout = timeout
        self._scope = trio.CancelScope()
        self.spawned = False

    def start(self) -> None:
        """Begin to run it, from another thread; see `Portal.begin`."""
        self._portal.spawn(self)

    def cancel(self) -> None:
        """Cancel it, from any thread, also if `start` was cut. It says when it has ended."""
        if not self._portal.post(self._cancel_now):
            self.fail(trio.ClosedResourceError(_OVER))

    def _cancel_now(self) -> None:
        self._scope.cancel(reason="the caller has left")
        if not self.spawned:  # and never will be: `start` comes before, if it comes at all
            self.fail(TimeoutError("cancelled by the caller"))

    async def run(self) -> None:
        """Run the function, in the thread, and tell its outcome; it raises nothing else.

        Checkpoint: as the function does.
        If cancelled: the function is cancelled.
        """
        try:
            if self._timeout is not None:
                self._scope.deadline = trio.current_time() + self._timeout
            with self._scope:
                result = await self._function()
                if not self.done.done():
                    self.done.set_result(result)
        except BaseException as error:  # of any kind: it is the caller's
            _tell(error, self.fail)
        else:
            late = self._scope.deadline <= trio.current_time()
            text = f"not done within {self._timeout:g} s" if late else "cancelled by the caller"
            self.fail(TimeoutError(text))

    def fail(self, error: BaseException) -> None:
        """Tell that it has failed, unless it has an outcome."""
        if not self.done.done():
            self.done.set_exception(error)


class Portal(Generic[T]):
    """A thread that runs trio, with one async block open in it.

    Args:
        open_: Makes the block; called in the thread.
        name: The name of the thread.

    Attributes:
        entered: What the block gave, or its error.
        ended: Told when the thread ends: the error of leaving the block, if there is one.
    """

    def __init__(self, open_: Callable[[], AbstractAsyncContextManager[T]], name: str) -> None:
        self.entered: Future[T] = Future()
        self.ended: Future[None] = Future()
        self._open = open_
        self._token: trio.lowlevel.TrioToken | None = None
        self._calls: trio.Nursery | None = None
        self._scope = trio.CancelScope()
        self._leaving = trio.Event()
        self._left = False
        self._process = os.getpid()
        self._context = Context()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread.

        It is a daemon: a program that ends within the block does not wait for it.
        """
        self._context = copy_context()
        try:
            self._thread.start()
        except BaseException:  # an interrupt, while it waits until the thread runs
            self.abandon()
            raise

    def begin(self, function: Callable[[], Awaitable[R]], timeout: float | None = None) -> Call[R]:
        """Begin to run an async function, from another thread; see `Call`.

        Raises:
            trio.ClosedResourceError: The block has ended.
            RuntimeError: The caller is in the thread itself, or in a forked child.
        """
        call = Call(function, self, timeout)
        call.start()
        return call

    def spawn(self, job: Call[Any] | Held[Any]) -> None:
        """Start a task, from another thread, with the context variables of the caller.

        Args:
            job: What runs. It is told if the block has ended before that.
        """
        self.check()
        context = copy_context()

        def start() -> None:
            job.spawned = True
            if self._left or self._calls is None:
                job.fail(trio.ClosedResourceError(_OVER))
            else:
                context.run(self._calls.start_soon, job.run)

        if not self.post(start):
            raise trio.ClosedResourceError(_OVER)

    @property
    def forked(self) -> bool:
        """Whether this is a forked child: it has no such thread, and nothing to leave."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Refuse a caller that cannot be served.

        Raises:
            RuntimeError: As `begin`.
        """
        if self.forked:
            raise RuntimeError(
                "this client belongs to the process that has forked this one: make another one here"
            )
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "this client is for other threads; code that runs in its own would wait for itself"
            )

    def post(self, function: Callable[[], object]) -> bool:
        """Have a function called in the thread, from any; return whether it will be."""
        if self._token is None or self.forked:  # whose copy of a lock may be held for ever
            return False
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def leave(self) -> None:
        """End the block, from any thread: cancel all calls, and leave it. `ended` says when."""
        self._left = True  # first: a thread that has no token yet looks at it when it has
        self.post(self._leaving.set)

    def abandon(self) -> None:
        """Cancel the block, from any thread: for a caller that does not wait for its beginning."""
        self._left = True
        self.post(self._scope.cancel)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._context.run(trio.run, self._main)
        except BaseException as error:  # of any kind: it is told where it is waited for
            failure = error
        if not self.entered.done():
            self.entered.set_exception(failure or trio.ClosedResourceError(_OVER))
            failure = None
        if failure is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(failure)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if self._left:
            return
        with self._scope:
            async with self._open() as value:
                async with trio.open_nursery() as self._calls:
                    try:
                        self.entered.set_result(value)
                        await self._leaving.wait()
                    finally:
                        self._left = True  # the block may cancel this, and then take its time
                    self._calls.cancel_scope.cancel(reason=_OVER)


class Held(Generic[R]):
    """One async block that is open in the thread of a portal, in a task of its own.

    Calls within it run in this task: a block may cancel its body, as that of a channel does when
    its source fails.

    Args:
        open_: Makes the block.
        portal: The portal.

    Attributes:
        entered: What it gave, or its error.
        ended: Told when it is left: its error, if there is one.
    """

    def __init__(
        self, open_: Callable[[], AbstractAsyncContextManager[R]], portal: Portal[Any]
    ) -> None:
        self.entered: Future[R] = Future()
        self.ended: Future[None] = Future()
        self._open = open_
        self._portal = portal
        self._scope = trio.CancelScope()
        self._calls: deque[Call[Any]] = deque()
        self._wake = trio.Event()
        self.spawned = False
        self._running = False
        self._leaving = False
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin to enter it, from another thread.

        Raises:
            Exception: As `Portal.begin`.
        """
        self._portal.spawn(self)

    def begin(self, function: Callable[[], Awaitable[T]]) -> Call[T]:
        """Begin to run an async function within the block, from another thread, behind the others.

        Raises:
            Exception: As `Portal.begin`.
        """
        self.check()
        call = Call(function, self._portal, None)

        def queue() -> None:
            if self.ended.done():
                call.fail(self._error())
            else:
                self._calls.append(call)
                self._wake.set()

        if not self._portal.post(queue):
            raise trio.ClosedResourceError(_OVER)
        return call

    @property
    def forked(self) -> bool:
        """See `Portal.forked`."""
        return self._portal.forked

    def check(self) -> None:
        """See `Portal.check`."""
        self._portal.check()

    def leave(self) -> None:
        """Leave the block, from any thread, and cancel what runs in it. `ended` says when.

        It may be that it was not begun to be entered.
        """
        if not self._portal.post(self._leave_now):
            self.fail(trio.ClosedResourceError(_OVER))

    def abandon(self) -> None:
        """Cancel the block, from any thread: for a caller that does not wait for its beginning."""
        self._portal.post(self._scope.cancel)

    def _leave_now(self) -> None:
        self._leaving = True
        self._wake.set()
        if not self._running:  # and it may be that `start` was interrupted
            self.fail(trio.ClosedResourceError(_OVER))
        for call in self._calls:
            call.fail(self._error())
            call._cancel_now()  # noqa: SLF001 - this module

    async def run(self) -> None:
        """Enter the block, run the calls within it, and leave it.

        Checkpoint: as the block does.
        If cancelled: the block is cancelled.
        """
        if self.ended.done():  # it was left before
            return
        self._running = True
        try:
            with self._scope:
                async with self._open() as value:
                    self.entered.set_result(value)
                    while not self._leaving:
                        self._wake = trio.Event()
                        if self._calls:
                            await self._calls[0].run()
                            self._calls.popleft()
                        else:
                            await self._wake.wait()
            self.fail(None)
        except BaseException as error:  # of any kind: it is told where it is waited for
            _tell(error, self.fail)

    def fail(self, error: BaseException | None) -> None:
        """Tell that the block has ended, and why."""
        if self.ended.done():
            return
        self._failure = error
        if not self.entered.done():
            self.entered.set_exception(self._error())
            error = None
        calls, self._calls = self._calls, deque()
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
        for call in calls:
            call.fail(self._error())

    def _error(self) -> BaseException:
        """Return the error of a call that comes too late."""
        if isinstance(self._failure, Exception):
            return fresh_copy(self._failure)
        return trio.ClosedResourceError("this block has ended")
