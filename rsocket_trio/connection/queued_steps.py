"""Run the requests of the queue, by one step each: `QueuedSteps`, the base of `FirstSteps`.

It knows nothing of the protocol, so every wire with handlers uses it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import TYPE_CHECKING

from ..interactions.operation import IN_A_ROW
from .shift import BURST_SECONDS, LOOK, settle

if TYPE_CHECKING:
    import trio

    from .job import FrameReader, Job
    from .outbox import Outbox
    from .shift import Shift
    from .workload import Workload

__all__ = ["QueuedSteps"]


class QueuedSteps:
    """Runs requests by one step each, in the task that calls it.

    Attributes:
        left: How many requests of this read may still be run where they are dispatched. The crew
            sets it for each read.
        count: How many requests have been run since the crew reset this number.
        shift: The task that reads. The crew sets it for each read.
        dirty: Whether a handler has changed the task that called it, which must run no other.
        operation: The request whose handler waits in the task that reads, if there is one.
        rest: The rest of that handler, to be awaited in that task.
        reader: The reader, to be paused where another task goes on. The crew sets it.
    """

    __slots__ = (
        "_outbox",
        "_room",
        "_workload",
        "count",
        "dirty",
        "left",
        "operation",
        "reader",
        "rest",
        "shift",
    )

    reader: FrameReader
    shift: Shift

    def __init__(self, outbox: Outbox, workload: Workload) -> None:
        self._outbox = outbox
        self._room = outbox.room
        self._workload = workload
        self.count = 0
        self.left = 0
        self.dirty = False
        self.operation: Job | None = None
        self.rest: Awaitable[object] | None = None

    def run_queued(
        self, shift: Shift, scope: trio.CancelScope, *, due: bool
    ) -> Awaitable[object] | None:
        """Run the requests of the queue, by one step each.

        Args:
            shift: Counts the requests, and holds the one that waits.
            scope: The cancel scope of this task; the request that waits keeps it.
            due: Whether the first request may begin although the outbox is full.

        Returns:
            The rest of the request that waits now; ``None`` if the queue is empty, or it is time
            for other tasks, or a handler has changed this task (``dirty``).
        """
        workload = self._workload
        queue = workload.queue
        outbox = self._outbox
        room = outbox.room
        until = 0.0
        served = 0
        while queue and not workload.over:
            if room.used >= room.limit or outbox.control_size > outbox.max_control_size:
                if not due:
                    break
                due = False
            operation = queue.popleft()
            if operation.live:
                workload.arrived = operation.arrived
                try:
                    rest = operation.begin()
                except BaseException as error:  # any error of a handler ends its stream
                    settle(operation, error)
                else:
                    if rest is not None:
                        # Its first wait: the request keeps this task and its scope.
                        shift.served += served + 1
                        shift.operation = operation
                        operation.attach(scope)
                        return rest
            workload.active -= 1
            workload.account.held -= operation.size
            if workload.on_done is not None:
                workload.on_done()
            if shift.changed():
                self.dirty = True
                break
            served += 1
            if not served & LOOK:
                time = perf_counter()
                if served >= IN_A_ROW or (until and time > until):
                    break
                until = until or time + BURST_SECONDS
        shift.served += served
        return None

    def take_queued(self, shift: Shift, scope: trio.CancelScope) -> None:
        """Give the next request of the queue to the calling task, which awaits all its work."""
        workload = self._workload
        operation = workload.queue.popleft()
        if operation.live:
            workload.arrived = operation.arrived
            shift.served += 1
            shift.operation = operation
            operation.scope = scope
        else:
            workload.done(operation)

    def hand_out(self, shift: Shift, scope: trio.CancelScope) -> Awaitable[object] | None:
        """Give the request that waits to the calling task and its scope; see `run_queued`."""
        operation, rest = self.operation, self.rest
        self.operation = self.rest = None
        if operation is not None:
            shift.operation = operation
            operation.attach(scope)
        return rest
