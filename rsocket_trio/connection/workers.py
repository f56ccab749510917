"""The tasks that run handlers: `Workers`.

A task per request costs more than most handlers do. So the requests of a connection wait in one
queue, and a worker takes the next, runs the handler, sends the outcome and takes the next. Only
where a handler *blocks* does another worker wake or start: after each batch of frames the reader
wakes one worker and passes one checkpoint; if requests are left then, the worker must have
blocked, and three more are woken, then seven, so that thousands of requests that all block begin
within a few turns of the loop. What never blocks costs no task switch, and a handler that blocks
delays nobody.

While a handler runs, its worker's task and cancel scope are its own: CANCEL cancels that scope, and
the worker ends with it. A worker whose handler left traces (context variables, an open nursery) is
retired, so from outside nothing shows.

While the peer does not read its answers (the outbox is full), requests are left in the queue: an
answer would only have to wait, with a task around it. They queue for room like all who send, and
one begins when their turn has come, so that streams which keep the outbox full cannot hold them
up for ever. Whoever leaves requests in the queue sees to it that they are taken up (`_pause`).
"""

from __future__ import annotations

import contextvars
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.lowlevel import (
    Abort,
    cancel_shielded_checkpoint,
    checkpoint,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from ..errors import RSocketError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.lowlevel import Task

    from ..config import Limits
    from ..interactions.operation import ResponderOperation
    from .outbox import Outbox

__all__ = ["Workers"]

logger = logging.getLogger("rsocket_trio")

_MAX_IDLE: Final = 64
"""Idle workers kept for the next burst; each costs a few kilobytes."""

_FAILED: Final = "a handler failed while its task was being cancelled"

_BURST: Final = 16
"""Requests answered in a row by one worker without letting another task run."""

_MAX_WOKEN: Final = 127
"""Workers woken at once, so that a turn of the loop does not last: each may go on for a burst."""

_MAX_BUSY: Final = 31
"""Workers among which requests that never block are shared: so many bursts in a turn of the loop.
More would answer no faster, and let other tasks wait."""

_INNERMOST_SCOPE: Final = "_cancel_status"
"""The attribute of a task that changes when a handler leaves a cancel scope open, e.g. one in a
generator it left. That scope would cancel the worker's next request. trio has no public name for
it; without this one, nothing would be found out and nothing else break."""


class Workers:
    """The requests of the peer that wait or run.

    Attributes:
        active: Requests that wait or run.
        size: Bytes of their payloads.
        on_done: Called when a request is done with; the connection sets it while it drains.
    """

    def __init__(self, limits: Limits, outbox: Outbox) -> None:
        self.active = 0
        self.size = 0
        self.on_done: Callable[[], None] | None = None
        self._max_active = limits.max_streams
        self._max_size = limits.max_requests_size
        self._outbox = outbox
        self._queue: deque[ResponderOperation] = deque()
        self._idle: list[Task] = []
        self._pausing = False
        self._woken = 0  # workers that have been woken and did not run since
        self._resting = 0  # workers between two bursts: they go on without being woken
        self._due = False  # one request may begin though the outbox is full by now

    def has_room(self, size: int) -> bool:
        """Whether one more request of ``size`` bytes may be taken on."""
        if self.active >= self._max_active:
            return False
        return self.size + size <= self._max_size or not self.active

    def add(self, operation: ResponderOperation, size: int) -> None:
        """Take a request of ``size`` bytes on. It runs after the next `start`."""
        operation.size = size
        self.active += 1
        self.size += size
        self._queue.append(operation)

    @property
    def waiting(self) -> bool:
        """Whether there are requests nobody has begun."""
        return bool(self._queue)

    async def start(self, nursery: trio.Nursery, *, due: bool = False) -> None:
        """Let workers run until every waiting request has begun, or the outbox is full.

        Args:
            nursery: Theirs.
            due: One request is to begin even though the outbox is full.

        Checkpoint: if there are requests waiting.
        If cancelled: that is for the next checkpoint to notice.
        """
        queue = self._queue
        idle = self._idle
        outbox = self._outbox
        wake = 1
        while queue:
            if outbox.size >= outbox.limit and not due:
                self._pause(nursery)
                return
            due = False
            self._due = True
            here = len(queue)
            more = min(wake, here)
            if self._resting:
                more = min(more, _MAX_BUSY) - self._resting
            for _ in range(more):
                self._woken += 1
                if idle:
                    reschedule(idle.pop())
                else:
                    nursery.start_soon(self._work, nursery)
            if more == here:
                return  # a worker for each: nothing is left to find out
            wake = min(2 * wake + 1, _MAX_WOKEN)
            await cancel_shielded_checkpoint()
            if self._woken:
                # trio runs what is ready in any order, and this task came before them.
                await cancel_shielded_checkpoint()

    def _pause(self, nursery: trio.Nursery) -> None:
        """Leave what is in the queue there until the outbox has room."""
        if not self._pausing:
            self._pausing = True
            nursery.start_soon(self._resume, nursery)

    async def _resume(self, nursery: trio.Nursery) -> None:
        """Once the outbox has room again, go on."""
        try:
            await self._outbox.reserve(0)
        except (RSocketError, trio.ClosedResourceError):
            return  # the connection is over; these are what an outbox is closed with
        finally:
            self._pausing = False
        # Those who waited behind this may have got all the room there was. It was its turn.
        await self.start(nursery, due=True)

    async def _work(self, nursery: trio.Nursery) -> None:
        """Run requests, one after the other, until there is a reason to end."""
        try:
            with trio.CancelScope() as scope:
                await self._run_requests(nursery, scope)
        except Exception:
            # A handler's nursery may raise beside its cancellation, and a handler that left a
            # scope open is found out here. Neither is a reason to end the connection.
            logger.exception(_FAILED)
        except BaseExceptionGroup as group:
            # The same, when it is the connection that ends: the cancellation goes on.
            failures, rest = group.split(Exception)
            if failures is not None:
                logger.error(_FAILED, exc_info=failures)  # noqa: TRY400 - the failures alone
            if rest is not None:
                raise rest from None

    async def _run_requests(self, nursery: trio.Nursery, scope: trio.CancelScope) -> None:
        queue = self._queue
        idle = self._idle
        outbox = self._outbox
        task = current_task()
        copy_context = contextvars.copy_context
        clean = copy_context()
        innermost = getattr(task, _INNERMOST_SCOPE, None)
        served = 0

        def abort(_raise_cancel: Any) -> Abort:
            idle.remove(task)
            return Abort.SUCCEEDED

        while True:
            self._woken -= 1
            while queue:
                if outbox.size >= outbox.limit:
                    if served or not self._due:
                        self._pause(nursery)
                        break
                    self._due = False
                operation = queue.popleft()
                if not operation.stopped:
                    try:
                        await operation.run(scope)
                    finally:
                        self._done(operation)
                    if getattr(task, _INNERMOST_SCOPE, None) is not innermost:
                        # Left open: a cancel scope, or a nursery with the scope it has.
                        await _finish_nurseries(task)
                        return
                    if operation.scope_cancelled or copy_context() != clean:
                        return
                else:
                    self._done(operation)
                served += 1
                if not served % _BURST:
                    self._resting += 1
                    try:
                        await checkpoint()
                    finally:
                        self._resting -= 1
            if len(idle) >= _MAX_IDLE:
                return
            idle.append(task)
            await wait_task_rescheduled(abort)
            served = 0

    def _done(self, operation: ResponderOperation) -> None:
        self.active -= 1
        self.size -= operation.size
        if self.on_done is not None:
            self.on_done()


async def _finish_nurseries(task: Task) -> None:
    """End the nurseries a handler left open: a task that has one must not end.

    As for `_INNERMOST_SCOPE`, trio has no public name for what finishes a nursery. Without it
    the fault of the handler would end the connection.
    """
    for nursery in reversed(task.child_nurseries):
        nursery.cancel_scope.cancel(reason="the handler that opened this nursery left it open")
        finish = getattr(nursery, "_nested_child_finished", None)
        if finish is not None:
            await finish(None)
