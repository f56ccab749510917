"""The messages that have arrived on one stream: `MessageInbox`, and its view `MessageStream`.

The protocol has no flow control. So what waits to be received is limited, for each stream and for
the connection; `rsocket_trio.ttrpc.reader` says what happens at the limit.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, final

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..account import ITEM_COST, Account
from ..errors import outcome_of_ours
from ..interactions.inbox import Inbox
from ..sealed import Sealed
from .codec import MessageCodec
from .errors import Internal, ResourceExhausted

__all__ = [
    "MessageInbox",
    "MessageStream",
    "Messages",
    "ReplyStream",
    "Unread",
    "unreadable",
]

T_co = TypeVar("T_co", covariant=True)

_IN_A_ROW: Final = 64

_PART: Final = 32
"""When the reading has paused, so large a part of a limit must become free: one of so many. With
less, a reader that takes a message now and then would hold up all other calls without end."""


class Unread(Account):
    """The bytes that have arrived on all streams of a connection and are not received.

    One message may go past the limit: then the reading stops.

    Attributes:
        pausing: The inbox for whose room the reading waits, if it does.
    """

    __slots__ = ("pausing",)

    def __init__(self, limit: int) -> None:
        super().__init__(limit, "TtrpcLimits.max_unread_size", "are unread on this connection")
        self.pausing: MessageInbox | None = None

    def give_back(self, size: int) -> None:
        """Count bytes that were received or dropped."""
        self.held -= size
        if self.pausing is not None:
            self.pausing.look()


class MessageInbox(Inbox[bytes]):
    """The messages of one stream that nobody has received yet.

    Args:
        unread: Counts those of the connection.
        limit: The most bytes for this stream (`TtrpcLimits.max_stream_size`).

    Attributes:
        size: The bytes of the messages in the queue.
        unread: Counts those of all streams of the connection.
    """

    __slots__ = ("_drained", "_limit", "size", "unread")

    def __init__(self, unread: Unread, limit: int) -> None:
        super().__init__()
        self.unread = unread
        self._limit = limit
        self.size = 0
        self._drained: trio.Event | None = None

    @property
    def hoards(self) -> bool:
        """Whether the limit of this stream is reached; a single message of any size is no hoard."""
        return self.size >= self._limit and len(self.queue) > 1

    @property
    def full(self) -> bool:
        """Whether a limit is reached, of this stream or of the connection."""
        return self.hoards or self.unread.held >= self.unread.limit

    def deliver(self, body: bytes) -> bool:
        """Add a message; return whether there is room for more. A closed inbox drops it."""
        if self.closed or self.ended:
            return True
        size = len(body) + ITEM_COST
        self.size += size
        unread = self.unread
        unread.held += size
        self.queue.append(body)
        if self._task is not None:
            self._wake()
        return unread.held < unread.limit and (self.size < self._limit or not self.hoards)

    def pop(self) -> bytes:
        """Take the next message; there is one."""
        body = self.queue.popleft()
        size = len(body) + ITEM_COST
        self.size -= size
        self.unread.give_back(size)
        return body

    def close(self) -> None:
        """Drop the messages: nobody will receive them."""
        if self.closed:
            return
        self.drop()
        size, self.size = self.size, 0
        self.unread.give_back(size)
        self._wake()

    def overflow(self) -> ResourceExhausted:
        """Drop the messages, and return the error of a stream that nobody reads."""
        error = ResourceExhausted(
            "the messages of this stream arrive faster than they are received "
            f"({self.size} bytes wait)"
        )
        self.queue.clear()
        size, self.size = self.size, 0
        self.unread.give_back(size)
        return error

    async def wait_drained(self) -> None:
        """Wait until a part of the room is free again, or `release` is called.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._drained = trio.Event()
        self.unread.pausing = self
        try:
            self.look()
            await self._drained.wait()
        finally:
            self._drained = self.unread.pausing = None

    def look(self) -> None:
        """End `wait_drained` if there is room; an inbox that is closed needs none."""
        unread = self.unread
        has_room = _has_room(self.size, self._limit) or len(self.queue) <= 1
        if self.closed or (has_room and _has_room(unread.held, unread.limit)):
            self.release()

    def release(self) -> None:
        """End `wait_drained`."""
        if self._drained is not None:
            self._drained.set()


def _has_room(size: int, limit: int) -> bool:
    """Whether a part of the room is free."""
    return size < limit - limit // _PART


def unreadable(codec: MessageCodec[Any], body: bytes) -> Internal:
    """Return the error for a message that the codec cannot read; the reason is not for the peer."""
    return Internal(f"a message of {len(body)} bytes is no {codec.name}")


class Messages(trio.abc.ReceiveChannel[T_co], Generic[T_co]):
    """The messages that the peer sends on one stream, in order; iterate over it.

    One task reads it at a time.
    """

    __slots__ = ("_burst", "_codec", "_decode", "_inbox")

    def __init__(self, inbox: MessageInbox, codec: MessageCodec[T_co]) -> None:
        self._inbox = inbox
        self._codec = codec
        self._decode = codec.decode
        self._burst = 0

    def __aiter__(self) -> Messages[T_co]:
        return self

    async def __anext__(self) -> T_co:
        """Return the next message.

        Checkpoint: every message is a cancellation point; other tasks run whenever this has to
        wait, and after every 64 messages at least.
        If cancelled: no message is lost.
        """
        inbox = self._inbox
        if inbox.queue and self._burst < _IN_A_ROW:
            await checkpoint_if_cancelled()
            self._burst += 1
            # Does the same as `receive`, but saves the calls.
            body = inbox.queue.popleft()
            size = len(body) + ITEM_COST
            inbox.size -= size
            unread = inbox.unread
            unread.held -= size
            if unread.pausing is not None:
                inbox.check_home(type(self).__name__)  # it wakes the task that reads
                unread.pausing.look()
            try:
                return self._decode(body)
            except Exception as error:  # a codec of the application may raise anything
                raise self._unreadable(body) from error
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> T_co:
        """Receive the next message.

        Raises:
            trio.EndOfChannel: The peer has sent its last message, and all have been received.
            CallError: The call has failed; INTERNAL if a message cannot be read.
            ConnectionClosed: The connection ended before the stream did.
            trio.ClosedResourceError: It was closed here.
            trio.BusyResourceError: Another task is receiving.

        Checkpoint: always.
        If cancelled: no message is lost.
        """
        self._burst = 0
        await self._inbox.wait(type(self).__name__)
        body = self._inbox.pop()
        try:
            return self._decode(body)
        except Exception as error:  # a codec of the application may raise anything
            raise self._unreadable(body) from error

    def _unreadable(self, body: bytes) -> Internal:
        return unreadable(self._codec, body)

    def close(self) -> None:
        """Read no more: what arrives is dropped. The protocol cannot tell the peer.

        Raises:
            RuntimeError: The caller is in another thread than the connection.
        """
        if not self._inbox.closed:
            self._inbox.check_home(type(self).__name__)
        self._inbox.close()

    async def aclose(self) -> None:
        """`close`, and a checkpoint.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        self.close()
        await checkpoint()


@final
class MessageStream(Messages[T_co], metaclass=Sealed, given="handlers of streams are given one"):
    """The messages of a client, in order, for a handler. One task reads it at a time."""

    __slots__ = ()


@final
class ReplyStream(Messages[T_co], metaclass=Sealed, given="Client.server_stream gives one"):
    """The messages of a server, in order. One task reads it at a time."""

    __slots__ = ()

    def _unreadable(self, body: bytes) -> Internal:
        return outcome_of_ours(unreadable(self._codec, body))
