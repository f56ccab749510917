"""From a frame to its call: `IncomingCalls` accepts calls or refuses them, and delivers messages.

PROTOCOL.md, "Message Frame", "Mesage Types" and "Streaming". What the text leaves open is decided
as the Go implementation does it, except where that harms other calls: docs/howto/ttrpc-compared.md
has the table. A refusal never waits, so a peer that does not read cannot stop the reading.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from ...errors import MalformedFrame, MetadataTooLarge
from ...interactions.isolation import outcome_of
from ...log_policy import logger
from ...sealed import make
from ..errors import StatusCode
from ..inbox import MessageInbox, MessageStream, Unread
from ..wire.envelopes import REQUEST_PAYLOAD, decode_request
from ..wire.frames import HEADER, HEADER_SIZE, REMOTE_OPEN, MessageType
from ..wire.protobuf import only_field
from .bound import no_method, unreadable
from .call import Call, Facts, new_call
from .calls import ServerCall, StreamCall, UnaryCall
from .replies import Replies, too_long

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...connection.workload import Workload
    from ...sockets.peer import Peer
    from ..config import TtrpcLimits
    from ..reader import CallReader
    from .bound import Methods, ServedMethod
    from .first_steps import CallSteps

__all__ = ["IncomingCalls"]

_REQUEST: Final = MessageType.REQUEST.value
_DATA: Final = MessageType.DATA.value
_unpack: Final = HEADER.unpack_from

_EVEN: Final = "StreamID must be odd for client initiated streams"
_NOT_NEW: Final = "StreamID cannot be re-used and must increment"
_INACTIVE: Final = "StreamID is no longer active"
_DRAINING: Final = "the server takes no more calls on this connection"
_OVERDUE: Final = "the deadline of the call is over"


class IncomingCalls:
    """The calls of the peer on one connection.

    Attributes:
        calls: The calls whose last frame has not left, by stream id; without those that have ended
            before their handler waited.
        replies: Sends their frames.
        steps: Runs handlers.
        reader: Pauses for a stream that overflows.
        draining: No new calls are accepted.
        over: The connection is over.
        served: How many calls have been accepted.
    """

    reader: CallReader
    steps: CallSteps

    def __init__(
        self,
        methods: Methods,
        replies: Replies,
        workload: Workload,
        limits: TtrpcLimits,
        peer: Peer,
    ) -> None:
        self.calls: dict[int, ServerCall] = {}
        self.replies = replies
        self.draining = False
        self.over = False
        self.served = 0
        self._methods = methods
        self._unary = methods.unary
        self._workload = workload
        self._limits = limits
        self._max_size = limits.max_message_size
        self._facts = Facts(peer)
        self._unread = Unread(limits.max_unread_size)
        self._last_id = 0

    # -- frames -----------------------------------------------------------------------------

    def dispatch_all(self, frames: Iterator[bytes]) -> None:
        """Handle the frames of a read, in order."""
        steps = self.steps
        max_size = self._max_size
        self._workload.arrived = self.reader.received_at
        for frame in frames:
            length, stream_id, kind, flags = _unpack(frame)
            # Nearly every frame is of these kinds; this saves a call.
            if kind == _REQUEST:
                if (
                    steps.left
                    and stream_id & 1
                    and stream_id > self._last_id
                    and length <= max_size
                    and self._run_at_once(stream_id, frame)
                ):
                    continue
            elif kind == _DATA and length <= max_size:
                call = self.calls.get(stream_id)
                if call is not None:
                    call.receive_data(flags, frame[HEADER_SIZE:])
                    continue
            self._dispatch(frame)

    def _dispatch(self, frame: bytes) -> None:
        length, stream_id, kind, flags = _unpack(frame)
        if length > self._max_size:
            self._too_long(length, stream_id, kind)
        elif kind == _REQUEST:
            if self._is_new(stream_id):
                self._request(stream_id, flags, frame[HEADER_SIZE:])
        elif kind == _DATA:
            if not stream_id & 1:
                self._refuse(stream_id, StatusCode.INVALID_ARGUMENT, _EVEN)
            elif stream_id > self._last_id:
                self._refuse(stream_id, StatusCode.INVALID_ARGUMENT, _INACTIVE)
            # Else its call has ended, and had its last frame: the two have crossed on the way.
        # Other types are of a later version, or a server's: ignored.

    def _is_new(self, stream_id: int) -> bool:
        """Whether a request may have this id; if not, it is refused."""
        if not stream_id & 1:
            self._refuse(stream_id, StatusCode.INVALID_ARGUMENT, _EVEN)
            return False
        if stream_id <= self._last_id:
            self._refuse(stream_id, StatusCode.INVALID_ARGUMENT, _NOT_NEW)
            return False
        self._last_id = stream_id
        return True

    def _too_long(self, length: int, stream_id: int, kind: int) -> None:
        """Answer a frame whose body is dropped."""
        error = too_long(length, self._max_size)
        if kind == _DATA:
            call = self.calls.get(stream_id)
            if call is not None:
                call.end_with(error)
        elif kind == _REQUEST and self._is_new(stream_id):
            self.replies.fail(stream_id, error.status)

    def _run_at_once(self, stream_id: int, frame: bytes) -> bool:
        """Run the handler of a unary call that consists of service, method and message alone.

        Most calls are like this. It does the same as `_request`, but makes no Request, and finds
        the method by the bytes of the names.

        Returns:
            Whether it ran; if not, nothing has changed.
        """
        try:
            # Where the method ends, if it and the service come first, and have less than 128 bytes.
            # Else this is the end of something else, which is no key of the dict.
            after = frame[HEADER_SIZE + 1] + HEADER_SIZE + 4
            after += frame[after - 1]
        except IndexError:
            return False
        method = self._unary.get(frame[HEADER_SIZE:after])
        if method is None or method.wants_call or self.draining:
            return False
        payload = only_field(frame, after, REQUEST_PAYLOAD)
        if payload is None:
            return False
        workload = self._workload
        size = len(frame) - HEADER_SIZE
        if workload.active and not workload.has_room(size):
            return False
        try:
            message = method.decode(payload)
        except BaseException as error:  # `_request` meets it again, and answers
            outcome_of(error)  # raises what ends the program
            return False
        if not self.steps.run(stream_id, method, message, None, size):
            return False
        self._last_id = stream_id
        self.served += 1
        return True

    def _request(self, stream_id: int, flags: int, body: bytes) -> None:
        limits = self._limits
        try:
            request = decode_request(
                body,
                max_metadata=limits.max_metadata_size,
                max_entries=limits.max_metadata_entries,
            )
        except MetadataTooLarge as error:
            self._refuse(stream_id, StatusCode.RESOURCE_EXHAUSTED, str(error))
            return
        except MalformedFrame as error:
            text = f"unmarshal request error: {error}"
            self._refuse(stream_id, StatusCode.INVALID_ARGUMENT, text)
            return
        method = self._methods.find(request.service, request.method, flags)
        if method is None:
            refusal = no_method(self._methods, request.service, request.method)
            self.replies.fail(stream_id, refusal.status)
            return
        if self.draining:
            self._refuse(stream_id, StatusCode.UNAVAILABLE, _DRAINING)
            return
        if not self._workload.has_room(len(body)):
            text = "too many calls are in flight on this connection"
            self._refuse(stream_id, StatusCode.RESOURCE_EXHAUSTED, text)
            return
        deadline = inf
        if request.timeout_nano:
            if request.timeout_nano < 0:
                self._refuse(stream_id, StatusCode.DEADLINE_EXCEEDED, _OVERDUE)
                return
            deadline = self.reader.received_at + request.timeout_nano / 1e9
        self.served += 1
        facts = None
        if method.wants_call:
            facts = new_call(method, self._facts, request.metadata, self.reader.received_at)
        if method.sends_stream:
            size = len(body) - len(request.payload)  # the payload goes to the inbox
            self._begin_stream(stream_id, flags, request.payload, method, facts, deadline, size)
            return
        try:
            message: Any = method.decode(request.payload)
        except BaseException as error:  # a codec may raise anything, e.g. the panic of an extension
            self._unreadable(stream_id, method, request.payload, outcome_of(error))
            return
        size = len(body)
        if not method.is_unary:
            call = StreamCall(self, stream_id, method, message, facts, deadline, None)
            self._add(call, size)
        elif not (
            deadline == inf
            and self.steps.left
            and self.steps.run(stream_id, method, message, facts, size)
        ):
            self._add(UnaryCall(self, stream_id, method, message, facts, deadline), size)

    def _begin_stream(
        self,
        stream_id: int,
        flags: int,
        payload: bytes,
        method: ServedMethod,
        facts: Call | None,
        deadline: float,
        size: int,
    ) -> None:
        inbox = MessageInbox(self._unread, self._limits.max_stream_size)
        messages: Any = make(MessageStream, inbox, method.method.request)
        call = StreamCall(self, stream_id, method, messages, facts, deadline, inbox)
        self._add(call, size)
        # A client in Go or Rust sends none; the Go server takes it for the first message.
        if payload and not inbox.deliver(payload):
            self.hold(call)
        if not flags & REMOTE_OPEN:
            # PROTOCOL.md, "Request": empty flags are a unary request, so no message will follow.
            inbox.end()

    def _add(self, call: ServerCall, size: int) -> None:
        self.calls[call.stream_id] = call
        self._workload.add(call, size)

    # -- refusals ---------------------------------------------------------------------------

    def _unreadable(
        self, stream_id: int, method: ServedMethod, payload: bytes, error: Exception
    ) -> None:
        logger.info("%s: the request cannot be read", method.path, exc_info=error)
        self.replies.fail(stream_id, unreadable(method.method, payload).status)

    def _refuse(self, stream_id: int, code: StatusCode, text: str) -> None:
        self.replies.refuse(stream_id, code, text)

    # -- for the calls ----------------------------------------------------------------------

    def forget(self, call: ServerCall) -> None:
        """Take a call out of the table. Safe to call twice."""
        if self.calls.get(call.stream_id) is call:
            del self.calls[call.stream_id]

    def hold(self, call: StreamCall) -> None:
        """Pause the reading: the inbox of a call, or those of all calls together, are full."""
        inbox = call.inbox
        assert inbox is not None
        self.reader.hold(inbox, call.overrun if inbox.hoards else self._overrun_largest)

    def _overrun_largest(self) -> None:
        """End the call with the most bytes that nobody receives: the others may be quick."""
        call = max(self.calls.values(), key=lambda each: each.unread_size, default=None)
        if call is not None:
            call.overrun()

    def end(self, _error: Exception, _last_words: bytes | None) -> None:
        """The connection is over: no call sends anything more."""
        self.draining = self.over = True
        calls, self.calls = self.calls, {}
        for call in calls.values():
            call.connection_closed()
