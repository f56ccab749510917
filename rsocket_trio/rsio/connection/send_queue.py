"""What waits to be sent, and in which order: `SendQueue`.

A write takes, in this order:

1. hello, answers to the peer (`subscribed`, the ends of streams that were cancelled or refused),
   messages of extensions, and the goodbye: all that are ready
2. what we ask of the peer: subscribe and cancel, then requests
3. elements: streams take turns, and each gets a share

Each step begins only if the steps before have left room in the 64 KiB of a write. Two reasons:

- Demand and elements are fetched when there is room: a request is a number until then, and an
  element stays with its stream. So a socket that nobody reads costs no memory.
- Whoever asks for much gets many questions himself if the peer does the same, and both ends go on
  reading all the time. As an end answers before it asks for more, what both have to answer stays
  at what some writes can ask for. If questions went first, answers would pile up behind them.

The ids of streams are of two spaces, so answers may overtake questions.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from ...connection.writer_state import WriterState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.lowlevel import Task

__all__ = ["Demanding", "SendQueue", "Sending"]

WRITE_SIZE: Final = 64 * 2**10
"""The octets of one write. It may be longer by one message."""

SHARE: Final = 16 * 2**10
"""The octets that one stream may add before the next one has its turn, if there are others. It may
be longer by one message."""

TURNS: Final = 128
"""The most turns of streams in one write. With short elements, a write of 64 KiB would have
thousands, in each of which a publisher runs, and no other task would."""

REPLY_COST: Final = 64
"""What one answer costs besides its octets, as it is an object. Without it, a flood of short
answers would take ten times its size."""


class Sending(Protocol):
    """A stream with something to send."""

    scheduled: bool

    def write(self, pieces: list[bytes], budget: int) -> int:
        """Add messages of at most ``budget`` octets, or one message, and return their octets.

        If there are none left, ``has_more`` is false.
        """

    @property
    def has_more(self) -> bool:
        """Whether there is more to send now."""


class Demanding(Protocol):
    """A subscription of ours with demand that was not sent yet."""

    def write_request(self) -> bytes:
        """Return the message, or nothing if there is no need for it any more."""


class SendQueue:
    """The messages of one connection that wait for its writer.

    Attributes:
        reply_size: The octets of answers to the peer that wait, and `REPLY_COST` for each.
        max_reply_size: Past it the queue is `clogged`; see `RsioConfig.max_control_size`.
        writing: Whether a batch was taken that has not left yet.
        sent: The octets that were taken so far.
        closed: Nothing more is sent behind what is queued: our goodbye is, or the peer is gone.
    """

    def __init__(self, max_reply_size: int) -> None:
        self._ready: list[bytes] = []
        self._questions: deque[bytes] = deque()
        self._demanding: dict[Demanding, None] = {}
        self._streams: OrderedDict[Sending, None] = OrderedDict()
        self._state = WriterState()
        self.max_reply_size: Final = max_reply_size
        self._watchers: dict[Task, None] = {}
        self.reply_size = 0
        self.writing = False
        self.sent = 0
        self.closed = False
        self._broken = False

    # -- for the two sides --------------------------------------------------------------------

    def put(self, message: bytes) -> None:
        """Queue a message behind those that are queued so, before all others."""
        if not self.closed:
            self._ready.append(message)
            if self._state.asleep:
                self._state.wake()

    def put_reply(self, message: bytes) -> None:
        """Queue an answer to a message of the peer, if there is one."""
        if message and not self.closed:
            self.reply_size += len(message) + REPLY_COST
            self.put(message)

    def put_question(self, message: bytes) -> None:
        """Queue a message that the peer has to answer: subscribe or cancel."""
        if message and not self.closed:
            self._questions.append(message)
            if self._state.asleep:
                self._state.wake()

    def note_demand(self, subscription: Demanding) -> None:
        """Ask a subscription for its request, when there is room."""
        self._demanding[subscription] = None
        if self._state.asleep:
            self._state.wake()

    def schedule(self, stream: Sending) -> None:
        """Give a stream its turns until it has nothing to send."""
        if not stream.scheduled and not self.closed:
            stream.scheduled = True
            self._streams[stream] = None
            if self._state.asleep:
                self._state.wake()

    def unschedule(self, stream: Sending) -> None:
        """Forget a stream, which costs a hundred times what the message costs that has ended it."""
        if stream.scheduled:
            stream.scheduled = False
            self._streams.pop(stream, None)

    @property
    def ready_size(self) -> int:
        """The octets of the messages that are ready."""
        return sum(map(len, self._ready)) + sum(map(len, self._questions))

    @property
    def clogged(self) -> bool:
        """Whether the peer has to read answers before subscriptions of it begin."""
        return self.reply_size > self.max_reply_size

    async def wait_idle(self) -> None:
        """Wait until all that is queued has left, or the transport has broken.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        await checkpoint()
        while not self._broken and (self.writing or self._has_work()):
            await self._watch()

    async def _watch(self) -> None:
        """Wait until the writer takes a batch or finds nothing to send."""
        task = current_task()
        self._watchers[task] = None

        def abort(_raise_cancel: Any) -> Abort:
            del self._watchers[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def close(self) -> None:
        """Send nothing behind the answers that are queued now, the last of which is the goodbye.

        It closes all streams, so that questions and elements have no meaning any more.
        """
        self.closed = True
        self._questions.clear()
        self._streams.clear()
        self._demanding.clear()

    def take_rest(self) -> list[bytes]:
        """Return the messages that are ready: they are sent without the writer."""
        rest, self._ready = self._ready, []
        return rest

    def discard(self) -> None:
        """Drop everything: the transport is broken."""
        self.close()
        self._broken = True
        self._ready.clear()
        self.reply_size = 0
        self.writing = False
        self._state.gone()
        self._release_watchers()

    # -- for the writer -----------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the writer. Transports call this if they have something of their own to send."""
        self._state.due = True
        self._state.wake()

    async def run(self, send: Callable[[list[bytes]], Any]) -> None:
        """Send again and again; this is the writer of a connection.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: The owner has closed the transport while it was in use.

        Checkpoint: behind each write, and while there is nothing to send.
        If cancelled: a batch may have been sent in part; close the transport.
        """
        state = self._state
        while True:
            self.writing = False
            if not self._has_work() and not state.due:
                self._release_watchers()
                await state.sleep()
                continue
            state.due = False
            self.writing = True
            batch = self._batch()
            self._release_watchers()
            await send(batch)
            if self._has_work():
                # A socket that takes everything at once would never let another task run.
                await checkpoint()

    def _has_work(self) -> bool:
        return bool(self._ready or self._questions or self._streams or self._demanding)

    def _batch(self) -> list[bytes]:
        pieces, self._ready = self._ready, []
        size = sum(map(len, pieces))
        self.reply_size = 0
        questions = self._questions
        while questions and size < WRITE_SIZE:
            pieces.append(questions.popleft())
            size += len(pieces[-1])
        if self._demanding and not questions:  # a request must not overtake its subscribe
            demanding, self._demanding = self._demanding, {}
            for each in demanding:
                message = each.write_request()
                if message:
                    pieces.append(message)
                    size += len(message)
        streams = self._streams
        turns = TURNS
        while streams and size < WRITE_SIZE and turns:
            turns -= 1
            stream, _ = streams.popitem(last=False)
            budget = WRITE_SIZE - size
            size += stream.write(pieces, min(SHARE, budget) if streams else budget)
            if stream.has_more and not self.closed:
                streams[stream] = None
            else:
                stream.scheduled = False
            # What the publishers have caused while they were asked for more goes first.
            if self._ready:
                break
        self.sent += size
        return pieces

    def _release_watchers(self) -> None:
        watchers, self._watchers = self._watchers, {}
        for task in watchers:
            reschedule(task)
