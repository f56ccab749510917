"""Requests of the peer whose data are read while they arrive.

They are the operations of whole requests, started early: the handler gets a `PayloadBody`, which
receives the later fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import RemoteProtocolError
from ..frames.error import encode_error
from ..frames.header import FrameType
from ..log_policy import logger
from ..protocol.reassembly import is_followed
from ..sealed import make
from .fire_and_forget import FireAndForgetResponder
from .operation import Answers, Outbound, RequestOperation
from .payload_body import BodyInbox, PayloadBody
from .request_response import RequestResponseResponder
from .request_stream import RequestStreamResponder

if TYPE_CHECKING:
    from collections.abc import Awaitable


__all__ = ["BodyOperation", "responder_of_body"]


def responder_of_body(
    frame_type: int,
    outbound: Outbound,
    stream_id: int,
    responder: Answers[PayloadBody],
    initial_n: int,
) -> BodyOperation:
    """Return the operation for a request that has begun to arrive: see `BodyOperation.take`."""
    inbox = BodyInbox(outbound.memory)
    body = make(PayloadBody, inbox)
    operation: _Stream | _Response | _FireAndForget
    if frame_type == FrameType.REQUEST_STREAM:
        operation = _Stream(outbound, stream_id, body, responder, initial_n)
    elif frame_type == FrameType.REQUEST_RESPONSE:
        operation = _Response(outbound, stream_id, body, responder)
    else:
        operation = _FireAndForget(outbound, stream_id, body, responder)
    operation.inbox = inbox
    return operation


class BodyOperation(RequestOperation[PayloadBody]):
    """A request that is read while it arrives."""

    __slots__ = ()

    inbox: BodyInbox

    def take(self, metadata: bytes | None, data: bytes) -> None:
        """Take a part of the body. Beyond a limit, the stream ends, and the peer is told why."""
        try:
            self.inbox.deliver(metadata, data)
        except RemoteProtocolError as error:  # the inbox has ended with it: its reader raises it
            self.reject(error)

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        self.take(metadata, data)
        if not is_followed(flags):
            self.inbox.end()

    def reject(self, error: RemoteProtocolError) -> None:
        """End this stream: the peer broke the rules on it. A handler that runs gets the error."""
        if self.live:
            self.live = False
            self.refuse(encode_error(self.stream_id, error.code, str(error).encode()))
        if self.scope is None:
            self.inbox.close()  # no handler will read it
        self.outbound.finish(self)

    def refuse(self, frame: bytes) -> None:
        """Send an ERROR; a fire_and_forget has no answer."""
        self.outbound.send_control(frame)

    def begin(self) -> Awaitable[object] | None:
        return RequestOperation.begin(self)  # calls `close`, also if the handler did not wait

    def close(self, error: Exception | None) -> None:
        super().close(error)
        self.inbox.close()

    def stop(self, reason: str) -> None:
        super().stop(reason)
        self.inbox.close()


class _Response(BodyOperation, RequestResponseResponder[PayloadBody]):
    __slots__ = ("inbox",)

    async def work(self) -> bool:
        await super().work()
        return False  # `close` is always needed: it closes the inbox


class _FireAndForget(BodyOperation, FireAndForgetResponder[PayloadBody]):
    __slots__ = ("inbox",)

    def refuse(self, frame: bytes) -> None:
        logger.info("a fire_and_forget was dropped: its body was not read fast enough")


class _Stream(BodyOperation, RequestStreamResponder[PayloadBody]):
    __slots__ = ("inbox",)
