"""The tasks of a client's connection, and its table of calls: `ClientConnection`.

    ClientConnection.run
    ├─ writer    the only caller of send_frames
    └─ reader    dispatches frames to the calls; never waits for a caller

A call waits in its caller's task, so the caller's cancel scope is its timeout. The protocol has no
frame for cancellation: a caller that leaves is forgotten here, and its deadline ends the handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import trio
from trio.lowlevel import checkpoint_if_cancelled

from ...connection.engine import write_frames
from ...connection.lifecycle import Lifecycle
from ...connection.outbox import Outbox
from ...connection.reader import READ_ERRORS
from ...entrance import Home, over
from ...errors import (
    ConnectionClosed,
    RemoteProtocolError,
    StreamIdsExhausted,
    fresh_copy,
    outcome_of_ours,
)
from ..errors import ResourceExhausted
from ..inbox import MessageInbox, Unread
from ..reader import CallReader, Overrun
from ..wire.frames import HEADER, HEADER_SIZE, MessageType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...transports.byte_stream import ByteStreamTransport
    from ..config import TtrpcConfig

__all__ = ["ClientCall", "ClientConnection"]

_RESPONSE: Final = MessageType.RESPONSE.value
_REQUEST: Final = MessageType.REQUEST.value
_DATA: Final = MessageType.DATA.value
_pack: Final = HEADER.pack
_unpack: Final = HEADER.unpack_from
_LAST_ID: Final = 0xFFFFFFFF


class ClientCall(Protocol):
    """One call, for the reader of its connection. All methods are synchronous."""

    def receive_response(self, body: bytes) -> None:
        """Receive the RESPONSE: the call is over."""

    def receive_data(self, flags: int, body: bytes) -> None:
        """Receive a DATA frame."""

    @property
    def unread_size(self) -> int:
        """The bytes that have arrived and that are not received."""

    def fail(self, error: Exception) -> None:
        """End with an error: the server has ended the call, or the connection is over."""

    def break_off(self, error: Exception) -> None:
        """End with an error of our own; the server may be waiting for messages."""

    def overrun(self) -> None:
        """End the call, because nobody receives what arrives."""


class ClientConnection:
    """One connection of a client.

    Attributes:
        lifecycle: Whether it is over, and how to end it.
        outbox: The frames that wait to be sent.
        calls: The calls that wait for something, by stream id.
        unread: Counts the messages of all streams that are not received.
        max_size: The longest body of a frame, in bytes.
        limits: The limits.
        home: Its thread. The functions that begin a call ask for it first.
        ignored: How many frames came for calls that nobody waits for any more.
    """

    def __init__(self, transport: ByteStreamTransport, config: TtrpcConfig) -> None:
        limits = config.limits
        self.limits = limits
        self._transport = transport
        self._config = config
        self.lifecycle = lifecycle = Lifecycle(
            established=True, peer=lambda: transport.info.peer or transport.info.scheme
        )
        self.outbox = Outbox(
            limits.max_outbox_size, limits.max_control_size, limits.max_unsent_control_size
        )
        self.room = self.outbox.room
        self.calls: dict[int, ClientCall] = {}
        self.unread = Unread(limits.max_unread_size)
        self.max_size = limits.max_message_size
        self.ignored = 0
        self._next_id = 1
        self.home: Home = lifecycle.home
        self._reader = CallReader(
            transport, self._dispatch_all, lifecycle, self._peer_ended, config
        )
        lifecycle.on_end.append(self._end)
        self.outbox.on_overrun = self._overrun

    # -- the tasks --------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the connection until it is over; then `Lifecycle.failure` says why.

        Checkpoint: always.
        If cancelled: every call fails; frames that are queued leave within ``close_timeout``.
        """
        outbox = self.outbox
        self._transport.wake_writer = outbox.wake_writer
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                nursery.start_soon(write_frames, outbox, self._transport, self.lifecycle)
                task_status.started()
                await self.lifecycle.ended.wait()
                nursery.cancel_scope.cancel(reason="the connection is over")
        finally:
            self.lifecycle.close()
            outbox.room.fail_waiting()
            outbox.discard()
            self._reader.forget()
            # Now, not with the block: the server sees that nobody will call it any more.
            await self._transport.aclose()

    async def _read(self) -> None:
        reader = self._reader
        try:
            while True:
                await (
                    reader.wait()
                    if reader.frames or reader.wait_received is None
                    else reader.wait_received()
                )
                reader.deliver()
        except READ_ERRORS as error:
            reader.failed(error)

    async def flush(self) -> None:
        """Wait until what is queued has left, for ``close_timeout`` at most.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        with trio.move_on_after(self._config.close_timeout):
            await self.outbox.wait_idle()

    # -- for calls --------------------------------------------------------------------------

    def check_size(self, size: int) -> None:
        """Refuse a body that is too long for a frame.

        Raises:
            ResourceExhausted: It is; nothing is sent.
        """
        if size > self.max_size:
            text = f"message length {size} exceed maximum message size of {self.max_size}"
            raise outcome_of_ours(ResourceExhausted(f"{text}; nothing was sent"))

    def try_open(self, call: ClientCall, flags: int, body: bytes) -> int:
        """Do the same as `open`, at once; return 0, and do nothing, if that has to wait or raises.

        This saves a coroutine, and some calls, for nearly every call.
        """
        size = len(body)
        room = self.room
        stream_id = self._next_id
        if (
            room.used >= room.limit
            or size > self.max_size
            or stream_id > _LAST_ID
            or self.lifecycle.failure is not None
        ):
            return 0
        self._next_id = stream_id + 2
        self.calls[stream_id] = call
        self.outbox.put(_pack(size, stream_id, _REQUEST, flags) + body)
        return stream_id

    async def open(
        self, call: ClientCall, flags: int, body: bytes, renewed: Callable[[], bytes]
    ) -> int:
        """Queue a REQUEST, when there is room, and return the id of its stream.

        Ids leave in order: the call gets its id when its frame is queued.

        Args:
            call: The call.
            flags: The flags of the frame.
            body: Its body.
            renewed: Returns the body after a wait for room, as less time is left.

        Raises:
            ConnectionClosed: Or `trio.ClosedResourceError`: the connection is over.
            StreamIdsExhausted: The ids of this connection are used up.
            ResourceExhausted: The body is too long for a frame.

        Checkpoint: if there is no room, or the connection is over.
        If cancelled: nothing is queued.
        """
        if self.lifecycle.failure is not None:
            await over(self.lifecycle.failure)
        size = len(body)
        if size > self.max_size:
            self.check_size(size)
        room = self.room
        reserved = room.used >= room.limit
        if reserved:
            await self._reserve(HEADER_SIZE + size)
            late = renewed()
            if len(late) <= size:  # else its scope got more time meanwhile, and the room is less
                self.outbox.release(size - len(late))
                body, size = late, len(late)
        stream_id = self._next_id
        if stream_id > _LAST_ID:
            if reserved:
                self.outbox.release(HEADER_SIZE + size)
            raise StreamIdsExhausted(
                "the stream ids of this connection are used up (2^31 calls): connect again"
            )
        self._next_id = stream_id + 2
        self.calls[stream_id] = call
        frame = _pack(size, stream_id, _REQUEST, flags) + body
        if reserved:
            self.outbox.put_reserved(frame)
        else:
            self.outbox.put(frame)
        return stream_id

    def try_send_data(self, stream_id: int, body: bytes) -> bool:
        """Do the same as `send_data`, at once; return False if that has to wait or raises."""
        size = len(body)
        room = self.room
        if room.used >= room.limit or size > self.max_size or self.lifecycle.failure is not None:
            return False
        self.outbox.put(_pack(size, stream_id, _DATA, 0) + body)
        return True

    async def send_data(
        self, stream_id: int, body: bytes, check_sending: Callable[[], None]
    ) -> None:
        """Queue a DATA frame with a message, when there is room.

        Args:
            stream_id: The stream.
            body: The message.
            check_sending: Raises, after a wait for room, if our side of the stream has ended.

        Raises:
            Exception: Of ``check_sending``.
            ConnectionClosed: Or `trio.ClosedResourceError`: the connection is over.
            ResourceExhausted: The message is too long for a frame.

        Checkpoint: only if there is no room, or the connection is over.
        If cancelled: nothing is queued.
        """
        if self.lifecycle.failure is not None:
            await over(self.lifecycle.failure)
        self.check_size(len(body))
        frame = _pack(len(body), stream_id, _DATA, 0) + body
        room = self.room
        if room.used < room.limit:
            self.outbox.put(frame)
        else:
            await self._reserve(len(frame))
            try:
                check_sending()
            except BaseException:  # raised again; the room is for others
                self.outbox.release(len(frame))
                await checkpoint_if_cancelled()
                raise
            self.outbox.put_reserved(frame)

    async def _reserve(self, size: int) -> None:
        await self.outbox.reserve(size)
        if self.lifecycle.failure is not None:
            # The connection has ended after this task got the room and before it ran.
            self.outbox.release(size)
            await over(self.lifecycle.failure)

    def send_control(self, frame: bytes) -> None:
        """Queue a frame that never waits."""
        if self.lifecycle.failure is None:
            self.outbox.put_control(frame)

    def forget(self, stream_id: int) -> None:
        """Nobody waits for this call any more. Safe to call twice."""
        self.calls.pop(stream_id, None)

    def hold(self, inbox: MessageInbox, overrun: Overrun) -> None:
        """Pause the reading: an inbox, or those of all calls together, are full."""
        self._reader.hold(inbox, overrun if inbox.hoards else self._overrun_largest)

    def _overrun_largest(self) -> None:
        """End the call with the most bytes that nobody receives: the others may be quick."""
        call = max(self.calls.values(), key=lambda each: each.unread_size, default=None)
        if call is not None:
            call.overrun()

    # -- from the reader --------------------------------------------------------------------

    def _dispatch_all(self, frames: Iterator[bytes]) -> None:
        for frame in frames:
            length, stream_id, kind, flags = _unpack(frame)
            call = self.calls.get(stream_id)
            if call is not None and length <= self.max_size:
                # Nearly every frame is of these kinds; this saves a call.
                if kind == _RESPONSE:
                    del self.calls[stream_id]
                    call.receive_response(frame[HEADER_SIZE:])
                    continue
                if kind == _DATA:
                    call.receive_data(flags, frame[HEADER_SIZE:])
                    continue
            self._dispatch_rare(call, length, stream_id, kind)

    def _dispatch_rare(
        self, call: ClientCall | None, length: int, stream_id: int, kind: int
    ) -> None:
        """Deliver a frame that is no RESPONSE and no DATA, or too long, or of no call."""
        if call is None:
            self.ignored += 1  # its caller has left, or it has ended
        elif length > self.max_size:
            del self.calls[stream_id]
            text = f"message length {length} exceed maximum message size of {self.max_size}"
            error = outcome_of_ours(ResourceExhausted(text))
            if kind == _RESPONSE:
                call.fail(error)
            else:
                call.break_off(error)
        elif kind == _REQUEST:
            del self.calls[stream_id]
            text = "the server sent a REQUEST on the stream of a call"
            call.break_off(RemoteProtocolError(text))
        # Other types are of a later version of the protocol: ignored.

    def _peer_ended(self) -> None:
        self.lifecycle.peer_ended()

    def _overrun(self, size: int) -> None:
        self.lifecycle.end(
            ConnectionClosed(f"{size} bytes are unsent, as the peer does not read them")
        )

    def _end(self, error: Exception, _last_words: bytes | None) -> None:
        calls, self.calls = self.calls, {}
        for call in calls.values():
            call.fail(fresh_copy(error))
        self.outbox.close(error)
        self.outbox.room.fail_waiting()
