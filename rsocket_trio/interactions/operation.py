"""The contract between the engine and the interactions.

An *operation* is one side of one stream. The connection's reader calls its ``receive_*`` methods,
which are synchronous and never wait for anybody; an operation sends through `Outbound` and never
sees the connection. A requester's operation waits in its caller's task; a responder's operation
is run by the connection (`rsocket_trio.connection.crew`): its first step in the task that reads;
where that step waits, in a task and a cancel scope that are its own from then on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, Awaitable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from ..frames.header import COMPLETE
from ..payload import Payload
from ..protocol.reassembly import is_followed
from .handler_errors import error_frame_for, forget_frames
from .stepping import go_on, step

if TYPE_CHECKING:
    import trio

    from ..protocol.interaction import Interaction
    from ..protocol.reassembly import Reassembler
    from ..streamed import AnyPayload
    from .payload_body import PayloadBody

__all__ = [
    "IN_A_ROW",
    "Answers",
    "Handlers",
    "Operation",
    "Outbound",
    "RequestOperation",
    "ResponderOperation",
]

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

IN_A_ROW: Final = 64
"""Items, messages or requests in a row, without letting another task run: no side of a stream that
never has to wait may keep the loop for itself."""


class Outbound(Protocol):
    """What an operation may do to its connection. `rsocket_trio.connection.streams` does it.

    Attributes:
        unread: Bytes received for all streams of the connection that nobody has taken yet.
        max_unread: Their limit (`Limits.max_unread_size`).
        max_unread_body: Of one payload that is read while it arrives
            (`Limits.max_unread_body_size`).
        max_frame_size: The longest frame there may be (`Limits.max_frame_size`).
    """

    unread: int
    max_unread: int
    max_unread_body: int
    max_frame_size: int

    def try_open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> bool:
        """Send a request at once; False (and nothing is done) where `open` has to wait."""

    async def open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> None:
        """Send a request, in fragments if need be, as room allows.

        The stream id is given and the operation entered next to the frame's queueing, so ids
        leave in order. Raises `ConnectionClosed` (or `trio.ClosedResourceError`).
        """

    def retract(self, operation: Operation) -> bool:
        """Take back a request in one frame, if that is still the last one that was queued.

        Then it never was: its id is the next one again. False (and nothing is done) where it has
        left, or others are behind it.
        """

    def add_unopened(self, operation: Operation) -> None:
        """Tell an operation that has yet to open its stream when the connection ends.

        Where that has happened already it is told at once.
        """

    def remove_unopened(self, operation: Operation) -> None:
        """The stream is open, or its requester has left: the wait of `add_unopened` is over."""

    def try_send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> bool:
        """Queue a PAYLOAD at once; False where `send_payload` has to wait or to fragment."""

    def try_answer(self, operation: Operation, payload: AnyPayload) -> bool:
        """Queue the one PAYLOAD of a stream, with N and C, and finish it.

        False, and nothing is done, where `send_payload` has to wait or to fragment.
        """

    async def send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> None:
        """Queue a PAYLOAD, in fragments if need be, as room allows."""

    def send_control(self, frame: bytes) -> None:
        """Queue a small frame that must get out (CANCEL, REQUEST_N, ERROR, COMPLETE): no waiting.

        Does nothing once the connection is over.
        """

    def burst(self) -> bool:
        """Count one message that waits for nothing; True when other tasks should run now."""

    def finish(self, operation: Operation) -> None:
        """The stream is over: forget its id. Safe to call twice."""

    def reassembler(self, stream_id: int) -> Reassembler:
        """A new reassembler within the connection's limits."""


class Answers(Protocol[R_contra]):
    """What answers requests that are handed over as an ``R``: a `Payload`, or a `PayloadBody`."""

    async def request_response(self, request: R_contra, /) -> AnyPayload | None: ...

    async def fire_and_forget(self, request: R_contra, /) -> None: ...

    def request_stream(
        self, request: R_contra, /
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]: ...


class Handlers(Answers[Payload], Protocol):
    """What answers the peer: `rsocket_trio.responder.Responder`, where its promises stand."""

    def body_responder(
        self, interaction: Interaction, metadata: bytes | None
    ) -> Answers[PayloadBody] | None: ...

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]: ...

    async def metadata_push(self, metadata: bytes) -> None: ...


