"""Send the requests and payloads of a connection's operations: `StreamSender`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..entrance import Home, over
from ..errors import RSocketError, fresh_copy, never_sent
from ..frames.header import (
    COMPLETE,
    FOLLOWS,
    HEADER,
    METADATA_LENGTH_SIZE,
    NEXT,
    FrameType,
)
from ..frames.payload import encode_payload
from ..frames.request import encode_request
from ..interactions.operation import IN_A_ROW, ResponderOperation
from ..payload import Payload
from ..protocol.body_fragments import BodyFragments
from ..protocol.fragmentation import PAYLOAD_HEAD, fragment_payload, fragment_request
from ..protocol.frame_rules import REQUEST_TYPES
from ..reactive_streams.unread import size_of
from ..streamed import StreamedPayload
from .body_sender import BodySender
from .sendable import (
    WaitingElements,
    check_size,
    check_streamed,
    not_sendable,
    take_answer,
)

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..interactions.operation import Operation
    from ..protocol.memory import ConnectionMemory
    from ..streamed import AnyPayload
    from .admission import Admission
    from .outbox import Outbox
    from .stream_table import StreamTable

__all__ = ["StreamSender"]

_REQUEST_CHANNEL: Final = FrameType.REQUEST_CHANNEL.value
_ANSWERED: Final = REQUEST_TYPES - {FrameType.REQUEST_FNF}
_ANSWER: Final = NEXT | COMPLETE
_PAYLOAD: Final = FrameType.PAYLOAD.value << 10
_pack: Final = HEADER.pack
_LARGEST_HEAD: Final = 13
"""The bytes of a frame beside its payload: header, initial request n and metadata length."""


class StreamSender:
    """Sends requests and payloads for the operations of one connection.

    `rsocket_trio.interactions.operation.Outbound` describes its methods. It enters requests in the
    table of streams, cuts payloads into fragments and puts the frames into the outbox. It waits for
    the admission of a request and for room in the outbox, and for nothing else.

    Attributes:
        memory: See `Outbound`.
        max_frame_size: See `Outbound`.
        max_whole: See `Outbound`.
        home: See `Outbound`.
        room: See `Outbound`.
        frame_of: See `rsocket_trio.interactions.sending.Carrier`; this wire has credit.
        put: `Outbox.put`; as an attribute it saves a call.
        finish: `StreamTable.finish`; as an attribute it saves a call.
        add_unopened: `StreamTable.add_unopened`.
        remove_unopened: `StreamTable.remove_unopened`.
    """

    def __init__(
        self,
        config: ConnectionConfig,
        table: StreamTable,
        outbox: Outbox,
        admission: Admission,
        memory: ConnectionMemory,
        *,
        max_request: int | None = None,
    ) -> None:
        """Begin with an empty table.

        Args:
            config: The settings of the connection.
            table: Its streams.
            outbox: Where the frames wait for the writer.
            admission: Decides when a request of ours may leave.
            memory: The accounts of what is held for the peer.
            max_request: If the wire has no fragments of requests: the most bytes of data and
                metadata in a request. Channels have fragments on every wire.
        """
        self.memory = memory
        self.max_frame_size = config.limits.max_frame_size
        self.max_whole = config.fragment_size - _LARGEST_HEAD
        self.room = outbox.room
        self.frame_of = None
        self.put = outbox.put
        self.finish = table.finish
        self.add_unopened = table.add_unopened
        self.remove_unopened = table.remove_unopened
        self._admission = admission
        self._outbox = outbox
        self._table = table
        self._operations = table.operations
        self._next_id = table.ids.next
        self._max_request = max_request
        self._fragment_size = config.fragment_size
        self._bodies = BodySender(table, outbox, admission, memory.answers, config.fragment_size)
        self._elements = WaitingElements(memory.answers)
        self._burst = 0
        self.home = Home()

    # -- requests of ours -------------------------------------------------------------------

    def try_open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> bool:
        admission = self._admission
        if admission.refusal is not None:
            return False  # `open` raises it, if the caller is not cancelled
        try:
            data = payload.data
            metadata = payload.metadata
        except AttributeError:
            raise not_sendable(payload) from None
        if type(data) is not bytes or (metadata is not None and type(metadata) is not bytes):
            check_streamed(payload)
            return False
        outbox = self._outbox
        size = len(data) if metadata is None else len(data) + len(metadata)
        if size > self.max_whole or outbox.room.used >= outbox.room.limit:
            return False
        if not admission.open and not admission.ready():
            return False  # `open` knows whether it may wait
        # Like `StreamTable.enter`, but without the call, and nothing is entered if encoding fails.
        operations = self._operations
        stream_id = self._next_id(operations)
        frame = encode_request(frame_type, stream_id, flags, initial_n, metadata, data)
        operation.stream_id = stream_id
        operations[stream_id] = operation
        if not admission.open:
            admission.take()
        outbox.put(frame)
        return True

    async def open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> None:
        """Send a request as room allows, in fragments if necessary; see `Outbound.open`.

        Raises:
            Exception: Why no new request may be sent.
            LocalProtocolError: It is too large, and the wire has no fragments of requests.

        Checkpoint: a cancellation point before the first frame; other tasks run where there is no
        room, and where no request may be sent.
        If cancelled: the stream may be open, and in the table. The caller must cancel it.
        """
        try:
            await self._open(operation, frame_type, flags, initial_n, payload)
        except RSocketError as error:
            if not operation.stream_id:
                never_sent(error)
            raise

    async def _open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> None:
        if self._admission.refusal is not None:
            await over(self._admission.refusal)
        outbox = self._outbox
        at_most = None if frame_type == _REQUEST_CHANNEL else self._max_request
        fragment_size = self._fragment_size if at_most is None else at_most + _LARGEST_HEAD
        if isinstance(payload, StreamedPayload):
            fragments = BodyFragments(
                fragment_size,
                flags,
                payload.metadata,
                frame_type=frame_type,
                initial_n=initial_n,
                whole=at_most is not None,
            )
            await self._bodies.send(operation, payload, fragments, self._enter, at_most)
            return
        metadata, data = payload.metadata, payload.data
        size = len(data) + len(metadata or b"")
        check_size(size, at_most)
        size = min(size + _LARGEST_HEAD, fragment_size)
        await self._admission.wait(size)
        # No checkpoint from here to the queueing of the first frame: ids leave in order.
        try:
            stream_id = self._enter(operation)
        except BaseException:  # also KeyboardInterrupt: the room must be given back
            outbox.release(size)
            raise
        frames = fragment_request(
            frame_type, stream_id, flags, initial_n, metadata, data, fragment_size
        )
        outbox.put_reserved(next(frames))
        for frame in frames:
            await outbox.reserve(len(frame))
            if self._operations.get(stream_id) is not operation:
                outbox.release(len(frame))
                return  # the request was answered, or the connection ended, before the last frame
            outbox.put_reserved(frame)

    def has_refused(self, error: Exception) -> bool:
        refusal = self._admission.refusal
        # Each request gets a copy of it.
        return type(error) is type(refusal) and str(error) == str(refusal)

    def retract(self, operation: Operation) -> bool:
        frame = self._outbox.last
        if frame is None or not self._admission.open:
            return False
        stream_id, type_and_flags = HEADER.unpack_from(frame)
        if (
            stream_id != operation.stream_id
            or type_and_flags >> 10 not in REQUEST_TYPES
            or type_and_flags & FOLLOWS
        ):
            return False
        # The request was queued last, so its id is the last one that was taken.
        self._outbox.take_back()
        self._table.retract(operation)
        return True

    def _enter(self, operation: Operation) -> int:
        """Give a stream of ours its id, and enter it in the table.

        Raises:
            LocalProtocolError: There is no id left.
            Exception: Why no new request may be sent.
        """
        if self._admission.refusal is not None:
            raise fresh_copy(self._admission.refusal)
        return self._table.enter(operation)

    # -- payloads ---------------------------------------------------------------------------

    def try_send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> bool:
        room = self._outbox.room
        if type(payload) is Payload and payload.metadata is None:
            # Nearly every item is like this: as few comparisons and calls as possible.
            item = payload.data
            if type(item) is bytes and len(item) <= self.max_whole:
                if room.used >= room.limit:
                    return False
                self._outbox.put(_pack(stream_id, _PAYLOAD | flags) + item)
                return True
        try:
            data = payload.data
            metadata = payload.metadata
        except AttributeError:
            raise not_sendable(payload) from None
        if type(data) is not bytes or (metadata is not None and type(metadata) is not bytes):
            check_streamed(payload)
            return False
        size = len(data) if metadata is None else len(data) + len(metadata)
        if size > self.max_whole or room.used >= room.limit:
            return False
        self._outbox.put(encode_payload(stream_id, flags, metadata, data))
        return True

    def try_answer(self, operation: Operation, payload: AnyPayload) -> bool:
        stream_id = operation.stream_id
        if not self.try_send_payload(stream_id, _ANSWER, payload):
            return False
        # As `StreamTable.finish`, without its call; an answer of bytes has no source to cancel.
        del self._operations[stream_id]
        if self._table.on_forgotten is not None:
            self._table.on_forgotten()
        return True

    async def send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> None:
        """Queue a PAYLOAD as room allows, in fragments if necessary; see `Outbound.send_payload`.

        Raises:
            Canceled: It is the peer's request, and too many bytes wait for room already.
            ConnectionClosed: The connection is over.

        Checkpoint: where there is no room.
        If cancelled: fragments may have left, and the caller must end the stream.
        """
        operation = self._operations.get(stream_id)
        if isinstance(payload, StreamedPayload):
            if operation is not None:
                body = BodyFragments(self._fragment_size, flags, payload.metadata)
                await self._bodies.send(operation, payload, body)
            return
        held = self.hold_item(stream_id, payload)
        try:
            await self._send_fragments(operation, stream_id, flags, payload)
        finally:
            self.let_go_item(held)

    def hold_item(self, stream_id: int, payload: AnyPayload) -> int:
        operation = self._operations.get(stream_id)
        if not isinstance(operation, ResponderOperation):
            return 0  # the application chose how many requests it has
        size = size_of(payload)
        take_answer(self.memory.answers, operation, size)
        return size

    def let_go_item(self, size: int) -> None:
        self.memory.answers.give_back(size)

    def counter_of(self, stream_id: int) -> WaitingElements | None:
        if isinstance(self._operations.get(stream_id), ResponderOperation):
            return self._elements
        return None

    async def _send_fragments(
        self, operation: Operation | None, stream_id: int, flags: int, payload: Payload
    ) -> None:
        outbox = self._outbox
        frames = fragment_payload(
            stream_id, flags, payload.metadata, payload.data, self._fragment_size
        )
        left = _size_of(payload.metadata, payload.data)
        begun = False
        more = True
        try:
            while more:
                # Room comes first: thousands of streams may wait, each without a copy of its part.
                room = min(left, self._fragment_size)
                await outbox.reserve(room)
                if self._operations.get(stream_id) is not operation:
                    outbox.release(room)
                    return  # the stream ended while this waited
                try:
                    frame = next(frames)
                except BaseException:  # it cannot be encoded: the room must be given back
                    outbox.release(room)
                    raise
                outbox.put_reserved(frame)
                begun = True
                more = bool(HEADER.unpack_from(frame)[1] & FOLLOWS)
                left += PAYLOAD_HEAD - len(frame)
                del frame
        except BaseException:  # cancellation too: the operation must know that fragments have left
            if begun and operation is not None:
                operation.cut_short()
            raise

    # -- the rest ---------------------------------------------------------------------------

    def send_control(self, frame: bytes) -> None:
        if self._table.failure is None:
            self._outbox.put_control(frame)

    def burst(self) -> bool:
        self._burst = (self._burst + 1) % IN_A_ROW
        return not self._burst

    async def reserve(self, size: int) -> None:
        """Wait for room for a frame of stream 0; see `Outbox.reserve`.

        Raises:
            ConnectionClosed: The connection is over, or may not be used.

        Checkpoint: where there is no room, or the connection is over.
        If cancelled: nothing is reserved.
        """
        if self._admission.refusal is not None:
            await over(self._admission.refusal)
        await self._outbox.reserve(size)

    def end(self, error: Exception, _last_words: bytes | None) -> None:
        """Refuse every request, room and chunk from now on, because the connection is over."""
        if isinstance(error, RSocketError):
            self._take_back(error)
        self._outbox.close(error)
        self._admission.refuse(error)
        self._bodies.stop()

    def _take_back(self, error: RSocketError) -> None:
        """Keep back requests that have not left: then their callers can be told so, as a fact."""
        operations = self._operations

        def is_ours(stream_id: int, type_and_flags: int) -> bool:
            return type_and_flags >> 10 in _ANSWERED and stream_id in operations

        for stream_id in self._outbox.drop_unsent(is_ours):
            operation = operations[stream_id]
            self._table.finish(operation)
            unsent = fresh_copy(error)
            never_sent(unsent)
            operation.connection_closed(unsent)


def _size_of(metadata: bytes | None, data: bytes) -> int:
    """Return the bytes of a payload in one frame."""
    head = PAYLOAD_HEAD if metadata is None else PAYLOAD_HEAD + METADATA_LENGTH_SIZE + len(metadata)
    return head + len(data)
