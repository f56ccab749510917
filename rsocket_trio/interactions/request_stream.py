"""request_stream: one request, a stream of items (Protocol.md, "Request Stream").

The rules are those of `rsocket_trio.protocol.legality`, but the code has them without the table: a
look-up for each item would cost too much. A test compares the two
(tests/rules/test_legality_cells.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Final

from trio.lowlevel import checkpoint_if_cancelled

from ..errors import RemoteProtocolError, stream_error
from ..frames.cancel import encode_cancel
from ..frames.header import COMPLETE, FOLLOWS, NEXT, FrameType
from ..frames.payload import encode_payload
from ..frames.request_n import encode_request_n
from ..payload import Payload
from ..protocol.reassembly import has_payload
from ..sealed import make
from .block import opened_by_block
from .credit_gate import CreditGate
from .demand import PayloadInbox, PayloadStream
from .operation import Answers, Operation, Outbound, R, RequestOperation
from .sending import send_stream

if TYPE_CHECKING:
    from ..protocol.credit import Window
    from ..streamed import AnyPayload

__all__ = ["RequestStreamResponder", "request_stream"]

_TYPE: Final = FrameType.REQUEST_STREAM.value
_PART: Final = NEXT | FOLLOWS


@opened_by_block
async def request_stream(
    outbound: Outbound, payload: AnyPayload, window: Window, max_window: int, flags: int = 0
) -> AsyncIterator[PayloadStream]:
    """Open a stream, and close it at the end; see `rsocket_trio.Requester.request_stream`."""
    outbound.home.check("this requester")
    operation = _Requester(outbound, window, max_window)
    n = window.initial_request_n
    try:
        await checkpoint_if_cancelled()  # else the request would leave, and a CANCEL behind it
        if not outbound.try_open(operation, _TYPE, flags, n, payload):
            await outbound.open(operation, _TYPE, flags, n, payload)
        yield make(PayloadStream, operation.inbox)
    finally:
        # Synchronous, so that a cancelled task sends CANCEL too.
        operation.inbox.close()


class _Requester(Operation):
    """Delivers the items to a `PayloadInbox`."""

    __slots__ = ("inbox",)

    def __init__(self, outbound: Outbound, window: Window, max_window: int) -> None:
        super().__init__(outbound)
        self.inbox = PayloadInbox(self, outbound.memory.unread, window, max_window)

    # -- from the reader of the connection --------------------------------------------------

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        try:
            if flags & _PART == NEXT and self.assembling is None:
                # Nearly every item is of this kind; this saves a call.
                self.inbox.deliver(Payload(data, metadata))
            elif self.assembling is not None or has_payload(flags):
                whole = self.whole(flags, metadata, data)
                if whole is None:
                    return
                payload, flags = whole
                self.inbox.deliver(payload)
        except RemoteProtocolError as error:
            error.__traceback__ = None  # it would keep the item alive as long as the error
            self._cancel()
            self._end(error)
            return
        if flags & COMPLETE:
            self._end(None)

    def receive_error(self, code: int, data: bytes) -> None:
        error = stream_error(code, data, self.stream_id)
        if self.inbox.received:
            error.unprocessed = False
        self._end(error)

    def connection_closed(self, error: Exception) -> None:
        self._end(error)

    def _end(self, failure: Exception | None) -> None:
        self.discard_fragments()
        self.inbox.end(failure)
        self.outbound.finish(self)

    # -- from the user of the stream --------------------------------------------------------

    def grant(self, n: int) -> None:
        self.outbound.send_control(encode_request_n(self.stream_id, n))

    def abandon(self) -> None:
        self.discard_fragments()
        self._cancel()
        self.outbound.finish(self)

    def _cancel(self) -> None:
        if self.stream_id:
            self.outbound.send_control(encode_cancel(self.stream_id))


class RequestStreamResponder(RequestOperation[R]):
    """Runs the handler and sends its items as the peer grants credit."""

    __slots__ = ("credit",)

    def __init__(
        self,
        outbound: Outbound,
        stream_id: int,
        request: R,
        responder: Answers[R],
        initial_request_n: int,
    ) -> None:
        super().__init__(outbound, stream_id, request, responder)
        self.credit = CreditGate(initial_request_n)

    def receive_request_n(self, n: int) -> None:
        self.credit.add(n)

    def cut_short(self) -> None:
        self.credit.cut = True

    def stop(self, reason: str) -> None:
        super().stop(reason)
        self.credit.close()  # the cancellation does not wake a generator with a shielded scope

    def work(self) -> Coroutine[Any, Any, None]:
        return send_stream(self, self.responder.request_stream(self.request), self.credit)

    def send_complete(self) -> None:
        self.outbound.send_control(encode_payload(self.stream_id, COMPLETE, None, b""))
