"""The tasks of a connection that read and run handlers: `Crew`.

The task that reads also runs the handlers of the requests it has read. It runs each handler by one
step of its coroutine. A handler that ends without waiting costs no task, no scope and no switch. At
its first wait a handler keeps the task in which it runs, and that task's cancel scope. The reading,
and the requests behind it, go on in another task of the crew. The more handlers wait in a row, the
more tasks are woken at once, since a woken task runs one turn of the loop later. (This pattern is
known as Leader/Followers.)

A task of the crew without a waiting handler looks for work, in this order:

    run     requests are queued; another task reads, or no task runs requests and the last read
            was less than 5 ms ago
    read    no task reads
    idle    there is no work: wait to be woken

So reading never stops: a task that is about to wait for something else, or that has run a burst of
requests and has more, makes sure that other tasks go on (`_hand_over`). KEEPALIVE, CANCEL and
REQUEST_N wait for one burst of requests at most, and never for a handler. If handlers compute, and
then wait, a burst is one handler in each of the tasks that are woken at once.

While the peer does not read its answers (the outbox is full), requests stay in the queue: their
answers would only have to wait, each with a task of its own. One task waits for room in the queue
of all senders. When that task gets room, one request begins, so streams that keep the outbox full
cannot stop requests completely.
"""

from __future__ import annotations

import contextvars
from time import perf_counter
from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import cancel_shielded_checkpoint as turn
from trio.lowlevel import checkpoint, reschedule, wait_task_rescheduled

from ..errors import RSocketError
from ..interactions.isolation import being_cancelled, hidden_by_scope, outcome_of, split
from ..log_policy import logger
from .reader import READ_ERRORS
from .shift import AT_ONCE, BURST_SECONDS, SCOPE_REQUESTS, Shift, settle

if TYPE_CHECKING:
    from trio.lowlevel import Task

    from .job import FrameReader, Job
    from .outbox import Outbox
    from .queued_steps import QueuedSteps
    from .workload import Workload

__all__ = ["Crew"]

_MAX_IDLE: Final = 64
"""The number of idle tasks kept for the next burst; each costs a few kilobytes."""

_FAILED: Final = "a handler failed while it was being cancelled"

_MAX_RUNNING: Final = 4
"""The number of tasks that run bursts at the same time, so that a turn of the loop stays short.
Tasks whose handler waits do not count."""

_MAX_WOKEN: Final = 40
"""The number of tasks woken at once when handlers wait in a row."""

_EXPECTED: Final = 7
"""The number of handlers that are expected to wait behind one that did. The next one is stepped."""


