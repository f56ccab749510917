"""Calls with streams of messages: `server_stream`, `client_stream`, `bidi_stream`.

Each is an asynchronous context manager; the call ends with its block. If the server still waits for
messages then, it is told that there will be no more. It cannot be told that nobody reads its
messages: the protocol has no frame for that, so what still comes is dropped, and a deadline around
the block is what ends the handler.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, final

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ...entrance import get_ident, not_at_home
from ...errors import RemoteProtocolError, RSocketError, fresh_copy, outcome_of_ours
from ...sealed import Sealed, make
from ..codec import plain_bytes
from ..inbox import MessageInbox, Messages, ReplyStream
from ..methods import MethodKind, Req, Res
from ..wire.frames import NO_DATA, REMOTE_CLOSED, REMOTE_OPEN, MessageType, encode_frame
from .requests import fresh_body
from .unary import answer_in, decoded

if TYPE_CHECKING:
    from ..metadata import Metadata
    from ..methods import Method
    from .connection import ClientConnection

__all__ = ["BidiStream", "ClientStream", "open_stream"]

_OPEN: Final = REMOTE_OPEN | NO_DATA
"""As the Rust client sends it; the Go server accepts it too. Without "no data", the Rust server
would take the empty payload for the first message."""
_IN_A_ROW: Final = 64


@asynccontextmanager
async def open_stream(
    connection: ClientConnection, method: Method[Any, Any], request: Any, metadata: Metadata
) -> AsyncIterator[Any]:
    """Open a stream of the method's kind, and close it at the end; see the methods of `Client`."""
    connection.home.check("this client")
    sends = method.kind.sends_stream
    payload = b"" if sends else method.request.encode(request)
    await checkpoint_if_cancelled()
    call = _StreamCall(connection, method.kind)
    fresh = partial(fresh_body, method, payload, metadata)
    call.sending = sends
    try:
        call.stream_id = await connection.open(
            call, _OPEN if sends else REMOTE_CLOSED, fresh(), fresh
        )
        if not sends:
            yield make(ReplyStream, call.inbox, method.response)
        elif method.kind is MethodKind.CLIENT_STREAM:
            yield make(ClientStream, call, method)
        else:
            yield make(BidiStream, call, method)
    finally:
        # Synchronous, so that a cancelled task tells the server too.
        call.leave()


class _StreamCall:
    """One call, between the reader of the connection and its user.

    Attributes:
        inbox: The messages of the server that are not received.
        sending: Whether our side is open.
        over: Whether the server has ended the call.
        failure: The error with which it has ended.
    """

    def __init__(self, connection: ClientConnection, kind: MethodKind) -> None:
        self.connection = connection
        self.kind = kind
        self.receives = kind.receives_stream  # read for each message; the property costs a set
        self.inbox = MessageInbox(connection.unread, connection.limits.max_stream_size)
        self.stream_id = 0
        self.sending = False
        self.over = False
        self.failure: Exception | None = None
        self._burst = 0

    # -- from the reader --------------------------------------------------------------------

    def receive_response(self, body: bytes) -> None:
        try:
            payload = answer_in(body)
        except RSocketError as error:
            error.__traceback__ = None
            self.fail(error)
            return
        # A server that streams may end with a RESPONSE. Without content it is no message.
        if payload or self.kind is MethodKind.CLIENT_STREAM:
            self.inbox.deliver(payload)
        self._end(None)

    def receive_data(self, flags: int, body: bytes) -> None:
        if not self.receives:
            self.connection.forget(self.stream_id)
            error = RemoteProtocolError("the server sent a DATA frame where one answer is due")
            self.break_off(error)
            return
        # With "no data", bytes are ignored. Without it, no bytes are an empty message; but a last
        # frame without bytes is only the end, as Go and Rust take it.
        if (
            not flags & NO_DATA
            and (body or not flags & REMOTE_CLOSED)
            and not self.inbox.deliver(body)
        ):
            self.connection.hold(self.inbox, self.overrun)
        if flags & REMOTE_CLOSED:
            self.connection.forget(self.stream_id)
            self._end(None)

    def fail(self, error: Exception) -> None:
        self._end(error)

    def break_off(self, error: Exception) -> None:
        self._close_sending()
        self._end(error)

    @property
    def unread_size(self) -> int:
        return self.inbox.size

    def _end(self, error: Exception | None) -> None:
        self.over = True
        self.failure = error
        self.inbox.end(error)

    def overrun(self) -> None:
        self.connection.forget(self.stream_id)
        self.break_off(outcome_of_ours(self.inbox.overflow()))

    # -- from the user ----------------------------------------------------------------------

    async def send(self, body: bytes) -> None:
        """Send a message."""
        if get_ident() != self.connection.home.thread:  # as `Home.check`, without its call
            raise not_at_home("this stream")
        if type(body) is not bytes:
            body = plain_bytes(body)
        self._burst += 1
        if self._burst >= _IN_A_ROW:
            self._burst = 0
            await checkpoint()
        else:
            await checkpoint_if_cancelled()
        self.check_sending()
        if not self.connection.try_send_data(self.stream_id, body):
            await self.connection.send_data(self.stream_id, body, self.check_sending)

    def check_sending(self) -> None:
        """Raise the reason why no message can be sent, if there is one."""
        if self.failure is not None:
            raise fresh_copy(self.failure)
        if self.over:
            raise trio.BrokenResourceError("the server has ended this call")
        if not self.sending:
            raise trio.ClosedResourceError("the sending side of this call was closed here")

    def end_sending(self) -> None:
        """Tell the server that there are no more messages. Safe to call twice."""
        if not self.over:
            self._close_sending()
        self.sending = False

    def _close_sending(self) -> None:
        if self.sending and self.stream_id:
            self.sending = False
            self.connection.send_control(
                encode_frame(self.stream_id, MessageType.DATA, REMOTE_CLOSED | NO_DATA, b"")
            )

    def leave(self) -> None:
        """The block is over: nobody waits for the call any more."""
        self.end_sending()
        self.connection.forget(self.stream_id)
        self.inbox.close()


