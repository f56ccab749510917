"""What waits to be sent: `Outbox`, between everybody who sends and the one writer.

Order: the frames of stream 0 go first (Protocol.md, "QoS": they SHOULD have priority); all others
leave in the order in which they were put, so the frames of one stream never overtake each other.
The writer takes all there is and sends it in one go; or the loop sends it for a writer that
sleeps (`rsocket_trio.connection.flushing`).

Room: producers of payloads put at most ``limit`` bytes ahead of the writer; those who find no room
wait in a queue and are handed room in order, which makes streams take turns: a fragment of this
one, a fragment of that one. Frames that must get out whatever happens (CANCEL, ERROR, REQUEST_N,
the answer to a KEEPALIVE) never wait; they are counted apart, and the connection stops reading
from a peer that lets too many of them pile up (`Outbox.clogged`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from outcome import Error
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from .failure import again

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.lowlevel import Task

__all__ = ["Outbox"]


class Outbox:
    """The frames of one connection that wait for its writer.

    Attributes:
        limit: Bytes of payload frames that may wait.
        size: Bytes of payload frames that wait, or for which room has been handed out.
        control_size: Bytes of other frames that wait.
        max_control_size: Past this the outbox is `clogged`.
        writing: Whether the writer has taken frames that have not left yet.
        batches: How often frames were taken: by the writer, or sent in its place.
    """

    __slots__ = (
        "_asleep",
        "_broken",
        "_closed",
        "_frames",
        "_handed",
        "_look_again",
        "_mark",
        "_urgent",
        "_waiting",
        "_watchers",
        "_writer",
        "batches",
        "control_size",
        "limit",
        "max_control_size",
        "size",
        "writing",
    )

    def __init__(self, limit: int, max_control_size: int) -> None:
        self.limit = limit
        self.max_control_size = max_control_size
        self.size = 0
        self.control_size = 0
        self.writing = False
        self.batches = 0
        self._frames: list[bytes] = []
        self._handed = 0  # bytes of room given to tasks that have not run since
        self._urgent: list[bytes] = []
        self._waiting: deque[tuple[Task, int]] = deque()
        self._watchers: list[Task] = []
        self._writer: Task | None = None
        self._asleep = False  # the writer waits, and nobody has said yet that there is something
        self._mark: Callable[[], object] | None = None
        self._look_again = False  # whether the writer was woken for what is not queued here
        self._closed: Exception | None = None
        self._broken = False

    # -- for those who send -----------------------------------------------------------------

    @property
    def clogged(self) -> bool:
        """The peer makes us answer more than it reads."""
        return self.control_size > self.max_control_size

    def put(self, frame: bytes) -> None:
        """Queue a payload frame. Only while ``size < limit``: look first, without a checkpoint."""
        self._frames.append(frame)
        self.size += len(frame)
        if self._asleep:
            self._announce()

    def put_control(self, frame: bytes) -> None:
        """Queue a frame that must get out, behind what is queued already."""
        self._frames.append(frame)
        self.control_size += len(frame)
        if self._asleep:
            self._announce()

    def put_urgent(self, frame: bytes) -> None:
        """Queue a frame of stream 0: it overtakes all others."""
        self._urgent.append(frame)
        self.control_size += len(frame)
        if self._asleep:
            self._announce()

    async def reserve(self, size: int) -> None:
        """Wait for room for ``size`` bytes.

        Then call `put_reserved`, or `release` what is not needed any more; no checkpoint between.

        Raises:
            Exception: What the outbox was closed with.

        Checkpoint: only if there is no room.
        If cancelled: nothing is reserved.
        """
        if self._closed is not None:
            raise again(self._closed)
        if self.size < self.limit:
            # Nobody waits: room that comes free is handed to those who wait, first come first
            # served, until there is none or nobody.
            self.size += size
            return
        entry = (current_task(), size)
        self._waiting.append(entry)
        self._wake_for_waiters()

        def abort(_raise_cancel: Any) -> Abort:
            self._waiting.remove(entry)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)
        self._handed -= size

    def release(self, size: int) -> None:
        """Give back room that was reserved and is not needed: others may be waiting for it."""
        self.size -= size
        self._hand_out()

    def put_reserved(self, frame: bytes) -> None:
        """Queue a frame whose room has been reserved."""
        self._frames.append(frame)
        if self._asleep:
            self._announce()

    async def wait_idle(self) -> None:
        """Wait until all that is queued has been sent, or the outbox is closed.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        await checkpoint()
        while not self._broken and (self.writing or self._frames or self._urgent or self._waiting):
            await self._watch()

    async def wait_unclogged(self) -> None:
        """Wait until the writer has taken what made this outbox `clogged`.

        Checkpoint: only if it is clogged.
        If cancelled: nothing changes.
        """
        while self.clogged:
            await self._watch()

    async def _watch(self) -> None:
        """Wait until the writer takes frames, or finds none."""
        task = current_task()
        self._watchers.append(task)
        self._wake_for_waiters()

        def abort(_raise_cancel: Any) -> Abort:
            self._watchers.remove(task)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def set_limit(self, limit: int) -> None:
        """Change ``limit``; 0 lets no payload in. Those who wait get the room that comes of it."""
        self.limit = limit
        self._hand_out()

    def close(self, error: Exception) -> None:
        """No room will come any more: those who wait for it get ``error``.

        What is queued is still sent, and frames may still be put (the last ERROR).
        """
        self._closed = error
        while self._waiting:
            task, _ = self._waiting.popleft()
            reschedule(task, Error(again(error)))

    def discard(self) -> None:
        """Nothing can be sent any more: forget what is queued. After `close`."""
        self._broken = True
        self._frames.clear()
        self._urgent.clear()
        self.writing = False
        self._release_watchers()

    def flush_by(self, mark: Callable[[], object] | None) -> None:
        """From now on, ask for a `flush` where the writer sleeps and there is something to send.

        Args:
            mark: Asks for it; ``None`` goes back to waking the writer.
        """
        self._mark = mark

    def flush(self, send_nowait: Callable[[list[bytes]], bool]) -> bool:
        """Send what is queued in place of a writer that sleeps. For no task to call.

        Args:
            send_nowait: `rsocket_trio.transports.base.FrameTransport.send_frames_nowait`.

        Returns:
            Whether that was all; else `wake_writer` must follow.
        """
        if self._writer is None:
            return True  # awake, or gone: what is queued is its business
        frames = self._frames
        if self._urgent:
            frames = self._urgent + frames
        try:
            done = send_nowait(frames)
        except Exception:
            # It happens again in the writer, whose business it is.
            return False
        self._frames = []
        self._urgent = []
        self.batches += 1
        self.control_size = 0
        self.size = self._handed
        self.writing = not done
        self._asleep = done
        return done

    def _announce(self) -> None:
        """There is something to send, and the writer sleeps."""
        if self._mark is None or self._waiting or self._watchers:
            self.wake_writer()
        else:
            self._asleep = False
            self._mark()

    def _wake_for_waiters(self) -> None:
        """Somebody waits for the writer to take frames; a `flush` would not tell them."""
        if self._writer is not None and (self._frames or self._urgent):
            self.wake_writer()

    # -- for the writer ---------------------------------------------------------------------

    def wake_writer(self) -> None:
        """Let the writer look again; transports call it for what they have to send themselves."""
        self._look_again = True
        task = self._writer
        if task is not None:
            self._writer = None
            self._asleep = False
            reschedule(task)

    async def take(self) -> list[bytes]:
        """Wait for frames and take them all. Empty where only the transport has to send.

        Checkpoint: only if there is nothing to send.
        If cancelled: nothing is taken.
        """
        self.writing = False
        if not self._frames and not self._urgent and not self._look_again:
            self._release_watchers()
            self._writer = current_task()
            self._asleep = True
            await wait_task_rescheduled(self._abort_take)
        self._look_again = False
        self.writing = True
        frames = self._frames
        self._frames = []
        if self._urgent:
            frames = self._urgent + frames
            self._urgent = []
        self.batches += 1
        self.control_size = 0
        self.size = self._handed
        self._release_watchers()
        self._hand_out()
        return frames

    def _hand_out(self) -> None:
        """Give the room there is to those who wait for it, in order."""
        waiting = self._waiting
        while waiting and self.size < self.limit:
            task, size = waiting.popleft()
            self.size += size
            self._handed += size
            reschedule(task)

    def _abort_take(self, _raise_cancel: Any) -> Abort:
        self._writer = None
        self._asleep = False
        return Abort.SUCCEEDED

    def _release_watchers(self) -> None:
        watchers = self._watchers
        while watchers:
            reschedule(watchers.pop())
