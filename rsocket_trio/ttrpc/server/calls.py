"""A call, from its request to its last frame: `UnaryCall`, `StreamCall`.

Each ends with exactly one last frame: a RESPONSE, or for a stream of messages a DATA with the flag
"remote closed" (PROTOCOL.md, "Streaming"). An error is always a RESPONSE with a status.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Coroutine
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from ...errors import ConnectionLost
from ...interactions.credit_gate import CreditGate
from ...interactions.sending import send_stream
from ...interactions.stepping import first_step
from ..errors import CallError, DeadlineExceeded, InvalidArgument
from ..inbox import MessageInbox
from ..wire.frames import NO_DATA, REMOTE_CLOSED
from .outcomes import note_answer, status_of
from .replies import StreamOutbound

if TYPE_CHECKING:
    from .bound import ServedMethod
    from .call import Call
    from .incoming import IncomingCalls

__all__ = ["ServerCall", "StreamCall", "UnaryCall"]

_OVERDUE: Final = "the deadline of the call is over"


_AHEAD: Final = 64
"""Items that a publisher is asked for at once: as many as `open_iter` asks for."""


class _Endless(CreditGate):
    """The protocol has no credit, so there is always some."""

    __slots__ = ()

    def take(self) -> bool:
        """Return True."""
        return True


class ServerCall:
    """A call of the peer; see `rsocket_trio.connection.job.Job`.

    Attributes:
        incoming: The calls of the connection.
        stream_id: Its stream.
        method: The method.
        facts: For the handler; ``None`` if nobody looks at them.
        deadline: When the client stops waiting, by trio's clock.
        live: Whether the peer still waits for the last frame.
        size: The bytes of the request.
        arrived: See `rsocket_trio.connection.job.Job`.
        scope: The cancel scope around the handler, from its first wait to its end.
    """

    __slots__ = (
        "arrived",
        "deadline",
        "facts",
        "incoming",
        "live",
        "method",
        "request",
        "scope",
        "size",
        "stream_id",
    )

    arrived: float | None

    def __init__(
        self,
        incoming: IncomingCalls,
        stream_id: int,
        method: ServedMethod,
        request: Any,
        facts: Call | None,
        deadline: float,
    ) -> None:
        self.incoming = incoming
        self.stream_id = stream_id
        self.method = method
        self.request = request
        self.facts = facts
        self.deadline = deadline
        self.live = True
        self.size = 0
        self.scope: trio.CancelScope | None = None

    @abstractmethod
    async def answer(self) -> None:
        """Run the handler, and send its outcome."""

    def work(self) -> Coroutine[Any, Any, object]:
        """See `rsocket_trio.connection.job.Job.work`."""
        return self.answer() if self.deadline == inf else self._in_time()

    async def _in_time(self) -> None:
        if trio.current_time() >= self.deadline:
            raise DeadlineExceeded(_OVERDUE)  # it has waited in the queue; nobody needs the work
        # The handler runs inside of this scope from its beginning: scopes that it opens must nest.
        with trio.CancelScope(deadline=self.deadline) as scope:
            await self.answer()
        if scope.cancelled_caught and self.live:
            raise DeadlineExceeded(_OVERDUE)

    def begin(self) -> Awaitable[object] | None:
        """See `rsocket_trio.connection.job.Job.begin`."""
        return first_step(self)

    def attach(self, scope: trio.CancelScope) -> None:
        """See `rsocket_trio.connection.job.Job.attach`."""
        self.scope = scope
        if not self.live:
            scope.cancel(reason="the call is over")

    def close(self, error: Exception | None) -> None:
        """End the call after its work.

        Args:
            error: The error of the work; ``None`` if it ended normally, or was cancelled.
        """
        self.scope = None
        if error is not None:
            quiet = not self.live or self.is_cut_off
            status = status_of(error, self.method.path, quiet=quiet)
            if self.live:
                self.incoming.replies.fail(self.stream_id, status)
            if isinstance(error, CallError):
                error.with_traceback(None)  # an application may raise one object again and again
        self.finish()

    @property
    def is_cut_off(self) -> bool:
        """Whether the handler had to fail, as the peer left before the last message."""
        return False

    @property
    def unread_size(self) -> int:
        """The bytes that have arrived and that the handler has not received."""
        return 0

    def overrun(self) -> None:
        """End the call, because its handler does not receive what arrives."""

    def finish(self) -> None:
        """Leave the table: the last frame is queued, or nobody waits for it."""
        self.live = False
        self.incoming.forget(self)

    def dismiss(self, error: Exception) -> None:
        """Cancel the handler, after the connection has ended."""
        self.stop(str(error))

    def stop(self, reason: str) -> None:
        """Send nothing more, and cancel the handler; if it has not begun, it never runs."""
        self.finish()
        if self.scope is not None:
            self.scope.cancel(reason=reason)

    def end_with(self, error: CallError) -> None:
        """End the call because of the peer, and tell it why."""
        if self.live:
            self.incoming.replies.fail(self.stream_id, error.status)
        self.stop(str(error))

    def connection_closed(self) -> None:
        """Send nothing more; if the handler waits, a call of `dismiss` follows."""
        self.live = False

    def peer_ended(self) -> None:
        """The peer has closed its sending half: no messages will come."""

    def receive_data(self, flags: int, body: bytes) -> None:
        """Receive a DATA frame, which a client of this kind of method does not send.

        A frame without data that only closes the client's side is harmless.
        """
        if body and not flags & NO_DATA:
            self.end_with(InvalidArgument("this method takes no stream of messages"))


class UnaryCall(ServerCall):
    """A call with one request and one answer."""

    __slots__ = ()

    async def answer(self) -> None:
        """Run the handler, and send its answer."""
        reply = await self.method.start(self.request, self.facts)
        if self.live:
            frame = self.frame(reply)
            del reply  # thousands of calls may wait for room, each with its answer
            await self.respond(frame)

    def frame(self, reply: Any) -> bytes:
        """Return the frame of the answer."""
        try:
            body = self.method.encode(reply)
        except Exception as error:  # to be raised again, with a note
            note_answer(error, self.method.path, reply)
            raise
        return self.incoming.replies.frame(self.stream_id, body)

    async def respond(self, frame: bytes) -> None:
        """Send the answer, when there is room."""
        replies = self.incoming.replies
        if replies.room.used < replies.room.limit:
            replies.outbox.put(frame)
        else:
            await replies.send(self, frame)
        self.live = False


class StreamCall(UnaryCall):
    """A call with a stream of messages, in one direction or both.

    Attributes:
        inbox: The messages of the client; ``None`` if it sends one request only.
    """

    __slots__ = ("inbox", "outbound")

    def __init__(
        self,
        incoming: IncomingCalls,
        stream_id: int,
        method: ServedMethod,
        request: Any,
        facts: Call | None,
        deadline: float,
        inbox: MessageInbox | None,
    ) -> None:
        super().__init__(incoming, stream_id, method, request, facts, deadline)
        self.inbox = inbox
        self.outbound = StreamOutbound(self, incoming.replies, method.encode)

    async def answer(self) -> None:
        """Run the handler, and send its answer or its messages."""
        if not self.method.receives_stream:
            await super().answer()
            return
        items = self.method.start(self.request, self.facts)
        await send_stream(self, items, _Endless(_AHEAD))

    def send_complete(self) -> None:
        """Tell the client that there are no more messages."""
        self.incoming.replies.complete(self.stream_id)
        self.live = False

    def finish(self) -> None:
        """Leave the table; what has arrived and is not received is dropped."""
        super().finish()
        if self.inbox is not None:
            self.inbox.close()

    def receive_data(self, flags: int, body: bytes) -> None:
        """Receive a DATA frame: a message of the client, its end, or both."""
        inbox = self.inbox
        if inbox is None:
            super().receive_data(flags, body)
            return
        if inbox.ended:
            # PROTOCOL.md, "Data": not allowed after "remote closed". One last frame is enough.
            return
        # With "no data", bytes are ignored; otherwise no bytes are an empty message. But a last
        # frame without bytes is only the end, as Go and Rust take it.
        if not flags & NO_DATA and (body or not flags & REMOTE_CLOSED) and not inbox.deliver(body):
            self.incoming.hold(self)
        if flags & REMOTE_CLOSED:
            inbox.end()

    def peer_ended(self) -> None:
        """The peer has closed its sending half: the stream of messages is cut off."""
        if self.inbox is not None:
            self.inbox.end(ConnectionLost("the peer closed the connection inside of a stream"))

    @property
    def is_cut_off(self) -> bool:
        """Whether the handler had to fail, as the peer left before the last message."""
        return self.inbox is not None and self.inbox.failure is not None

    @property
    def unread_size(self) -> int:
        """The bytes that have arrived and that the handler has not received."""
        return 0 if self.inbox is None else self.inbox.size

    def overrun(self) -> None:
        """End the call, because its handler does not receive what arrives."""
        if self.live and self.inbox is not None:
            self.end_with(self.inbox.overflow())
