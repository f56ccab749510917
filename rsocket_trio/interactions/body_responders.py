"""Requests of the peer whose data are read while they arrive.

They are the operations of whole requests, started early: the handler gets a `PayloadBody`, which
receives the later fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import RemoteProtocolError
from ..frames.header import FrameType
from ..protocol.reassembly import is_followed
from ..sealed import make
from .fire_and_forget import FireAndForgetResponder
from .operation import Answers, Outbound, RequestOperation
from .payload_body import BodyInbox, PayloadBody
from .request_response import RequestResponseResponder
from .request_stream import RequestStreamResponder

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..payload import Payload
    from .operation import ResponderOperation

__all__ = ["responder_of_body"]


def responder_of_body(
    frame_type: int,
    outbound: Outbound,
    stream_id: int,
    payload: Payload,
    responder: Answers[PayloadBody],
    initial_n: int,
) -> ResponderOperation:
    """Return the operation for a request of which ``payload`` has arrived so far."""
    inbox = BodyInbox(outbound.account)
    # If this is beyond a limit, the body ends with an error, and so the handler fails.
    _deliver(inbox, payload.metadata, payload.data)
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


def _deliver(inbox: BodyInbox, metadata: bytes | None, data: bytes) -> None:
    try:
        inbox.deliver(metadata, data)
    except RemoteProtocolError:
        return  # the inbox has ended with the error, and its reader raises it


class _BodyOperation(RequestOperation[PayloadBody]):
    __slots__ = ()

    inbox: BodyInbox

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        _deliver(self.inbox, metadata, data)
        if not is_followed(flags):
            self.inbox.end()

    def begin(self) -> Awaitable[object] | None:
        return RequestOperation.begin(self)  # calls `close`, also if the handler did not wait

    def close(self, error: Exception | None) -> None:
        super().close(error)
        self.inbox.close()

    def stop(self, reason: str) -> None:
        super().stop(reason)
        self.inbox.close()


class _Response(_BodyOperation, RequestResponseResponder[PayloadBody]):
    __slots__ = ("inbox",)

    async def work(self) -> bool:
        await super().work()
        return False  # `close` is always needed: it closes the inbox


class _FireAndForget(_BodyOperation, FireAndForgetResponder[PayloadBody]):
    __slots__ = ("inbox",)


class _Stream(_BodyOperation, RequestStreamResponder[PayloadBody]):
    __slots__ = ("inbox",)