@final
class ClientStream(Generic[Req, Res], metaclass=Sealed, given="Client.client_stream gives one"):
    """A call with a stream of messages and one answer: `send` some, then ask for the `reply`."""

    def __init__(self, call: _StreamCall, method: Method[Req, Res]) -> None:
        self._call = call
        self._method = method

    async def send(self, message: Req) -> None:
        """Send a message.

        Raises:
            CallError: The server has ended the call with this error; or the message is too long
                (`ResourceExhausted`), and nothing was sent.
            trio.BrokenResourceError: The server has ended the call: ask for the `reply`.
            trio.ClosedResourceError: `end` or `reply` was called, or the connection was closed.
            ConnectionClosed: The connection is over.

        Checkpoint: a cancellation point always; other tasks run if there is no room, and after
        every 64 messages at least.
        If cancelled: the message is not sent.
        """
        await self._call.send(self._method.request.encode(message))

    async def end(self) -> None:
        """Tell the server that there are no more messages. `reply` does it too.

        Checkpoint: always.
        If cancelled: the server is told all the same.
        """
        self._call.inbox.check_home("ClientStream")
        self._call.end_sending()
        await checkpoint()

    async def reply(self) -> Res:
        """End the stream of messages, and wait for the answer; call it once.

        Raises:
            CallError: The call has failed.
            RemoteProtocolError: The server broke the protocol on this call.
            ConnectionClosed: The connection ended before the call did.

        Checkpoint: always.
        If cancelled: call it again.
        """
        call = self._call
        call.inbox.check_home("ClientStream")
        call.end_sending()
        try:
            await call.inbox.wait("ClientStream")
        except trio.EndOfChannel:
            raise trio.ClosedResourceError("the answer was received already") from None
        return decoded(self._method, call.inbox.pop())


@final
class BidiStream(
    Messages[Res], Generic[Req, Res], metaclass=Sealed, given="Client.bidi_stream gives one"
):
    """A call with streams of messages in both directions.

    Send with `send` and `end`; receive by iterating, or with `receive`. One task may send while
    another one receives.
    """

    __slots__ = ("_call", "_method")

    def __init__(self, call: _StreamCall, method: Method[Req, Res]) -> None:
        super().__init__(call.inbox, method.response)
        self._call = call
        self._method = method

    async def send(self, message: Req) -> None:
        """Send a message.

        Raises:
            CallError: The server has ended the call with this error; or the message is too long
                (`ResourceExhausted`), and nothing was sent.
            trio.BrokenResourceError: The server has ended the call.
            trio.ClosedResourceError: `end` was called, or the connection was closed.
            ConnectionClosed: The connection is over.

        Checkpoint: a cancellation point always; other tasks run if there is no room, and after
        every 64 messages at least.
        If cancelled: the message is not sent.
        """
        await self._call.send(self._method.request.encode(message))

    async def end(self) -> None:
        """Tell the server that there are no more messages; it may go on sending.

        Checkpoint: always.
        If cancelled: the server is told all the same.
        """
        self._call.inbox.check_home("BidiStream")
        self._call.end_sending()
        await checkpoint()
