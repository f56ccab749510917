"""The tasks of a connection that read and run handlers: `Crew`.

The task that reads runs the handlers of what it has read, each by one step of its coroutine. A
handler that ends without waiting has cost no task, no scope and no switch. At its first wait it
keeps the task it is in, with that task's cancel scope, to itself; and the reading, and the requests
behind it, go on in another task of the crew: one more, then more at once the more handlers wait in
a row, since a task that is woken runs a turn of the loop later. (The pattern is known as
Leader/Followers.)

A task of the crew that has nothing to wait for looks for what to do, in this order:

    run     requests are waiting, and nobody runs any, or somebody reads
    read    nobody reads
    idle    there is nothing to do: wait to be woken

So reading never stops: whoever is about to wait for something else, or has run a burst of requests
and has more, sees to it that somebody reads (`_hand_over`). KEEPALIVE, CANCEL and REQUEST_N are
behind a burst of requests at the most, and never behind a handler.

While the peer does not read its answers (the outbox is full), requests are left in the queue: an
answer would only have to wait, with a task around it. One task waits for room in line like all who
send, and one request begins when its turn has come, so that streams which keep the outbox full
cannot hold requests up for ever.
"""

from __future__ import annotations

import contextvars
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.lowlevel import Abort, checkpoint, reschedule, wait_task_rescheduled

from ..errors import RSocketError
from ..interactions.isolation import being_cancelled, leave_nurseries, outcome_of, split
from ..log_policy import logger
from .reader import READ_ERRORS
from .shift import AT_ONCE, SCOPE_REQUESTS, Shift, differ, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.lowlevel import Task

    from ..config import Limits
    from ..interactions.operation import ResponderOperation
    from .first_steps import FirstSteps
    from .outbox import Outbox
    from .reader import Reader

__all__ = ["Crew"]

_MAX_IDLE: Final = 64
"""Idle tasks kept for the next burst; each costs a few kilobytes."""

_FAILED: Final = "a handler failed while it was being cancelled"

_MAX_RUNNING: Final = 4
"""Tasks that run bursts at the same time, so that a turn of the loop stays short. Requests that
wait do not count."""

_MAX_WOKEN: Final = 40
"""Tasks woken at once where handlers wait in a row."""


