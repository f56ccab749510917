"""request_response: one request, one response (Protocol.md, "Request Response").

The hottest path of the package: a requester is its task in a slot, resumed directly with the
outcome; a responder's answer is encoded and queued without a checkpoint where there is room.
The rules are those of `rsocket_trio.protocol.legality`, which are so few here that they are
written out: the first PAYLOAD, ERROR or CANCEL ends the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from ..errors import RemoteProtocolError, stream_error
from ..frames.cancel import encode_cancel
from ..frames.header import COMPLETE, FOLLOWS, NEXT, FrameType
from ..frames.payload import encode_payload
from ..payload import NO_PAYLOAD, Payload
from .operation import Operation, Outbound, ResponderOperation

if TYPE_CHECKING:
    import trio
    from outcome import Outcome

    from ..streamed import AnyPayload

__all__ = ["RequestResponseResponder", "request_response"]

_TYPE: Final = FrameType.REQUEST_RESPONSE.value

_ANSWER: Final = NEXT | COMPLETE
_PART: Final = NEXT | FOLLOWS


async def request_response(outbound: Outbound, payload: AnyPayload) -> Payload:
    """Send a request and wait for its response; see `rsocket_trio.Requester.request_response`."""
    operation = _Requester(outbound)
    if not outbound.try_open(operation, _TYPE, 0, None, payload):
        try:
            await outbound.open(operation, _TYPE, 0, None, payload)
        except BaseException:
            operation.give_up()
            raise
        if operation.result is not None:
            # It came while the last fragments of the request were leaving.
            return operation.unwrap()
    operation.task = current_task()
    response: Payload = await wait_task_rescheduled(operation.abort)
    return response


class _Requester(Operation):
    """Waits for the response; and is the outcome that its caller's task is resumed with.

    trio asks nothing of an outcome but `unwrap`, and a new `outcome.Value` per request would cost
    as much as all else that a response costs here.
    """

    __slots__ = ("result", "task")

    def __init__(self, outbound: Outbound) -> None:
        # Not super().__init__: a call less, on the hottest path.
        self.outbound = outbound
        self.stream_id = 0
        self.assembling = None
        self.task: trio.lowlevel.Task | None = None
        self.result: Payload | Exception | None = None

    def unwrap(self) -> Payload:
        """The response, or the error instead of it. Once: an error must not hold its own frame."""
        result = self.result
        if isinstance(result, Payload):
            return result
        self.result = NO_PAYLOAD
        assert result is not None
        try:
            raise result
        finally:
            del result

    def abort(self, _raise_cancel: Any) -> Abort:
        """The caller was cancelled while it waited."""
        self.task = None
        self.give_up()
        return Abort.SUCCEEDED

    def give_up(self) -> None:
        """The caller does not wait any more: CANCEL, if the request has left and is unanswered."""
        self.discard_fragments()
        if self.stream_id and self.result is None:
            self.outbound.send_control(encode_cancel(self.stream_id))
            self.outbound.finish(self)

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        # A PAYLOAD without COMPLETE counts as with it (Protocol.md, "Handling the Unexpected").
        if flags & _PART == NEXT and self.assembling is None:
            self._settle(Payload(data, metadata))
        elif flags & _PART or self.assembling is not None:
            try:
                payload = self.whole(flags, metadata, data)
            except RemoteProtocolError as error:
                self.outbound.send_control(encode_cancel(self.stream_id))
                self._fail(error)
                return
            if payload is not None:
                self._settle(payload)
        elif flags & COMPLETE:
            self._settle(NO_PAYLOAD)
        # Else it is neither an item nor an end, so it means nothing.

    def receive_error(self, code: int, data: bytes) -> None:
        self._fail(stream_error(code, data, self.stream_id))

    def connection_closed(self, error: Exception) -> None:
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.discard_fragments()
        self._settle(error)

    def _settle(self, result: Payload | Exception) -> None:
        self.result = result
        self.outbound.finish(self)
        task = self.task
        if task is not None:
            self.task = None
            reschedule(task, cast("Outcome[Payload]", self))


class RequestResponseResponder(ResponderOperation):
    """Runs the handler and sends what it returns."""

    __slots__ = ()

    async def run(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        outbound = self.outbound
        try:
            response = await self.responder.request_response(self.payload)
            if not self.live:
                return
            if response is None:
                outbound.send_control(encode_payload(self.stream_id, COMPLETE, None, b""))
            elif not outbound.try_send_payload(self.stream_id, _ANSWER, response):
                await outbound.send_payload(self.stream_id, _ANSWER, response)
        except Exception as error:
            # Whatever a handler raises ends its one stream.
            self.fail(error)
        finally:
            self.scope = None
            outbound.finish(self)
