"""The contract between the engine and the interactions.

An *operation* is one side of one stream. The connection's reader calls its ``receive_*`` methods,
which are synchronous and never wait for anybody; an operation sends through `Outbound` and never
sees the connection. A requester's operation waits in its caller's task; a responder's operation
is run by a worker of the connection (`rsocket_trio.connection.workers`), in a task and a cancel
scope that are its own while the handler runs.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import AsyncIterable, Awaitable
from typing import TYPE_CHECKING, Final, Protocol

from ..errors import (
    FIRST_CUSTOM_CODE,
    LAST_CUSTOM_CODE,
    ConnectionClosed,
    ErrorCode,
    RemoteProtocolError,
    StreamError,
    sole,
)
from ..frames.error import encode_error, encode_fitting_error
from ..payload import Payload
from ..protocol.reassembly import is_followed

if TYPE_CHECKING:
    import trio

    from ..protocol.reassembly import Reassembler
    from ..streamed import AnyPayload

__all__ = ["Handlers", "Operation", "Outbound", "ResponderOperation", "answer_to", "log_unheard"]

logger = logging.getLogger("rsocket_trio")

HANDLER_FAILED: Final = "the handler failed"
"""All that a peer learns of an exception that was not meant for it."""

_STREAM_CODES: Final = frozenset(
    (ErrorCode.APPLICATION_ERROR, ErrorCode.REJECTED, ErrorCode.CANCELED, ErrorCode.INVALID)
)


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

    def expect(self, operation: Operation) -> None:
        """Tell an operation that has yet to open its stream when the connection ends.

        Where that has happened already it is told at once.
        """

    def expected(self, operation: Operation) -> None:
        """The wait of `expect` is over."""

    def try_send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> bool:
        """Queue a PAYLOAD at once; False where `send_payload` has to wait or to fragment."""

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


class Handlers(Protocol):
    """What answers the peer: `rsocket_trio.responder.Responder`, where its promises stand."""

    def takes_body(self, interaction: str, metadata: bytes | None) -> bool: ...

    async def request_response(self, payload: Payload) -> AnyPayload | None: ...

    async def fire_and_forget(self, payload: Payload) -> None: ...

    def request_stream(
        self, payload: Payload
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]: ...

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

    def whole(self, flags: int, metadata: bytes | None, data: bytes) -> Payload | None:
        """Join fragments: the payload once it is whole, else ``None``.

        Protocol.md, "Fragmentation and Reassembly".

        Raises:
            RemoteProtocolError: The payload is larger than the limits allow.
        """
        assembling = self.assembling
        if is_followed(flags):
            if assembling is None:
                assembling = self.assembling = self.outbound.reassembler(self.stream_id)
            assembling.add(metadata, data)
            return None
        if assembling is None:
            return Payload(data, metadata)
        assembling.add(metadata, data)
        self.assembling = None
        return assembling.finish()

    def discard_fragments(self) -> None:
        """Give back what was kept of a payload that will not become whole."""
        if self.assembling is not None:
            self.assembling.discard()
            self.assembling = None


class ResponderOperation(Operation):
    """A request of the peer, from its arrival to its outcome.

    Attributes:
        size: Bytes of the request, for the connection's account.
        scope: The cancel scope of the worker that runs it, while it runs.
        stopped: It must not run, or must not run on.
        scope_cancelled: Its scope has been cancelled, so its worker is of no use any more.
    """

    __slots__ = ("payload", "responder", "scope", "scope_cancelled", "size", "stopped")

    def __init__(
        self, outbound: Outbound, stream_id: int, payload: Payload, responder: Handlers
    ) -> None:
        # Not super().__init__: a call less, on the hottest path.
        self.outbound = outbound
        self.stream_id = stream_id
        self.live = True
        self.assembling = None
        self.payload = payload
        self.responder = responder
        self.size = 0
        self.scope: trio.CancelScope | None = None
        self.stopped = False
        self.scope_cancelled = False

    @abstractmethod
    async def run(self, scope: trio.CancelScope) -> None:
        """Run the handler to its end and send the outcome.

        Raises nothing but `trio.Cancelled` and what no program should catch; ``finish`` has been
        called when this is left, by whatever way.
        """

    def receive_cancel(self) -> None:
        self.stop("the peer sent CANCEL")

    def connection_closed(self, error: Exception) -> None:
        self.stop(str(error))

    def stop(self, reason: str) -> None:
        """Nothing more is sent; the handler, if it runs, is cancelled."""
        self.live = False
        self.stopped = True
        self.discard_fragments()
        if self.scope is not None:
            self.scope_cancelled = True
            self.scope.cancel(reason=reason)
        self.outbound.finish(self)

    def fail(self, error: Exception) -> None:
        """The handler raised: tell the peer what is meant for it, and the log the rest."""
        answer = answer_to(error, self.stream_id, self.outbound.max_frame_size, quiet=not self.live)
        if self.live:
            self.live = False
            self.outbound.send_control(answer)


def log_unheard(what: str, error: Exception) -> None:
    """What a handler raised whose requester hears nothing: nobody's business but the log's."""
    alone = sole(error)
    if isinstance(alone, StreamError):
        # Meant for the requester: expected, and nothing to fill the log with.
        logger.info("%s refused: %s", what, alone)
    else:
        logger.error("%s failed", what, exc_info=error)


def answer_to(
    error: Exception, stream_id: int, max_frame_size: int, *, quiet: bool = False
) -> bytes:
    """The ERROR frame for what a handler raised.

    Args:
        error: A `StreamError` is sent as it is, alone in a group too; of all else only the log
            (unless ``quiet``, when nobody waits for the answer any more) learns more than that
            it happened.
        stream_id: The stream it ends.
        max_frame_size: What does not fit a frame of so many bytes is not sent.
        quiet: Log a failure that came out of a stream already over at a lower level.
    """
    alone = sole(error)
    if isinstance(alone, StreamError):
        error = alone
        code = error.code
        if code not in _STREAM_CODES and not FIRST_CUSTOM_CODE <= code <= LAST_CUSTOM_CODE:
            # One that came from a peer and is passed on must not let that peer fill the log.
            level = logging.ERROR if error.stream_id is None else logging.DEBUG
            logger.log(
                level,
                "a handler raised %r, whose code is not for streams; sent as APPLICATION_ERROR",
                error,
            )
            code = ErrorCode.APPLICATION_ERROR
        return encode_fitting_error(stream_id, code, error.data, max_frame_size)
    if isinstance(error, RemoteProtocolError):
        return encode_error(stream_id, error.code, str(error).encode())
    level = logging.DEBUG if quiet or isinstance(error, ConnectionClosed) else logging.ERROR
    logger.log(level, "a handler failed on stream %d", stream_id, exc_info=error)
    return encode_error(stream_id, ErrorCode.APPLICATION_ERROR, HANDLER_FAILED.encode())