class Crew:
    """The requests of the peer that wait or run, and who runs them.

    Attributes:
        active: Requests that wait or run.
        size: Bytes of their payloads.
        over: Nothing will be read any more.
        on_done: Called when a request is done with; the connection sets it while it drains.
        stuck: Tasks that cannot end, as a handler left a nursery open in them.
        shifts: What each task remembers.
    """

    def __init__(self, limits: Limits, outbox: Outbox) -> None:
        self.active = 0
        self.size = 0
        self.on_done: Callable[[], None] | None = None
        self.max_active = limits.max_streams
        self.max_size = limits.max_requests_size
        self.queue: deque[ResponderOperation] = deque()
        self._outbox = outbox
        self._idle: dict[Task, None] = {}
        self._woken = 0  # tasks that have been woken or started and did not run since
        self._running = 0  # tasks in the middle of a burst
        self._reading = False
        self.over = False
        self.stuck = 0
        self.shifts: set[Shift] = set()
        self._paused = False  # a task waits for room, so that a request can begin
        self._ramp = 1  # how many to wake at the next wait

    def has_room(self, size: int) -> bool:
        """Whether one more request of ``size`` bytes may be taken on."""
        if self.active >= self.max_active:
            return False
        return self.size + size <= self.max_size or not self.active

    def add(self, operation: ResponderOperation, size: int) -> None:
        """Take a request of ``size`` bytes on. For the task that reads: it begins right after."""
        operation.size = size
        self.active += 1
        self.size += size
        self.queue.append(operation)

    def start(self, nursery: trio.Nursery, reader: Reader, first_steps: FirstSteps) -> None:
        """Begin to read.

        Args:
            nursery: Of the tasks.
            reader: What they read with.
            first_steps: Answers some requests while they are delivered.
        """
        self._first_steps = first_steps
        self._nursery = nursery
        self._context = contextvars.copy_context()
        self._reader = reader
        first_steps.reader = reader
        self._wake(1)

    def end(self, _error: Exception, _last_words: bytes | None) -> None:
        """The connection is over: nothing that has not begun begins any more."""
        self.over = True

    def forget(self) -> None:
        """The connection is over, and so are these tasks: drop what has not begun.

        An application may keep its requester for long, and with it all of this.
        """
        for operation in self.queue:
            self.active -= 1
            self.size -= operation.size
            operation.close(None)
        self.queue.clear()

    # -- one task of the crew ---------------------------------------------------------------

    async def _attend(self) -> None:
        """Read, run requests, wait to be woken, until there is a reason to end.

        All of that within a cancel scope. A request that waits gets hold of it. When the scope is
        closed it shows whether a handler has left one of its own open, which would cancel what
        this task does next. To open one costs as much as many requests, so it lasts for some of
        them (`SCOPE_REQUESTS`).
        """
        self._woken -= 1
        shift = Shift()
        self.shifts.add(shift)
        stays = True  # whether this task is as it was before, and of use
        while stays and not self.over:
            shift.operation = None
            stays = False
            whole = False  # whether all went well but, perhaps, for the closing of the scope
            try:
                with trio.CancelScope() as scope:
                    stays = await self._look_for_work(shift, scope)
                    whole = True
            except BaseException as error:
                stays = False
                if whole and isinstance(error, RuntimeError):
                    logger.error("a handler left a cancel scope open: %s", error)
                else:
                    self._came_out(shift.operation, error)
            else:
                if scope.cancelled_caught:
                    # The request that waited was cancelled, as its scope was asked to.
                    self._close(shift, None)
                    stays = not differ(contextvars.copy_context(), shift.clean)
        self.shifts.discard(shift)
        self._hand_over()
        task = shift.task
        if task.child_nurseries:
            logger.error("a handler left a nursery open; what runs in it is cancelled")
            self.stuck += 1
            await leave_nurseries(task)
            self.stuck -= 1

    async def _look_for_work(self, shift: Shift, scope: trio.CancelScope) -> bool:
        """Do what there is to do, until it is time for another scope.

        Returns:
            Whether this task is as it was before, and of use.
        """
        queue = self.queue
        first_steps = self._first_steps
        copy_context = contextvars.copy_context
        reader = self._reader
        wait_received = reader.wait_received
        task = shift.task
        clean = shift.clean
        outbox = self._outbox
        room = outbox.room
        due = False  # a request may begin although the outbox is full

        def abort(_raise_cancel: Any) -> Abort:
            del self._idle[task]
            return Abort.SUCCEEDED

        shift.served = 0
        while not self.over:
            rest = None
            running = self._running
            if (
                queue
                and not self._paused
                and (not running or (self._reading and running < _MAX_RUNNING))
            ):
                # Nobody runs any, or somebody reads.
                if (
                    room.used >= room.limit or outbox.control_size > outbox.max_control_size
                ) and not due:
                    if not await self._wait_for_room():
                        return False
                    due = True
                    continue
                rest = first_steps.run_queued(shift, scope, due=due)
                due = False
                if rest is None:
                    if queue:
                        self._running += 1
                        try:
                            self._hand_over_reading()
                            await checkpoint()
                        finally:
                            self._running -= 1
                    if differ(copy_context(), clean):
                        return False
            elif shift.served >= shift.longest:
                shift.longest = SCOPE_REQUESTS
                return True
            elif not self._reading:
                self._reading = True
                first_steps.clean = clean
                paused = reader.paused
                first_steps.left = 0 if queue or paused else AT_ONCE
                try:
                    if not paused:
                        await (
                            reader.wait() if reader.frames or not wait_received else wait_received()
                        )
                    if not reader.deliver():
                        self.over = True
                except READ_ERRORS as error:
                    reader.failed(error)
                    self.over = True
                finally:
                    self._reading = False
                    first_steps.left = 0
                    shift.served += first_steps.count
                    first_steps.count = 0
                self._ramp = 3 if paused else 1  # after a pause one waits already
                if first_steps.dirty:
                    first_steps.dirty = False
                    return False
                if first_steps.operation is not None:
                    rest = first_steps.hand_out(shift, scope)
            elif len(self._idle) >= _MAX_IDLE:
                return False
            else:
                self._idle[task] = None
                await wait_task_rescheduled(abort)
                self._woken -= 1
            if rest is not None:
                self._hand_over()
                try:
                    finished = await rest
                except Exception as error:
                    stopped = self._close(shift, error)
                else:
                    stopped = self._close(shift, None, finished=finished is True)
                now = copy_context()
                # As `differ`, without its call where there is nothing to compare.
                if differ(now, clean) if clean else now:
                    return False
                if stopped and scope.cancel_called:
                    return True  # too late for the request, but not for what comes next
        return False

    def _close(self, shift: Shift, error: Exception | None, *, finished: bool = False) -> bool:
        """A request that had waited is done with.

        Args:
            shift: Has it.
            error: What came out of it.
            finished: It has told the peer, and left the table of streams.

        Returns:
            Whether somebody has stopped it, so that its scope may have been cancelled.
        """
        operation = shift.operation
        if operation is None:
            return True
        shift.operation = None
        stopped = not operation.live
        if finished:
            operation.scope = None
        else:
            operation.close(error)
        self.active -= 1
        self.size -= operation.size
        if self.on_done is not None:
            self.on_done()
        return stopped

    def _came_out(self, operation: ResponderOperation | None, error: BaseException) -> None:
        """Something that is no `Exception` came out of a handler that had waited.

        Or of a scope that a handler had left open, when it was cancelled. The cancellation of the
        connection ends here: this task is about to end.

        Raises:
            BaseException: What is not the handler's own.
        """
        cancelled = being_cancelled()
        if cancelled:
            self.over = True
        if operation is None:
            left_open = isinstance(error, RuntimeError) and isinstance(
                error.__context__, trio.Cancelled
            )
            if left_open or (isinstance(error, trio.Cancelled) and not cancelled):
                logger.error("a handler left a cancel scope open, which was cancelled later")
            elif not isinstance(error, trio.Cancelled):
                raise error
            return
        self.active -= 1
        self.size -= operation.size
        if self.on_done is not None:
            self.on_done()
        if not cancelled:
            if isinstance(error, Exception) and not operation.live:
                # Beside the cancellation, which its scope has absorbed.
                logger.error(_FAILED, exc_info=error)
            settle(operation, error)
            return
        operation.close(None)
        # A handler's nursery may raise beside the cancellation.
        _, failure = split(error, trio.Cancelled)
        if failure is not None:
            logger.error(_FAILED, exc_info=outcome_of(failure))

    # -- who does what ----------------------------------------------------------------------

    def _hand_over(self) -> None:
        """This task is going to wait, or to end: let others run requests, and read."""
        if self.over:
            return
        waiting = 0 if self._paused else len(self.queue)
        if not waiting:
            self._hand_over_reading()
        elif not self._woken:
            # Those who have been woken, and do not get on, wake more.
            self._wake(min(self._ramp, waiting))
            self._ramp = min(2 * self._ramp + 1, _MAX_WOKEN)

    def _hand_over_reading(self) -> None:
        """This task is busy: let another read, if none does."""
        if not self._reading and not self._woken:
            self._wake(1)

    def _wake(self, count: int) -> None:
        idle = self._idle
        for _ in range(count):
            self._woken += 1
            if idle:
                reschedule(idle.popitem()[0])
            else:
                # A new task has the context of the one that starts it, which a handler may have
                # changed by now.
                self._context.run(self._nursery.start_soon, self._attend)

    async def _wait_for_room(self) -> bool:
        """Stand in line for room in the outbox; False: the connection is over."""
        self._paused = True
        self._hand_over_reading()
        try:
            await self._outbox.wait_unclogged()
            await self._outbox.reserve(0)
        except (RSocketError, trio.ClosedResourceError):
            # These are what an outbox is closed with. Others must not try in this one's place: none
            # would ever wait, and be cancelled.
            self.over = True
            return False
        finally:
            self._paused = False
        # Those who waited behind this may have got all the room there was. It was its turn.
        return True
