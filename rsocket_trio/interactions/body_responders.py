"""Requests of the peer whose data are read while they arrive.

They are the operations of whole requests, started early: the handler gets a `PayloadBody`, and
the fragments that still come go there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..errors import RemoteProtocolError
from ..frames.header import FrameType
from ..protocol.reassembly import is_followed
from ..streamed import StreamedPayload
from .body import PayloadBody
from .fire_and_forget import FireAndForgetResponder
from .operation import Handlers, Outbound, ResponderOperation
from .request_response import RequestResponseResponder
from .request_stream import RequestStreamResponder

if TYPE_CHECKING:
    import trio

    from ..payload import Payload

__all__ = ["responder_of_body"]


def responder_of_body(
    frame_type: int,
    outbound: Outbound,
    stream_id: int,
    payload: Payload,
    responder: Handlers,
    initial_n: int,
) -> ResponderOperation:
    """The operation for a request of which ``payload`` is what has come so far."""
    body = PayloadBody(outbound)
    # Cannot be too much for long: the handler learns of it, and refuses the request.
    _deliver(body, payload.metadata, payload.data)
    # The handler said that it takes one (`Responder.takes_body`).
    streamed = cast("Payload", StreamedPayload(body, payload.metadata))
    if frame_type == FrameType.REQUEST_STREAM:
        stream = _Stream(outbound, stream_id, streamed, responder, initial_n)
        stream.body = body
        return stream
    one = _Response if frame_type == FrameType.REQUEST_RESPONSE else _FireAndForget
    operation = one(outbound, stream_id, streamed, responder)
    operation.body = body
    return operation


def _deliver(body: PayloadBody, metadata: bytes | None, data: bytes) -> None:
    try:
        body.deliver(metadata, data)
    except RemoteProtocolError:
        return  # the body has ended with it, so its reader raises it


class _WithBody(ResponderOperation):
    __slots__ = ()

    body: PayloadBody

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        _deliver(self.body, metadata, data)
        if not is_followed(flags):
            self.body.end()

    async def run(self, scope: trio.CancelScope) -> None:
        try:
            await super().run(scope)  # type: ignore[safe-super]  # of the class it is mixed into
        finally:
            self.body.close()

    def stop(self, reason: str) -> None:
        super().stop(reason)
        self.body.close()


class _Response(_WithBody, RequestResponseResponder):
    __slots__ = ("body",)


class _FireAndForget(_WithBody, FireAndForgetResponder):
    __slots__ = ("body",)


class _Stream(_WithBody, RequestStreamResponder):
    __slots__ = ("body",)
