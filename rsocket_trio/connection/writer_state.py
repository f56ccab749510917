"""Where the writer of a connection stands: `WriterState`.

    AWAKE     it runs, or is about to: it will look at the outbox again
    ASLEEP    it waits, and whoever puts a frame says so
    MARKED    it waits, and the loop has been asked to send in its place (`flushing`)
    GONE      it has ended: nobody sends any more

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
    """See the drawing above."""

    AWAKE = auto()
    ASLEEP = auto()
    MARKED = auto()
    GONE = auto()


class WriterState:
    """The writer's state, and who wakes it.

    Attributes:
        state: Where it stands.
        asleep: The same as ``state is ASLEEP``, as a plain attribute: it is read for every frame.
        due: It was woken for something that is not in the outbox: it has to look once more.
        task: It, while it waits, so that the loop may send in its place.
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
        """Wait to be woken. For the writer's own task.

        Checkpoint: always.
        If cancelled: the writer is awake.
        """
        self.task = current_task()
        self.state = State.ASLEEP
        self.asleep = True
        await wait_task_rescheduled(self._abort)

    def announce(self, *, at_once: bool) -> None:
        """There is something to send, and the writer is asleep.

        Args:
            at_once: A flush would not do: somebody waits for the writer itself.
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
        """The loop has sent all there was in its place."""
        self.state = State.ASLEEP
        self.asleep = True

    def gone(self) -> None:
        """The writer has ended."""
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
