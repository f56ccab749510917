"""The streams of a connection, and what its operations may do: `Streams`.

It is the `rsocket_trio.interactions.operation.Outbound` of every operation: it gives out stream
ids, knows which operation has which id, cuts payloads into fragments and finds room for them in
the outbox. It never waits for anything but that room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..errors import fresh_copy
from ..frames.header import COMPLETE, FOLLOWS, HEADER, NEXT, FrameType
from ..frames.payload import encode_payload
from ..frames.request import encode_request
from ..interactions.operation import IN_A_ROW
from ..payload import Payload
from ..protocol.body_fragments import BodyFragments
from ..protocol.fragmentation import fragment_payload, fragment_request
from ..protocol.frame_rules import REQUEST_TYPES
from ..protocol.reassembly import Reassembler, ReassemblyBudget
from ..protocol.stream_ids import StreamIds
from ..streamed import StreamedPayload
from .body_sender import BodySender, check_whole

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..interactions.operation import Operation
    from ..streamed import AnyPayload
    from .admission import Admission
    from .outbox import Outbox

__all__ = ["Streams"]

_REQUEST_CHANNEL: Final = FrameType.REQUEST_CHANNEL.value
_ANSWER: Final = NEXT | COMPLETE
_PAYLOAD: Final = FrameType.PAYLOAD.value << 10
_pack: Final = HEADER.pack
_LARGEST_HEAD: Final = 13
"""Header, initial request n and metadata length: what a frame holds beside its payload."""


class Streams:
    """The stream table of one connection, and the way out for its operations.

    What operations may do to it is told in `rsocket_trio.interactions.operation.Outbound`.

    Attributes:
        table: Stream id to operation, both sides' streams.
        failure: Why the connection is over, once it is.
        admission: Lets requests of ours through, or says why none may be sent: the connection is
            not accepted yet, is being closed, or is over.
        whole: A payload of so many bytes fits one frame.
        unread: See `rsocket_trio.interactions.operation.Outbound`, as for the limits.
        max_request: Where requests have no fragments on the wire, the bytes of data and metadata
            one may have; channels have them everywhere.
        on_forgotten: Called when a stream has ended; the connection sets it while it drains.
    """

    def __init__(
        self, config: ConnectionConfig, outbox: Outbox, admission: Admission, *, client: bool
    ) -> None:
        self.admission = admission
        self.table: dict[int, Operation] = {}
        self._unopened: set[Operation] = set()
        self.failure: Exception | None = None
        self.unread = 0
        self.max_unread = config.limits.max_unread_size
        self.max_unread_body = config.limits.max_unread_body_size
        self.max_frame_size = config.limits.max_frame_size
        self.max_request: int | None = None
        self.on_forgotten: Callable[[], None] | None = None
        self._outbox = outbox
        self._burst = 0
        self._ids = StreamIds(client)
        self._fragment_size = config.fragment_size
        self._bodies = BodySender(self, outbox, config.fragment_size)
        self._sources = self._bodies.scopes
        self.whole = config.fragment_size - _LARGEST_HEAD
        self._max_payload_size = config.limits.max_payload_size
        self._reassembly = ReassemblyBudget(config.limits.max_reassembly_size)

    # -- requests of ours -------------------------------------------------------------------

    def try_open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> bool:
        admission = self.admission
        if admission.refusal is not None:
            raise fresh_copy(admission.refusal)
        try:
            data = payload.data
            metadata = payload.metadata
        except AttributeError:
            raise _not_bytes(payload) from None
        if type(data) is not bytes or (metadata is not None and type(metadata) is not bytes):
            return _may_wait(payload)
        outbox = self._outbox
        size = len(data) if metadata is None else len(data) + len(metadata)
        if size > self.whole or outbox.room.used >= outbox.room.limit:
            return False
        if not admission.open and not admission.ready():
            return False  # `open` knows whether it may wait
        table = self.table
        stream_id = self._ids.next(table)
        frame = encode_request(frame_type, stream_id, flags, initial_n, metadata, data)
        operation.stream_id = stream_id
        table[stream_id] = operation
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
        """Send a request as room allows, in fragments if need be; see `Outbound.open`.

        Raises:
            LocalProtocolError: It is too large for a wire whose requests have no fragments.

        Checkpoint: a cancellation point before the first frame; other tasks run where there is no
        room.
        If cancelled: the stream may be open, and in the table; it is the caller's to cancel.
        """
        outbox = self._outbox
        at_most = None if frame_type == _REQUEST_CHANNEL else self.max_request
        if isinstance(payload, StreamedPayload):
            fragments = BodyFragments(
                self._fragment_size if at_most is None else at_most + _LARGEST_HEAD,
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
        check_whole(size, at_most)
        fragment_size = self._fragment_size if at_most is None else at_most + _LARGEST_HEAD
        size = min(size + _LARGEST_HEAD, fragment_size)
        await self.admission.wait(size)
        # No checkpoint from here to the queueing of the first frame: ids leave in order.
        try:
            stream_id = self._enter(operation)
        except BaseException:
            outbox.release(size)
            raise
        frames = fragment_request(
            frame_type, stream_id, flags, initial_n, metadata, data, fragment_size
        )
        outbox.put_reserved(next(frames))
        for frame in frames:
            await outbox.reserve(len(frame))
            if self.table.get(stream_id) is not operation:
                outbox.release(len(frame))
                return  # answered, or over, before it was whole
            outbox.put_reserved(frame)

    def retract(self, operation: Operation) -> bool:
        frame = self._outbox.last
        if frame is None or not self.admission.open:
            return False
        stream_id, type_and_flags = HEADER.unpack_from(frame)
        if (
            stream_id != operation.stream_id
            or type_and_flags >> 10 not in REQUEST_TYPES
            or type_and_flags & FOLLOWS
        ):
            return False
        # It is the last, so its id is the last too that was taken.
        self._outbox.take_back()
        self._ids.give_back(stream_id)
        self.finish(operation)
        operation.stream_id = 0
        return True

    def add_unopened(self, operation: Operation) -> None:
        if self.failure is not None:
            operation.connection_closed(fresh_copy(self.failure))
        else:
            self._unopened.add(operation)

    def remove_unopened(self, operation: Operation) -> None:
        self._unopened.discard(operation)

    def _enter(self, operation: Operation) -> int:
        """Give a stream of ours its id, and enter it in the table.

        Raises:
            LocalProtocolError: There is no id left.
            Exception: Why no new request may be sent.
        """
        if self.admission.refusal is not None:
            raise fresh_copy(self.admission.refusal)
        stream_id = operation.stream_id = self._ids.next(self.table)
        self.table[stream_id] = operation
        return stream_id

    # -- payloads ---------------------------------------------------------------------------

    def try_send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> bool:
        room = self._outbox.room
        if type(payload) is Payload and payload.metadata is None:
            # What nearly every item is, with as few comparisons and calls as it takes.
            item = payload.data
            if type(item) is bytes and len(item) <= self.whole:
                if room.used >= room.limit:
                    return False
                self._outbox.put(_pack(stream_id, _PAYLOAD | flags) + item)
                return True
        try:
            data = payload.data
            metadata = payload.metadata
        except AttributeError:
            raise _not_bytes(payload) from None
        if type(data) is not bytes or (metadata is not None and type(metadata) is not bytes):
            return _may_wait(payload)
        size = len(data) if metadata is None else len(data) + len(metadata)
        if size > self.whole or room.used >= room.limit:
            return False
        self._outbox.put(encode_payload(stream_id, flags, metadata, data))
        return True

    def try_answer(self, operation: Operation, payload: AnyPayload) -> bool:
        stream_id = operation.stream_id
        if not self.try_send_payload(stream_id, _ANSWER, payload):
            return False
        # As `finish`, where there are no chunks that come from anywhere.
        del self.table[stream_id]
        if self.on_forgotten is not None:
            self.on_forgotten()
        return True

    async def send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> None:
        """Queue a PAYLOAD as room allows, in fragments if need be; see `Outbound.send_payload`.

        Checkpoint: where there is no room.
        If cancelled: fragments may have left; the stream is good only for ending.
        """
        outbox = self._outbox
        operation = self.table.get(stream_id)
        if isinstance(payload, StreamedPayload):
            if operation is not None:
                body = BodyFragments(self._fragment_size, flags, payload.metadata)
                await self._bodies.send(operation, payload, body)
            return
        frames = fragment_payload(
            stream_id, flags, payload.metadata, payload.data, self._fragment_size
        )
        begun = False
        try:
            for frame in frames:
                await outbox.reserve(len(frame))
                if self.table.get(stream_id) is not operation:
                    outbox.release(len(frame))
                    return  # the stream ended while this waited
                outbox.put_reserved(frame)
                begun = True
        except BaseException:
            if begun and operation is not None:
                operation.cut_short()
            raise

    # -- the rest ---------------------------------------------------------------------------

    def send_control(self, frame: bytes) -> None:
        if self.failure is None:
            self._outbox.put_control(frame)

    def burst(self) -> bool:
        self._burst = (self._burst + 1) % IN_A_ROW
        return not self._burst

    async def reserve(self, size: int) -> None:
        """Wait for room for a frame of stream 0; see `Outbox.reserve`.

        Raises:
            ConnectionClosed: The connection is over, or may not be used.

        Checkpoint: where there is no room.
        If cancelled: nothing is reserved.
        """
        if self.admission.refusal is not None:
            raise fresh_copy(self.admission.refusal)
        await self._outbox.reserve(size)

    def reassembler(self, stream_id: int, max_metadata: int | None = None) -> Reassembler:
        """A new reassembler within the connection's limits."""
        return Reassembler(
            self._max_payload_size, self._reassembly, stream_id=stream_id, max_metadata=max_metadata
        )

    def finish(self, operation: Operation) -> None:
        stream_id = operation.stream_id
        if self.table.get(stream_id) is operation:
            del self.table[stream_id]
            if self._sources and stream_id in self._sources:
                self._sources[stream_id].cancel(reason="the stream is over")
            if self.on_forgotten is not None:
                self.on_forgotten()

    def fail_all(self, error: Exception, _last_words: bytes | None = None) -> None:
        """The connection is over: every stream learns it, now."""
        self.failure = error
        self._outbox.close(error)
        self.admission.refuse(error)
        operations = [*self.table.values(), *self._unopened]
        self.table.clear()
        self._unopened.clear()
        self._bodies.stop()
        for operation in operations:
            operation.connection_closed(fresh_copy(error))


def _may_wait(payload: object) -> bool:
    """What is no payload of bytes: False for one that comes in chunks, which takes its time."""
    metadata = getattr(payload, "metadata", None)
    if isinstance(payload, StreamedPayload) and (metadata is None or type(metadata) is bytes):
        return False
    raise _not_bytes(payload)


def _not_bytes(payload: object) -> Exception:
    if not isinstance(payload, Payload | StreamedPayload):
        return TypeError(
            f"a Payload is needed, not {type(payload).__name__}; Payload(b'...') holds bytes"
        )
    data = getattr(payload, "data", None)
    metadata = getattr(payload, "metadata", None)
    # Subclasses of bytes are refused too: they are slower everywhere, and rarely meant.
    if type(data) is not bytes and not isinstance(payload, StreamedPayload):
        return TypeError(
            f"a Payload with data of type bytes is needed, not with {type(data).__name__}; "
            "encode it first, e.g. with rsocket_trio.codecs"
        )
    return TypeError(f"metadata must be bytes or None, not {type(metadata).__name__}")
