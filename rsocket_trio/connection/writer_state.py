"""The states of the writer of a connection: `WriterState`.

    AWAKE     it runs, or is about to run, and looks at the outbox again
    ASLEEP    it waits; a task that puts a frame calls `announce`
    MARKED    it waits, and the loop has been asked to send in its place (`flushing`)
    GONE      it has ended: no frame is sent any more

    AWAKE  --sleep-->  ASLEEP  --announce-->  MARKED  --flushed, all of it-->  ASLEEP
      ^                   |                      |
      +----- wake --------+------- wake ---------+

There is one sender at a time: the loop sends only while the writer waits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["State", "WriterState"]


class State(Enum):
    """The states that the drawing above shows."""

    AWAKE = auto()
    ASLEEP = auto()
    MARKED = auto()
    GONE = auto()


class WriterState:
    """The state of the writer, and the functions that wake it.

    Attributes:
        state: The present state.
        asleep: The same as ``state is ASLEEP``, as a plain attribute: it is read for every frame.
        due: Whether the writer must run once although the outbox may be empty.
        task: The writer's task while it waits, so that the loop may send in its place.
        mark: Asks the loop for a flush at the end of the turn; ``None``: wake the task instead.
    """

    __slots__ = ("asleep", "due", "mark", "state", "task")

    def __init__(self) -> None:
        self.state = State.AWAKE
        self.asleep = False
        self.due = False
        self.mark: Callable[[], object] | None = None
        self.task: Task | None = None

    async def sleep(self) -> None:
        """Wait to be woken. Only the writer's own task calls this.

        Checkpoint: always.
        If cancelled: the writer is awake.
        """
        self.task = current_task()
        self.state = State.ASLEEP
        self.asleep = True
        await wait_task_rescheduled(self._abort)

    def announce(self, *, at_once: bool) -> None:
        """Tell the sleeping writer, or the loop, that there are frames to send.

        Args:
            at_once: Wake the writer itself, because a task waits until it takes frames.
        """
        if self.mark is None or at_once:
            self.wake()
        else:
            self.state = State.MARKED
            self.asleep = False
            self.mark()

    def wake(self) -> None:
        """Let the writer run, if it waits."""
        task = self.task
        if task is not None:
            self._awake()
            reschedule(task)

    def flushed(self) -> None:
        """Record that the loop has sent all frames in place of the writer."""
        self.state = State.ASLEEP
        self.asleep = True

    def gone(self) -> None:
        """Record that the writer has ended."""
        self.state = State.GONE
        self.asleep = False
        self.task = None

    def _awake(self) -> None:
        self.task = None
        self.asleep = False
        self.state = State.AWAKE

    def _abort(self, _raise_cancel: Any) -> Abort:
        self._awake()
        return Abort.SUCCEEDED
