"""What waits to be sent: `Outbox`, between everybody who sends and the one writer.

Order: the frames of stream 0 go first (Protocol.md, "QoS": they SHOULD have priority); all others
leave in the order in which they were put, so the frames of one stream never overtake each other.
The writer takes all there is and sends it in one go; or the loop sends it for a writer that
sleeps (`rsocket_trio.connection.flushing`).

Payload frames need room (`rsocket_trio.connection.room`). Frames that must get out whatever happens
(CANCEL, ERROR, REQUEST_N, the answer to a KEEPALIVE) never wait. They are counted apart: past
`max_control_size` no request of the peer begins (`clogged`), and past `max_unsent_size` the
connection ends (`on_overrun`). Nobody stops reading because of them: a peer that waits for us to
read before it reads would wait for ever.

    Outbox        order and sizes of what waits
    Room          bytes of payload frames, and the tasks that wait for room
    WriterState   whether the writer sleeps, and who wakes it

What each call does depends on the writer (`rsocket_trio.connection.writer_state` draws its states):

    call          AWAKE                ASLEEP                MARKED              GONE
    put, and kin  queues               queues; MARKED *      queues              queues, in vain
    take          all there is, or     -                     -                   -
                  ASLEEP till woken
    flush         nothing              sends all; ASLEEP **  likewise            nothing
    wake_writer   take returns once    AWAKE                 AWAKE               nothing
                  more, maybe empty
    close         no more room; what is queued is sent, and more may be put: in every state
    discard       drops all; GONE      -                     -                   drops all

    *   AWAKE where the loop does not flush, or somebody waits for the writer to take frames.
    **  Where not all has left `wake_writer` follows, so AWAKE: the writer goes on, and raises.
    -   Does not happen: the writer's own task calls it, and only that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from .room import Room
from .writer_state import WriterState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.lowlevel import Task

__all__ = ["Outbox"]


class Outbox:
    """The frames of one connection that wait for its writer.

    Attributes:
        room: For payload frames.
        writer: Where the writer stands.
        control_size: Bytes of other frames that wait.
        max_control_size: Past this the outbox is `clogged`.
        max_unsent_size: Past this `on_overrun` is called, once.
        on_overrun: Told how many bytes of answers the peer has left unread.
        writing: Whether frames were taken that have not left yet.
        batches: How often frames were taken: by the writer, or sent in its place.
    """

    __slots__ = (
        "_broken",
        "_frames",
        "_urgent",
        "_watchers",
        "batches",
        "control_size",
        "max_control_size",
        "max_unsent_size",
        "on_overrun",
        "room",
        "writer",
        "writing",
    )

    def __init__(self, limit: int, max_control_size: int, max_unsent_size: int) -> None:
        self.room = Room(limit)
        self.writer = WriterState()
        self.max_control_size = max_control_size
        self.max_unsent_size = max_unsent_size
        self.on_overrun: Callable[[int], None] | None = None
        self.control_size = 0
        self.writing = False
        self.batches = 0
        self._frames: list[bytes] = []
        self._urgent: list[bytes] = []
        self._watchers: dict[Task, None] = {}
        self._broken = False

    # -- for those who send -----------------------------------------------------------------

    @property
    def clogged(self) -> bool:
        """The peer makes us answer more than it reads."""
        return self.control_size > self.max_control_size

    @property
    def full(self) -> bool:
        """What the peer asks for now would only have to wait: there is no room, or too much."""
        room = self.room
        return room.used >= room.limit or self.control_size > self.max_control_size

    def put(self, frame: bytes) -> None:
        """Queue a payload frame. Only where there is room: look first, without a checkpoint."""
        self._frames.append(frame)
        self.room.used += len(frame)
        if self.writer.asleep:
            self.writer.announce(at_once=bool(self.room.waiting or self._watchers))

    @property
    def last(self) -> bytes | None:
        """The frame that was put last, if it is still here; not one of stream 0."""
        return self._frames[-1] if self._frames else None

    def take_back(self) -> None:
        """Forget `last`, a payload frame: it has not left, and is not wanted any more."""
        self.release(len(self._frames.pop()))

    def put_control(self, frame: bytes) -> None:
        """Queue a frame that must get out, behind what is queued already."""
        self._frames.append(frame)
        self._count(len(frame))

    def put_urgent(self, frame: bytes) -> None:
        """Queue a frame of stream 0: it overtakes all others."""
        self._urgent.append(frame)
        self._count(len(frame))

    def _count(self, size: int) -> None:
        before = self.control_size
        self.control_size = before + size
        if self.writer.asleep:
            self._announce()
        if before > self.max_unsent_size and self.on_overrun is not None:
            # One frame may go past it, however large: there are KEEPALIVEs of 16 MiB.
            tell, self.on_overrun = self.on_overrun, None
            tell(before)

    async def reserve(self, size: int) -> None:
        """Wait for room for ``size`` bytes.

        Then call `put_reserved`, or `release` what is not needed any more; no checkpoint between.

        Raises:
            Exception: What the outbox was closed with.

        Checkpoint: only if there is no room.
        If cancelled: nothing is reserved.
        """
        if not self.room.try_take(size):
            self._wake_for_waiters()
            await self.room.wait(size)

    def release(self, size: int) -> None:
        """Give back room that was reserved and is not needed: others may be waiting for it."""
        self.room.give_back(size)

    def put_reserved(self, frame: bytes) -> None:
        """Queue a frame whose room has been reserved."""
        self._frames.append(frame)
        if self.writer.asleep:
            self._announce()

    async def wait_idle(self) -> None:
        """Wait until all that is queued has been sent, or the outbox is closed.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        await checkpoint()
        while not self._broken and (
            self.writing or self._frames or self._urgent or self.room.waiting
        ):
            await self._watch()

    async def wait_unclogged(self) -> None:
        """Wait until what made this outbox `clogged` has been taken.

        Checkpoint: only if it is clogged.
        If cancelled: nothing changes.
        """
        while self.clogged and not self._broken:
            await self._watch()

    async def _watch(self) -> None:
        """Wait until the writer takes frames, or finds none."""
        task = current_task()
        self._watchers[task] = None
        self._wake_for_waiters()

        def abort(_raise_cancel: Any) -> Abort:
            del self._watchers[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def close(self, error: Exception) -> None:
        """No room will come any more: those who wait for it get ``error``, by `Room.let_go`.

        What is queued is still sent, and frames may still be put (the last ERROR).
        """
        self.on_overrun = None
        self.room.close(error)

    def discard(self) -> None:
        """Nothing can be sent any more: forget what is queued. After `close`."""
        self._broken = True
        self._frames.clear()
        self._urgent.clear()
        self.control_size = 0
        self.room.empty()
        self.writing = False
        self.writer.gone()
        self._release_watchers()

    def flush(self, send_nowait: Callable[[list[bytes]], bool]) -> bool:
        """Send what is queued in place of a writer that sleeps. For no task to call.

        Args:
            send_nowait: `rsocket_trio.transports.base.FrameTransport.send_frames_nowait`.

        Returns:
            Whether that was all; else `wake_writer` must follow.
        """
        writer = self.writer
        if writer.task is None:
            return True  # awake, or gone: what is queued is its business
        frames = self._frames
        try:
            done = send_nowait(self._urgent + frames if self._urgent else frames)
        except Exception:
            # It happens again in the writer, whose business it is.
            return False
        frames.clear()  # a new list would be one more object for the garbage collector to look at
        if self._urgent:
            self._urgent = []
        self.batches += 1
        self.control_size = 0
        self.room.empty()
        self.writing = not done
        if done:
            writer.flushed()
        return done

    def _announce(self) -> None:
        """There is something to send, and the writer sleeps."""
        self.writer.announce(at_once=bool(self.room.waiting or self._watchers))

    def _wake_for_waiters(self) -> None:
        """Somebody waits for the writer to take frames; a `flush` would not tell them."""
        if self._frames or self._urgent:
            self.wake_writer()

    # -- for the writer ---------------------------------------------------------------------

    def wake_writer(self) -> None:
        """Let the writer look again; transports call it for what they have to send themselves."""
        self.writer.due = True
        self.writer.wake()

    async def take(self) -> list[bytes]:
        """Wait for frames and take them all. Empty where only the transport has to send.

        Checkpoint: only if there is nothing to send.
        If cancelled: nothing is taken.
        """
        self.writing = False
        if not self._frames and not self._urgent and not self.writer.due:
            self._release_watchers()
            await self.writer.sleep()
        self.writer.due = False
        self.writing = True
        frames = self._urgent + self._frames if self._urgent else self._frames
        self._frames = []
        self._urgent = []
        self.batches += 1
        self.control_size = 0
        self.room.empty()
        self._release_watchers()
        self.room.hand_out()
        return frames

    def _release_watchers(self) -> None:
        watchers, self._watchers = self._watchers, {}
        for task in watchers:
            reschedule(task)
