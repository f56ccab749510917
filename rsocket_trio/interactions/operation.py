"""The contract between the engine and the interactions.

An *operation* is one side of one stream. The connection's reader calls its ``receive_*`` methods,
which are synchronous and never wait. An operation sends through `Outbound` and never sees the
connection. A requester's operation waits in its caller's task. The connection runs a responder's
operation (`rsocket_trio.connection.crew`): its first step runs in the task that reads; if that
step waits, the operation keeps a task and a cancel scope from then on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ..frames.header import COMPLETE
from ..payload import Payload
from ..protocol.reassembly import is_followed
from .handler_errors import error_frame_for, forget_frames
from .stepping import first_step

if TYPE_CHECKING:
    import trio

    from ..entrance import Home
    from ..protocol.interaction import Interaction
    from ..protocol.memory import ConnectionMemory
    from ..protocol.reassembly import Reassembler
    from ..reactive_streams.unread import ElementCounter
    from ..streamed import AnyPayload
    from .payload_body import PayloadBody
    from .sending import AnyItems

__all__ = [
    "IN_A_ROW",
    "Answers",
    "Handlers",
    "Operation",
    "Outbound",
    "RequestOperation",
    "ResponderOperation",
    "Space",
]

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

IN_A_ROW: Final = 64
"""The number of items, messages or requests in a row before other tasks run: a side of a stream
that never has to wait must not block the loop."""


class Space(Protocol):
    """There is room while ``used`` is below ``limit``: see `rsocket_trio.connection.room`."""

    @property
    def used(self) -> int: ...

    @property
    def limit(self) -> int: ...


class Outbound(Protocol):
    """The part of a connection that an operation uses: `rsocket_trio.connection.stream_sender`.

    Attributes:
        memory: The accounts of what is held for the peer.
        frame_of: See `rsocket_trio.interactions.sending.Carrier`.
        max_frame_size: The maximum length of a frame (`Limits.max_frame_size`).
        max_whole: The most bytes of data and metadata that fit in one frame.
        home: The thread of the connection. The functions that begin a request ask for it first;
            `try_open` and `open` do not.
    """

    memory: ConnectionMemory
    frame_of: None
    home: Home
    max_frame_size: int
    max_whole: int

    @property
    def room(self) -> Space:
        """The space for payload frames."""

    def try_open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> bool:
        """Send a request at once; return False, and do nothing, if `open` has to wait or raises."""

    async def open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> None:
        """Send a request, in fragments if necessary, as room allows.

        The operation gets its stream id and enters the table right before its frame is queued, so
        ids leave in order. Raises `ConnectionClosed` (or `trio.ClosedResourceError`).
        """

    def has_refused(self, error: Exception) -> bool:
        """Whether this is the error of every new request of ours: the connection is going to end.

        A handler that asks its own peer then fails of it; this is no fault of the handler.
        """

    def retract(self, operation: Operation) -> bool:
        """Take back a request in one frame, if this is still the last frame of the queue.

        Then its id is free again. Return False, and do nothing, if the frame has left, or other
        frames are behind it.
        """

    def add_unopened(self, operation: Operation) -> None:
        """Register an operation that has no stream yet: it is told when the connection ends.

        If the connection has ended already, the operation is told at once.
        """

    def remove_unopened(self, operation: Operation) -> None:
        """Undo `add_unopened`: the stream is open, or its requester has left."""

    def put(self, frame: bytes) -> None:
        """Queue a whole PAYLOAD frame; the caller has checked that there is room, in this turn."""

    def try_send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> bool:
        """Queue a PAYLOAD at once; return False if `send_payload` has to wait or to fragment."""

    def try_answer(self, operation: Operation, payload: AnyPayload) -> bool:
        """Queue the one PAYLOAD of a stream, with N and C, and finish the stream.

        Return False, and do nothing, if `send_payload` has to wait or to fragment.
        """

    async def send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> None:
        """Queue a PAYLOAD, in fragments if necessary, as room allows."""

    def hold_item(self, stream_id: int, payload: AnyPayload) -> int:
        """See `rsocket_trio.interactions.sending.Carrier`."""

    def let_go_item(self, size: int) -> None:
        """See `rsocket_trio.interactions.sending.Carrier`."""

    def counter_of(self, stream_id: int) -> ElementCounter | None:
        """See `rsocket_trio.interactions.sending.Carrier`."""

    def send_control(self, frame: bytes) -> None:
        """Queue a small frame that must leave (CANCEL, REQUEST_N, ERROR, COMPLETE); never wait.

        Does nothing once the connection is over.
        """

    def burst(self) -> bool:
        """Count a message that was sent without waiting; return True if other tasks should run."""

    def finish(self, operation: Operation) -> None:
        """Remove a stream that is over, and free its id. Safe to call twice."""


class Answers(Protocol[R_contra]):
    """The handlers of requests that are given as an ``R``: a `Payload`, or a `PayloadBody`."""

    async def request_response(self, request: R_contra, /) -> AnyPayload | None: ...

    async def fire_and_forget(self, request: R_contra, /) -> None: ...

    def request_stream(self, request: R_contra, /) -> AnyItems | Awaitable[AnyItems]: ...


class Handlers(Answers[Payload], Protocol):
    """All handlers of a side; `rsocket_trio.responder.Responder` documents them."""

    def body_responder(
        self, interaction: Interaction, metadata: bytes | None
    ) -> Answers[PayloadBody] | None: ...

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AnyItems | Awaitable[AnyItems]: ...

    async def metadata_push(self, metadata: bytes) -> None: ...


class Operation:
    """One side of one stream. By default a frame is ignored.

    (Protocol.md, "Handling the Unexpected": frames that make no sense are ignored.)

    Attributes:
        live: Whether our half of the stream is open, so that we may still send on it.
    """

    __slots__ = ("assembling", "live", "outbound", "stream_id")

    def __init__(self, outbound: Outbound, stream_id: int = 0) -> None:
        self.outbound = outbound
        self.stream_id = stream_id
        self.live = True
        self.assembling: Reassembler | None = None

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        """Receive a PAYLOAD frame, which may be a fragment (see `whole`)."""

    def receive_error(self, code: int, data: bytes) -> None:
        """Receive an ERROR frame on this stream."""

    def receive_cancel(self) -> None:
        """Receive a CANCEL frame."""

    def receive_request_n(self, n: int) -> None:
        """Receive a REQUEST_N frame; ``n`` is at least 1."""

    @abstractmethod
    def connection_closed(self, error: Exception) -> None:
        """End with ``error``: the connection is over. Called once, before any task is woken."""

    def cut_short(self) -> None:
        """Record that only a part of a payload has left, and the rest never will."""

    def whole(self, flags: int, metadata: bytes | None, data: bytes) -> tuple[Payload, int] | None:
        """Join fragments (Protocol.md, "Fragmentation and Reassembly").

        Returns:
            The payload and its flags, once it is whole; C may have been on any of its fragments.
            Until then ``None``.

        Raises:
            RemoteProtocolError: The payload is larger than the limits allow.
        """
        assembling = self.assembling
        if is_followed(flags):
            if assembling is None:
                assembling = self.assembling = self.outbound.memory.reassembler(self.stream_id)
            assembling.flags |= flags & COMPLETE
            assembling.add(metadata, data)
            return None
        if assembling is None:
            return Payload(data, metadata), flags
        assembling.add(metadata, data)
        self.assembling = None
        return assembling.finish(), flags | assembling.flags

    def discard_fragments(self) -> None:
        """Drop the fragments of a payload that will not become whole."""
        if self.assembling is not None:
            self.assembling.discard()
            self.assembling = None


class ResponderOperation(Operation):
    """A request of the peer, from its arrival to its outcome.

    Attributes:
        size: The bytes of the request, as the connection counts them.
        arrived: When it came, by trio's clock; set when it enters the queue.
        scope: The cancel scope around its handler, from its first wait to its end.
    """

    __slots__ = ("arrived", "scope", "size")

    arrived: float | None

    def __init__(self, outbound: Outbound, stream_id: int) -> None:
        super().__init__(outbound, stream_id)
        self.size = 0
        self.scope: trio.CancelScope | None = None

    @abstractmethod
    def work(self) -> Coroutine[Any, Any, object]:
        """Return the coroutine that runs the handler to its end and sends the outcome.

        It returns True if the stream is finished, so that `close` is not needed. Any error that it
        raises is the outcome of the stream: see `close`.
        """

    def begin(self) -> Awaitable[object] | None:
        """Work up to the first wait, in the current task.

        Returns:
            The rest of the work: the caller awaits it at once, in this task, and calls `close`.
            ``None`` if the work has ended and `close` was called.

        Raises:
            BaseException: The error of the work; the caller calls `close`.
        """
        return first_step(self)

    def attach(self, scope: trio.CancelScope) -> None:
        """Keep ``scope`` until the end of the handler, which waits now."""
        self.scope = scope
        if not self.live:
            scope.cancel(reason="the stream is over")

    def close(self, error: Exception | None) -> None:
        """End the operation after its work; called once for each `begin`.

        Args:
            error: The error of the work; ``None`` if it ended normally, or was cancelled.
        """
        self.scope = None
        if error is not None:
            self.fail(error)
            forget_frames(error)
        self.outbound.finish(self)

    def receive_cancel(self) -> None:
        self.stop("the peer sent CANCEL")

    def connection_closed(self, error: Exception) -> None:
        """Send nothing more; if the handler waits, a call of `dismiss` follows."""
        self.live = False

    def dismiss(self, error: Exception) -> None:
        """Cancel this handler, after the connection has ended."""
        self.stop(str(error))

    def stop(self, reason: str) -> None:
        """Send nothing more, and cancel the handler; if it has not begun, it never runs."""
        self.live = False
        self.discard_fragments()
        if self.scope is not None:
            self.scope.cancel(reason=reason)
        self.outbound.finish(self)

    def fail(self, error: Exception) -> None:
        """Send an ERROR for an error of the handler, and log it."""
        quiet = not self.live or self.outbound.has_refused(error)
        answer = error_frame_for(error, self.stream_id, self.outbound.max_frame_size, quiet=quiet)
        if self.live:
            self.live = False
            self.outbound.send_control(answer)


class RequestOperation(ResponderOperation, Generic[R]):
    """A request of one payload.

    Attributes:
        request: The payload; or its body, if it is read while it arrives.
        responder: Has the handler.
    """

    __slots__ = ("request", "responder")

    def __init__(
        self, outbound: Outbound, stream_id: int, request: R, responder: Answers[R]
    ) -> None:
        # Without super().__init__, to save a call on the hottest path.
        self.outbound = outbound
        self.stream_id = stream_id
        self.live = True
        self.assembling = None
        self.size = 0
        self.scope = None
        self.request = request
        self.responder = responder
