"""request_response: one request, one response (Protocol.md, "Request Response").

This is the hottest path of the package: a requester stores its task in a slot, and the task is
resumed directly with the outcome. A responder's answer is encoded and queued without a checkpoint
if there is room. The rules are those of `rsocket_trio.protocol.legality`; they are so few that the
code has them without the table: the first PAYLOAD, ERROR or CANCEL ends the stream. A test compares
the two (tests/rules/test_legality_cells.py).
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Coroutine, Generator
from enum import Enum
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from trio.lowlevel import (
    Abort,
    checkpoint,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from ..entrance import ENDS, get_ident, not_at_home
from ..errors import RemoteProtocolError, stream_error
from ..frames.cancel import encode_cancel
from ..frames.header import COMPLETE, FOLLOWS, NEXT, FrameType
from ..frames.payload import encode_payload
from ..payload import Payload
from ..protocol.reassembly import has_payload
from .operation import Operation, Outbound, R, RequestOperation
from .stepping import step

if TYPE_CHECKING:
    import trio

    from ..streamed import AnyPayload

__all__ = ["RequestResponseResponder", "request_response"]

_TYPE: Final = FrameType.REQUEST_RESPONSE.value

_ANSWER: Final = NEXT | COMPLETE
_PART: Final = NEXT | FOLLOWS


class _Completed(Enum):
    """The result of a request that was completed without a value; ``None`` means "not yet"."""

    WITHOUT_VALUE = 0


_WITHOUT_VALUE: Final = _Completed.WITHOUT_VALUE


async def request_response(outbound: Outbound, payload: AnyPayload) -> Payload | None:
    """Send a request and wait for its response; see `rsocket_trio.Requester.request_response`."""
    if get_ident() != outbound.home.thread:  # as `Home.check`, without its call
        raise not_at_home("this requester")
    operation = _Requester(outbound)
    try:
        if not outbound.try_open(operation, _TYPE, 0, None, payload):
            try:
                await outbound.open(operation, _TYPE, 0, None, payload)
            except BaseException:  # also if cancelled between two fragments
                operation.give_up()
                raise
            if operation.result is not None:
                # The response arrived while the last fragments of the request were leaving.
                return operation.unwrap()
        operation.task = current_task()
        response: Payload | None = await wait_task_rescheduled(operation.abort)
    except ENDS:
        await checkpoint()  # an end is no answer: see `rsocket_trio.entrance`
        raise
    return response


class _Requester(Operation):
    """Waits for the response. It is also the outcome with which its caller's task is resumed.

    trio calls only `unwrap` of an outcome, and a new `outcome.Value` per request would double the
    cost of a response.
    """

    __slots__ = ("result", "task")

    def __init__(self, outbound: Outbound) -> None:
        # Without super().__init__, to save a call on the hottest path.
        self.outbound = outbound
        self.stream_id = 0
        self.assembling = None
        self.task: trio.lowlevel.Task | None = None
        self.result: Payload | Exception | _Completed | None = None

    def unwrap(self) -> Payload | None:
        """Return the response or raise the error. Only once: an error must not keep its frame."""
        result = self.result
        if isinstance(result, Payload):
            return result
        if result is _WITHOUT_VALUE:
            return None
        self.result = _WITHOUT_VALUE
        assert result is not None
        try:
            raise result
        finally:
            del result

    def abort(self, _raise_cancel: Any) -> Abort:
        """Give the request up: the caller was cancelled while it waited.

        If its scope was cancelled before the call, this comes at once. Checking for that first
        would cost time in every request, so a request that is still queued is taken back here.
        """
        self.task = None
        self.outbound.retract(self)
        self.give_up()
        return Abort.SUCCEEDED

    def give_up(self) -> None:
        """Send CANCEL if the request has left and is unanswered: the caller waits no more."""
        self.discard_fragments()
        if self.stream_id and self.result is None:
            self.outbound.send_control(encode_cancel(self.stream_id))
            self.outbound.finish(self)

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        # A PAYLOAD without COMPLETE counts as one with it (Protocol.md, "Handling the Unexpected").
        if flags & _PART == NEXT and self.assembling is None:
            # As `_settle`; without its call and its cast, 2 per cent of a request of ours.
            self.result = Payload(data, metadata)
            self.outbound.finish(self)
            task = self.task
            if task is not None:
                self.task = None
                reschedule(task, self)  # type: ignore[arg-type]  # it has `unwrap`
        elif self.assembling is not None or has_payload(flags):
            try:
                whole = self.whole(flags, metadata, data)
            except RemoteProtocolError as error:
                self.outbound.send_control(encode_cancel(self.stream_id))
                self._fail(error)
                return
            if whole is not None:
                self._settle(whole[0])
        elif flags & COMPLETE:
            self._settle(_WITHOUT_VALUE)
        # Else it is neither an item nor an end, so it is ignored.

    def receive_error(self, code: int, data: bytes) -> None:
        self._fail(stream_error(code, data, self.stream_id))

    def connection_closed(self, error: Exception) -> None:
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.discard_fragments()
        self._settle(error)

    def _settle(self, result: Payload | Exception | _Completed) -> None:
        self.result = result
        self.outbound.finish(self)
        task = self.task
        if task is not None:
            self.task = None
            reschedule(task, self)  # type: ignore[arg-type]  # it has `unwrap`


class RequestResponseResponder(RequestOperation[R]):
    """Runs the handler and sends its response."""

    __slots__ = ()

    async def work(self) -> bool:
        response = await self.responder.request_response(self.request)
        if response is not None and self.live and self.outbound.try_answer(self, response):
            return True
        await self.respond(response)
        return False

    def begin(self) -> Awaitable[object] | None:
        # Like `ResponderOperation.begin`; saves a coroutine and two calls if it does not wait.
        coroutine = self.responder.request_response(self.request)
        try:
            if type(coroutine) is CoroutineType and not coroutine.cr_suspended:
                trap = coroutine.send(None)
            else:
                coroutine, trap = step(coroutine)
        except StopIteration as done:
            response = done.value
        else:
            return self.rest(coroutine, trap)
        # Not in the clause above: what is raised here would show the answer in its traceback.
        if not self.live:
            self.outbound.finish(self)
        elif response is None:
            self._complete()
            self.outbound.finish(self)
        elif not self.outbound.try_answer(self, response):
            return self.respond(response)
        return None

    @types.coroutine
    def rest(
        self, coroutine: Coroutine[Any, Any, AnyPayload | None], trap: object
    ) -> Generator[Any, Any, bool]:
        """Await the rest of a coroutine that `step` has begun, and respond.

        Returns:
            Whether the stream is finished, so that `close` is not needed.
        """
        # Like `go_on`, but without a coroutine around it.
        try:
            while True:
                try:
                    value = yield trap
                except BaseException as error:  # as `yield from` does
                    trap = coroutine.throw(error)
                else:
                    try:
                        trap = coroutine.send(value)
                    finally:
                        del value  # no cycle: see `go_on`
        except StopIteration as done:
            response = done.value
        if response is not None and self.live and self.outbound.try_answer(self, response):
            return True
        yield from self.respond(response).__await__()
        return False

    async def respond(self, response: AnyPayload | None) -> None:
        """Send the response of the handler, as room allows."""
        if not self.live:
            return
        if response is None:
            self._complete()
        elif not self.outbound.try_send_payload(self.stream_id, _ANSWER, response):
            await self.outbound.send_payload(self.stream_id, _ANSWER, response)

    def _complete(self) -> None:
        self.outbound.send_control(encode_payload(self.stream_id, COMPLETE, None, b""))