class Operation:
    """One side of one stream. Methods that a frame has no meaning for ignore it.

    (Protocol.md, "Handling the Unexpected": what makes no sense is ignored.)

    Attributes:
        live: Our half of the stream is open: what it sends still means something to the peer.
    """

    __slots__ = ("assembling", "live", "outbound", "stream_id")

    def __init__(self, outbound: Outbound, stream_id: int = 0) -> None:
        self.outbound = outbound
        self.stream_id = stream_id
        self.live = True
        self.assembling: Reassembler | None = None

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        """A PAYLOAD frame, perhaps a fragment (see `whole`)."""

    def receive_error(self, code: int, data: bytes) -> None:
        """An ERROR frame on this stream."""

    def receive_cancel(self) -> None:
        """A CANCEL frame."""

    def receive_request_n(self, n: int) -> None:
        """A REQUEST_N frame; ``n`` is at least 1."""

    @abstractmethod
    def connection_closed(self, error: Exception) -> None:
        """The connection is over. Called once, before anything else learns of it."""

    def cut_short(self) -> None:
        """A payload of ours has left in part, and the rest of it never will."""

    def whole(self, flags: int, metadata: bytes | None, data: bytes) -> tuple[Payload, int] | None:
        """Join fragments (Protocol.md, "Fragmentation and Reassembly").

        Returns:
            The payload once it is whole, and its flags: C may have been on any of its fragments.
            Before that, ``None``.

        Raises:
            RemoteProtocolError: The payload is larger than the limits allow.
        """
        assembling = self.assembling
        if is_followed(flags):
            if assembling is None:
                assembling = self.assembling = self.outbound.reassembler(self.stream_id)
            assembling.flags |= flags & COMPLETE
            assembling.add(metadata, data)
            return None
        if assembling is None:
            return Payload(data, metadata), flags
        assembling.add(metadata, data)
        self.assembling = None
        return assembling.finish(), flags | assembling.flags

    def discard_fragments(self) -> None:
        """Give back what was kept of a payload that will not become whole."""
        if self.assembling is not None:
            self.assembling.discard()
            self.assembling = None


class ResponderOperation(Operation):
    """A request of the peer, from its arrival to its outcome.

    Attributes:
        size: Bytes of the request, for the connection's account.
        scope: The cancel scope around its handler, once that has waited and while it runs.
    """

    __slots__ = ("scope", "size")

    def __init__(self, outbound: Outbound, stream_id: int) -> None:
        super().__init__(outbound, stream_id)
        self.size = 0
        self.scope: trio.CancelScope | None = None

    @abstractmethod
    async def work(self) -> None:
        """Run the handler to its end and send the outcome.

        What this raises, whatever it is, is the outcome of the stream: see `close`.
        """

    def begin(self) -> Awaitable[object] | None:
        """Work up to the first wait, in the current task.

        Returns:
            The rest of the work, to be awaited at once and in this task, and followed by `close`;
            or ``None``: it is done, and this closed.

        Raises:
            BaseException: What came out of it; `close` follows.
        """
        try:
            rest = go_on(*step(self.work()))
        except StopIteration:
            self.close(None)
            return None
        return rest

    def attach(self, scope: trio.CancelScope) -> None:
        """The handler waits, and ``scope`` is its own from here to its end."""
        self.scope = scope
        if not self.live:
            scope.cancel(reason="the stream is over")

    def close(self, error: Exception | None) -> None:
        """The work is over, by whatever way; called once for each `begin`.

        Args:
            error: What came out of it; ``None`` where it ended by itself, or was cancelled.
        """
        self.scope = None
        if error is not None:
            self.fail(error)
            forget_frames(error)
        self.outbound.finish(self)

    def receive_cancel(self) -> None:
        self.stop("the peer sent CANCEL")

    def connection_closed(self, error: Exception) -> None:
        """Nothing more is sent; `dismiss` follows where there is a handler that waits."""
        self.live = False

    def dismiss(self, error: Exception) -> None:
        """The connection is over, and it is the turn of this handler to be cancelled."""
        self.stop(str(error))

    def stop(self, reason: str) -> None:
        """Nothing more is sent; the handler is cancelled, or is never called."""
        self.live = False
        self.discard_fragments()
        if self.scope is not None:
            self.scope.cancel(reason=reason)
        self.outbound.finish(self)

    def fail(self, error: Exception) -> None:
        """The handler raised: tell the peer what is meant for it, and the log the rest."""
        answer = error_frame_for(
            error, self.stream_id, self.outbound.max_frame_size, quiet=not self.live
        )
        if self.live:
            self.live = False
            self.outbound.send_control(answer)


class RequestOperation(ResponderOperation, Generic[R]):
    """A request of one payload.

    Attributes:
        request: The payload; or its body, where that is read while it arrives.
        responder: Who answers it.
    """

    __slots__ = ("request", "responder")

    def __init__(
        self, outbound: Outbound, stream_id: int, request: R, responder: Answers[R]
    ) -> None:
        # Not super().__init__: a call less, on the hottest path.
        self.outbound = outbound
        self.stream_id = stream_id
        self.live = True
        self.assembling = None
        self.size = 0
        self.scope = None
        self.request = request
        self.responder = responder