class Crew:
    """The tasks of a connection: which one reads, and which ones run requests.

    Attributes:
        stuck: The number of tasks that close what a handler left open in them.
        shifts: The state of each task.
    """

    def __init__(self, workload: Workload, outbox: Outbox) -> None:
        self._workload = workload
        self._outbox = outbox
        self._idle: dict[Task, None] = {}
        self._woken = 0  # tasks that have been woken or started and have not run since
        self._running = 0  # tasks in the middle of a burst
        self._reading = False
        self.stuck = 0
        self.shifts: set[Shift] = set()
        self._waits_for_room = False  # a task waits for room, so that a request can begin
        self._wake_next = 1  # how many tasks to wake at the next wait
        self._slow_after = 0.0  # until when the tasks woken last must run, to wake more
        self._read_by = 0.0  # when reading goes before running requests
        self._expected = 0  # how many of the next handlers will probably wait

    def start(self, nursery: trio.Nursery, reader: FrameReader, first_steps: QueuedSteps) -> None:
        """Begin to read.

        Args:
            nursery: The nursery of the tasks.
            reader: Reads for the tasks.
            first_steps: Answers some requests while their frames are dispatched.
        """
        self._first_steps = first_steps
        self._nursery = nursery
        self._clean = contextvars.copy_context()
        self._reader = reader
        first_steps.reader = reader
        self._wake(1)

    async def end(self) -> bool:
        """Let the tasks end, right after their nursery was cancelled.

        The cancellation does not reach tasks in which a handler has left a shielded scope open.
        Such a task ends when it is woken: its connection is over.

        Returns:
            Whether a task still waits for the transport, which must be closed to wake it.

        Checkpoint: other tasks run; no cancellation is raised here.
        """
        self._wake(len(self._idle))
        for _ in range(2):  # in the first turn, the tasks that were cancelled may run after this
            await turn()
        return self._reading or self._waits_for_room

    # -- one task of the crew ---------------------------------------------------------------

    async def _work(self) -> None:
        """Read, run requests, wait to be woken, until there is a reason to end.

        All this happens within a cancel scope, which a request that waits keeps. One scope lasts
        for several requests (`SCOPE_REQUESTS`).

        After each handler the task must be as it was before (`Watch.changed`). If not, the task
        reads nothing more, does not sleep, and ends; others go on with what was read.
        """
        self._woken -= 1
        workload = self._workload
        shift = Shift(self._idle, self._clean)
        self.shifts.add(shift)
        unchanged = True  # whether handlers have left this task unchanged, so that it can go on
        try:
            while unchanged and not workload.over:
                if (
                    shift.served
                    and self._reading
                    and not workload.queue
                    and len(self._idle) >= _MAX_IDLE
                ):
                    break  # there is nothing to do, and enough other tasks wait for something
                shift.operation = None
                unchanged = False
                closing = False  # whether an error can only come from closing the scope
                try:
                    with trio.CancelScope() as scope:
                        shift.mark()
                        unchanged = await self._look_for_work(shift, scope)
                        closing = True
                except BaseException as error:  # also cancellations, of the scope or the connection
                    unchanged = False
                    if closing and isinstance(error, RuntimeError):
                        logger.error("a handler left a cancel scope open: %s", error)
                    else:
                        self._handle_escaped(shift.operation, hidden_by_scope(error))
                else:
                    if scope.cancelled_caught:
                        # The cancellation of its scope has ended the request that waited.
                        self._close(shift, None)
                        shift.mark()
                        unchanged = not shift.changed()
            self.shifts.discard(shift)
            self._hand_over()
        finally:
            # Out of all scopes of handlers: a shielded one cannot hide the end of the connection.
            # A request whose tasks still run counts as one that runs: their number is limited.
            self.stuck += 1
            workload.active += 1
            await shift.leave()
            self.stuck -= 1
            workload.active -= 1
            if workload.on_done is not None:
                workload.on_done()

    async def _look_for_work(self, shift: Shift, scope: trio.CancelScope) -> bool:
        """Do the work there is, until it is time for another scope.

        Returns:
            Whether handlers have left this task unchanged, so that it can go on.
        """
        workload = self._workload
        queue = workload.queue
        first_steps = self._first_steps
        reader = self._reader
        wait_received = reader.wait_received
        outbox = self._outbox
        room = outbox.room
        clock = perf_counter
        due = False  # a request may begin although the outbox is full

        shift.served = 0
        while not workload.over:
            rest = None
            running = self._running
            if (
                queue
                and not self._waits_for_room
                and (
                    running < _MAX_RUNNING
                    if self._reading
                    else not running and clock() < self._read_by
                )
            ):
                # Another task reads; or no task runs requests, and the last read was just now.
                if (
                    room.used >= room.limit or outbox.control_size > outbox.max_control_size
                ) and not due:
                    if not await self._wait_for_room():
                        return False
                    due = True
                    continue
                if self._expected:
                    # No step by hand: an ordinary `await` costs less if the handler does wait.
                    self._expected -= 1
                    first_steps.take_queued(shift, scope)
                    due = False
                else:
                    rest = first_steps.run_queued(shift, scope, due=due)
                    due = False
                    if rest is not None:
                        self._expected = _EXPECTED
                    elif first_steps.dirty:
                        first_steps.dirty = False
                        return False
                    elif queue:
                        self._running += 1
                        try:
                            self._hand_over_reading()
                            await checkpoint()
                        finally:
                            self._running -= 1
            elif shift.served >= shift.longest:
                shift.longest = SCOPE_REQUESTS
                return True
            elif not self._reading:
                self._reading = True
                paused = reader.paused
                first_steps.left = 0 if queue or paused else AT_ONCE
                first_steps.shift = shift
                if queue and not (running or self._woken or self._waits_for_room):
                    self._wake(1)  # to run requests meanwhile
                try:
                    if not paused:
                        await (
                            reader.wait() if reader.frames or not wait_received else wait_received()
                        )
                    if not reader.deliver():
                        workload.over = True
                except READ_ERRORS as error:
                    reader.failed(error)
                    workload.over = True
                finally:
                    self._reading = False
                    self._read_by = clock() + BURST_SECONDS
                    first_steps.left = 0
                    shift.served += first_steps.count
                    first_steps.count = 0
                self._wake_next = 3 if paused else 1  # after a pause one waits already
                if first_steps.operation is not None:
                    rest = first_steps.hand_out(shift, scope)
                    self._expected = _EXPECTED
                elif first_steps.dirty or shift.changed():  # also by `body_responder`
                    first_steps.dirty = False
                    return False
            elif len(self._idle) >= _MAX_IDLE:
                return False
            else:
                self._idle[shift.task] = None
                await wait_task_rescheduled(shift.abort)
                self._woken -= 1
            if shift.operation is not None:
                self._hand_over()
                try:
                    finished = await (shift.operation.work() if rest is None else rest)
                except Exception as error:  # any error of a handler ends its stream
                    stopped = self._close(shift, error)
                else:
                    stopped = self._close(shift, None, finished=finished is True)
                if shift.changed():
                    return False
                if stopped and scope.cancel_called:
                    return True  # a cancelled scope must not cancel the next work
        return False

    def _close(self, shift: Shift, error: Exception | None, *, finished: bool = False) -> bool:
        """End a request that had waited.

        Args:
            shift: Holds the request.
            error: The error that it raised.
            finished: It has answered the peer already, and left the table of streams.

        Returns:
            Whether it was stopped from outside, so that its scope may have been cancelled.
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
        # As `Workload.done`, without its call.
        workload = self._workload
        workload.active -= 1
        workload.account.held -= operation.size
        if workload.on_done is not None:
            workload.on_done()
        return stopped

    def _handle_escaped(self, operation: Job | None, error: BaseException) -> None:
        """Deal with a `BaseException` that escaped from a handler that had waited.

        It may also come from a cancelled scope that a handler had left open. The cancellation of
        the connection ends here: this task is about to end.

        Raises:
            BaseException: If it does not come from a handler.
        """
        cancelled = being_cancelled()
        if cancelled:
            self._workload.over = True
        if operation is None:
            left_open = isinstance(error, RuntimeError) and isinstance(
                error.__context__, trio.Cancelled
            )
            if left_open or (isinstance(error, trio.Cancelled) and not cancelled):
                logger.error("a handler left a cancel scope open, which was cancelled later")
            elif not isinstance(error, trio.Cancelled):
                raise error
            return
        self._workload.done(operation)
        if not cancelled:
            if isinstance(error, Exception) and not operation.live:
                # The handler raised this in addition to the cancellation, which its scope absorbed.
                logger.error(_FAILED, exc_info=error)
            settle(operation, error)
            return
        operation.close(None)
        # A handler's nursery may raise other errors together with the cancellation.
        _, failure = split(error, trio.Cancelled)
        if failure is not None:
            logger.error(_FAILED, exc_info=outcome_of(failure))

    # -- the division of the work -----------------------------------------------------------

    def _hand_over(self) -> None:
        """Let other tasks run requests and read: this task is going to wait, or to end."""
        if self._workload.over:
            return
        waiting = 0 if self._waits_for_room else len(self._workload.queue)
        if not waiting:
            self._hand_over_reading()
        elif not self._woken:
            # Each woken task that has to wait too wakes more, unless the last ones took long.
            now = perf_counter()
            if now > self._slow_after:
                self._wake_next = 1
            self._slow_after = now + BURST_SECONDS
            self._wake(min(self._wake_next, waiting))
            self._wake_next = min(2 * self._wake_next + 1, _MAX_WOKEN)

    def _hand_over_reading(self) -> None:
        """Let another task read, if no task reads: this task is busy."""
        if not self._reading and not self._woken:
            self._wake(1)

    def _wake(self, count: int) -> None:
        idle = self._idle
        for _ in range(count):
            self._woken += 1
            if idle:
                reschedule(idle.popitem()[0])
            else:
                # A new task gets the context of its starter, which a handler may have changed.
                self._clean.run(self._nursery.start_soon, self._work)

    async def _wait_for_room(self) -> bool:
        """Wait in the queue for room in the outbox; return False if the connection is over."""
        self._waits_for_room = True
        self._hand_over_reading()
        try:
            await self._outbox.wait_unclogged()
            await self._outbox.reserve(0)
        except (RSocketError, trio.ClosedResourceError):
            # An outbox is closed with these errors. Other tasks must not try this again, in a loop
            # without a checkpoint.
            self._workload.over = True
            return False
        finally:
            self._waits_for_room = False
        # It is this task's turn, although tasks behind it may have got all the room by now.
        return True
