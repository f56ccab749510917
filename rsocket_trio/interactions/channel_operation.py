"""The common part of both sides of a channel: `ChannelOperation`.

`rsocket_trio.interactions.request_channel` has the differences: which side may end which half.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from ..errors import RemoteProtocolError, stream_error
from ..frames.cancel import encode_cancel
from ..frames.error import encode_error
from ..frames.header import COMPLETE, FOLLOWS, NEXT
from ..frames.payload import encode_payload
from ..frames.request_n import encode_request_n
from ..payload import Payload
from ..protocol.frame_rules import payload_event
from ..protocol.legality import Event
from ..protocol.reassembly import has_payload
from .operation import Operation

if TYPE_CHECKING:
    from ..protocol.stream_state import StreamState
    from .credit_gate import CreditGate
    from .demand import PayloadInbox

__all__ = ["ChannelOperation"]

_PART: Final = NEXT | FOLLOWS


class ChannelOperation(Operation):
    """One side of a channel, requester or responder.

    Attributes:
        state: Which halves are open.
        credit: The credit that the peer granted us.
        inbox: The items that the peer sends.
    """

    __slots__ = ()

    state: StreamState
    credit: CreditGate
    inbox: PayloadInbox

    @abstractmethod
    def stop_sending(self, reason: str) -> None:
        """Stop our half: the peer wants no more of it."""

    # -- from the reader of the connection --------------------------------------------------

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        payload: Payload | None = None
        try:
            if flags & _PART == NEXT and self.assembling is None:
                # Nearly every item is of this kind; this saves a call.
                payload = Payload(data, metadata)
            elif self.assembling is not None or has_payload(flags):
                if not self.state.expects(Event.NEXT):
                    return  # the peer's half is over: no fragment is kept
                whole = self.whole(flags, metadata, data)
                if whole is None:
                    return
                payload, flags = whole
            event = payload_event(flags, reassembled=payload is not None)
            if event is None or not self.state.receive(event):
                return
            if payload is not None:
                self.inbox.deliver(payload)
        except RemoteProtocolError as error:
            error.__traceback__ = None  # it would keep the item alive as long as the error
            self.reject(error)
            return
        if flags & COMPLETE:
            self.inbox.end()
            self.settle()

    def receive_request_n(self, n: int) -> None:
        if self.state.receive(Event.REQUEST_N):
            self.credit.add(n)

    def receive_error(self, code: int, data: bytes) -> None:
        if self.state.receive(Event.ERROR):
            error = stream_error(code, data, self.stream_id)
            if self.inbox.received:
                error.unprocessed = False
            self.quit(error)
            self.stop_sending(f"the peer sent ERROR: {error}")

    # -- from our own side ------------------------------------------------------------------

    def grant(self, n: int) -> None:
        if self.stream_id and self.state.may_send(Event.SEND_REQUEST_N):
            self.outbound.send_control(encode_request_n(self.stream_id, n))

    def abandon(self) -> None:
        self.discard_fragments()
        self.send_cancel()

    def cut_short(self) -> None:
        self.credit.cut = True

    def send_complete(self) -> None:
        """Complete our half."""
        self.live = False
        if self.state.send(Event.SEND_COMPLETE):
            complete = encode_payload(self.stream_id, COMPLETE, None, b"")
            self.outbound.send_control(complete)
            self.settle()

    def send_cancel(self) -> None:
        if self.stream_id and self.state.send(Event.SEND_CANCEL):
            self.outbound.send_control(encode_cancel(self.stream_id))
            self.settle()

    def send_error(self, frame: bytes, failure: Exception) -> None:
        """End both halves with an ERROR."""
        if self.stream_id and self.state.send(Event.SEND_ERROR):
            self.outbound.send_control(frame)
        self.quit(failure)

    def reject(self, error: RemoteProtocolError) -> None:
        """End this stream, but not the connection: the peer broke the rules on this stream."""
        if self.state.may_send(Event.SEND_ERROR):
            self.send_error(encode_error(self.stream_id, error.code, str(error).encode()), error)
        else:
            # Our half is complete, so we may send only CANCEL, which stops the peer's half.
            self.inbox.end(error)
            self.send_cancel()
            self.quit(error)
        self.stop_sending(str(error))

    def settle(self) -> None:
        """End the stream if both halves are over."""
        if self.state.closed:
            self.quit(None)

    def quit(self, failure: Exception | None) -> None:
        """End the stream now, and free its id."""
        self.live = False
        self.discard_fragments()
        self.credit.close()
        self.inbox.end(failure)
        self.outbound.finish(self)
