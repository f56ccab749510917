"""The queue of frames between all senders and the one writer: `Outbox`.

The states of a frame. Only a payload frame can be WAITING or RESERVED; others begin as QUEUED:

    state      begins with                           its bytes count in
    WAITING    reserve, if there is no room          Room.waiting
    RESERVED   reserve or Room.hand_out              Room.used
    QUEUED     put, put_reserved                     Room.used
               put_control, put_urgent               control_size
    TAKEN      take (writer) or flush (loop)         nothing; `writing` until the batch is sent
    DROPPED    from WAITING: Room.fail_waiting       nothing
               from RESERVED: release                nothing
               from QUEUED: take_back                nothing
               from QUEUED: drop_unsent              as before; the connection is over
               from QUEUED: discard                  as before; the connection is over

What a call does depends on the state of the writer (`rsocket_trio.connection.writer_state`):

    call          AWAKE                 ASLEEP                MARKED                GONE
    put...        queues                queues; MARKED (1)    queues                queues; not sent
    take          takes all, or ASLEEP  - (3)                 - (3)                 - (3)
                  until woken
    flush         does nothing          sends all; ASLEEP (2) sends all; ASLEEP (2) does nothing
    wake_writer   take returns once     AWAKE                 AWAKE                 does nothing
                  more, maybe empty
    discard       drops all; GONE       - (3)                 - (3)                 drops all
    close         in every state: gives no more room; queued frames are sent, more may be put

    (1)  AWAKE if the loop does not flush, or a task waits for the writer to take frames.
    (2)  If not all bytes have left, `wake_writer` follows: AWAKE; the writer goes on, or raises.
    (3)  Does not happen: only the writer's own task makes this call.

Order: the frames of stream 0 go first (Protocol.md, "QoS": they SHOULD have priority). All others
leave in the order of the put calls, so the frames of one stream never overtake each other. The
writer takes all queued frames and sends them in one call, or the loop sends them while the writer
sleeps (`rsocket_trio.connection.flushing`).

Payload frames need room (`rsocket_trio.connection.room`), and what waits for it is bounded in
bytes. Frames that must always leave (CANCEL, ERROR, REQUEST_N, the answer to a KEEPALIVE) never
wait. Their bytes are counted separately: beyond `max_control_size` no request of the peer begins
(`clogged`), and beyond `max_unsent_control_size` the connection ends (`on_overrun`). The reading
never stops because of them: a peer may read only after we read, and then both sides would wait
without end.

    Outbox        the order of the frames, and their sizes
    Room          the bytes of payload frames, and the tasks that wait for room
    WriterState   whether the writer sleeps, and how it is woken
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from ..frames.header import HEADER
from .room import Room
from .writer_state import WriterState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.lowlevel import Task

__all__ = ["Outbox"]


class Outbox:
    """The frames of one connection that wait for its writer.

    Attributes:
        room: The space for payload frames.
        writer: The state of the writer.
        control_size: The bytes of all other queued frames.
        max_control_size: Beyond this the outbox is `clogged`.
        max_unsent_control_size: Beyond this `on_overrun` is called, once.
        on_overrun: Called with the number of bytes of answers that the peer has not read.
        writing: Whether a batch was taken that has not left yet.
        batches: The number of batches that the writer has taken or the loop has sent.
    """

    __slots__ = (
        "_broken",
        "_frames",
        "_urgent",
        "_watchers",
        "batches",
        "control_size",
        "max_control_size",
        "max_unsent_control_size",
        "on_overrun",
        "room",
        "writer",
        "writing",
    )

    def __init__(self, limit: int, max_control_size: int, max_unsent_control_size: int) -> None:
        self.room = Room(limit)
        self.writer = WriterState()
        self.max_control_size = max_control_size
        self.max_unsent_control_size = max_unsent_control_size
        self.on_overrun: Callable[[int], None] | None = None
        self.control_size = 0
        self.writing = False
        self.batches = 0
        self._frames: list[bytes] = []
        self._urgent: list[bytes] = []
        self._watchers: dict[Task, None] = {}
        self._broken = False

    # -- for senders ------------------------------------------------------------------------

    @property
    def clogged(self) -> bool:
        """Whether too many control frames wait: the peer does not read our answers."""
        return self.control_size > self.max_control_size

    def put(self, frame: bytes) -> None:
        """Queue a payload frame. The caller has checked that there is room, in the same turn."""
        self._frames.append(frame)
        self.room.used += len(frame)
        if self.writer.asleep:
            self.writer.announce(at_once=bool(self.room.waiting or self._watchers))

    @property
    def last(self) -> bytes | None:
        """The last queued frame that is not of stream 0; ``None`` if there is none."""
        return self._frames[-1] if self._frames else None

    def take_back(self) -> None:
        """Remove `last`, a payload frame, from the queue."""
        self.release(len(self._frames.pop()))

    def drop_unsent(self, streams: Callable[[int, int], bool]) -> set[int]:
        """Drop the frames of streams whose request waits here, once the connection is over.

        Args:
            streams: Whether a frame with this stream id, type and flags is such a request.

        Returns:
            The ids of these streams. Nothing of them has left, as frames leave in order.
        """
        unsent: set[int] = set()
        kept: list[bytes] = []
        for frame in self._frames:
            stream_id, type_and_flags = HEADER.unpack_from(frame)
            if streams(stream_id, type_and_flags):
                unsent.add(stream_id)
            if stream_id not in unsent:
                kept.append(frame)
        self._frames[:] = kept
        return unsent

    def put_control(self, frame: bytes) -> None:
        """Queue a frame that must always leave, behind the frames that are queued already."""
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
        if before > self.max_unsent_control_size and self.on_overrun is not None:
            # One frame of any size may exceed the limit: there are KEEPALIVEs of 16 MiB.
            tell, self.on_overrun = self.on_overrun, None
            tell(before)

    async def reserve(self, size: int) -> None:
        """Wait for room for ``size`` bytes.

        Then call `put_reserved`, or `release` the room, without a checkpoint in between.

        Raises:
            Exception: The error with which the outbox was closed.

        Checkpoint: only if there is no room, or the outbox was closed.
        If cancelled: nothing is reserved.
        """
        if not self.room.try_take(size):
            self._wake_for_waiters()
            await self.room.wait(size)

    def release(self, size: int) -> None:
        """Give back reserved room that is not needed; tasks that wait may get it."""
        self.room.give_back(size)

    def put_reserved(self, frame: bytes) -> None:
        """Queue a frame whose room has been reserved."""
        self._frames.append(frame)
        if self.writer.asleep:
            self._announce()

    async def wait_idle(self) -> None:
        """Wait until all queued frames have been sent, or the transport has broken.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        await checkpoint()
        while not self._broken and (
            self.writing or self._frames or self._urgent or self.room.waiting
        ):
            await self._watch()

    async def wait_unclogged(self) -> None:
        """Wait until the outbox is not `clogged` any more, or the transport has broken.

        Checkpoint: only if it is clogged.
        If cancelled: nothing changes.
        """
        while self.clogged and not self._broken:
            await self._watch()

    async def _watch(self) -> None:
        """Wait until the writer takes frames, or finds the queue empty."""
        task = current_task()
        self._watchers[task] = None
        self._wake_for_waiters()

        def abort(_raise_cancel: Any) -> Abort:
            del self._watchers[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def close(self, error: Exception) -> None:
        """Give no more room: tasks that wait for room get ``error``, by `Room.fail_waiting`.

        Queued frames are still sent, and frames may still be put (the last ERROR).
        """
        self.on_overrun = None
        self.room.close(error)

    def discard(self) -> None:
        """Drop all queued frames: the transport is broken. Called after `close`."""
        self._broken = True
        self._frames.clear()
        self._urgent.clear()
        self.control_size = 0
        self.room.empty()
        self.writing = False
        self.writer.gone()
        self._release_watchers()

    def flush(self, send_nowait: Callable[[list[bytes]], bool]) -> bool:
        """Send the queued frames while the writer sleeps. Only the loop calls this, no task.

        Args:
            send_nowait: `rsocket_trio.transports.base.FrameTransport.send_frames_nowait`.

        Returns:
            Whether all bytes have left; if not, `wake_writer` must follow.
        """
        writer = self.writer
        if writer.task is None:
            return True  # the writer is awake and sends the frames itself, or it is gone
        frames = self._frames
        try:
            done = send_nowait(self._urgent + frames if self._urgent else frames)
        except Exception:
            # The writer meets the same error when it sends, and raises it.
            return False
        frames.clear()  # a new list would be one more object for the garbage collector
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
        """Tell the sleeping writer, or the loop, that there are frames to send."""
        self.writer.announce(at_once=bool(self.room.waiting or self._watchers))

    def _wake_for_waiters(self) -> None:
        """Wake the writer for a task that waits until frames are taken: `flush` wakes no task."""
        if self._frames or self._urgent:
            self.wake_writer()

    # -- for the writer ---------------------------------------------------------------------

    def wake_writer(self) -> None:
        """Wake the writer. Transports call this if they have something of their own to send."""
        self.writer.due = True
        self.writer.wake()

    async def take(self) -> list[bytes]:
        """Wait for frames and take them all. Empty if only the transport has something to send.

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
