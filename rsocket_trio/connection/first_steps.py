"""Run handlers up to their first wait: `FirstSteps`.

Most handlers end without waiting, so one step of their coroutine gives the answer. The handler of a
request_response runs where its frame is dispatched. If it ends there, the request needs no
operation, no entry in the table of streams and no queue. All other requests go through the queue
of the crew. So does a request_response behind queued requests: requests begin in the order of their
arrival.

A handler that waits becomes an operation at its first wait. The task that reads stays with this
handler, and another task dispatches the rest of what was read (`rsocket_trio.connection.crew`).
trio must learn of the wait before anything else happens: a frame may end the wait, and a task that
trio does not know to wait must not be woken. The number of handlers run in a row, and their time,
are limited.
"""

from __future__ import annotations

from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Final

from ..frames.header import COMPLETE, HEADER, NEXT, FrameType
from ..frames.payload import encode_payload
from ..interactions.request_response import RequestResponseResponder
from ..interactions.stepping import step
from ..payload import Payload
from .queued_steps import QueuedSteps
from .shift import AT_ONCE, BURST_SECONDS, LOOK, settle

if TYPE_CHECKING:
    from ..interactions.operation import Handlers
    from .outbox import Outbox
    from .stream_sender import StreamSender
    from .stream_table import StreamTable
    from .workload import Workload

__all__ = ["FirstSteps"]

_ANSWER: Final = NEXT | COMPLETE
_ANSWER_HEAD: Final = FrameType.PAYLOAD.value << 10 | _ANSWER
_pack: Final = HEADER.pack


class FirstSteps(QueuedSteps):
    """Runs handlers of request_response where their requests are dispatched.

    Attributes:
        responder: Has the handlers; set once the connection is accepted.
    """

    __slots__ = ("_end", "_max_whole", "_sender", "_table", "responder")

    responder: Handlers

    def __init__(
        self, table: StreamTable, sender: StreamSender, outbox: Outbox, workload: Workload
    ) -> None:
        super().__init__(outbox, workload)
        self._table = table
        self._sender = sender
        self._max_whole = sender.max_whole
        self._end = 0.0

    def run(self, stream_id: int, payload: Payload, size: int) -> bool:
        """Run the handler of a request_response up to its first wait, if that is possible now.

        Args:
            stream_id: The stream of the request, which is accepted.
            payload: The request.
            size: The bytes of the payload.

        Returns:
            Whether the handler ran; if not, the request belongs in the queue.

        Raises:
            KeyboardInterrupt: Or another `BaseException` that a handler raised.
        """
        room = self._room
        outbox = self._outbox
        # Earlier requests of the same read begin first; or the answer would have to wait.
        if (
            self._workload.queue
            or room.used >= room.limit
            or outbox.control_size > outbox.max_control_size
        ):
            self.left = 0
            return False
        left = self.left
        if not left & LOOK:
            time = perf_counter()
            if left == AT_ONCE:
                self._end = time + BURST_SECONDS
            elif time > self._end:
                self.left = 0
                return False
        self.left = left - 1
        self.count += 1
        workload = self._workload
        workload.active += 1  # because the handler may, for example, drain the connection
        sender = self._sender
        table = self._table
        try:
            coroutine = self.responder.request_response(payload)
            try:
                if type(coroutine) is CoroutineType and not coroutine.cr_suspended:
                    trap = coroutine.send(None)
                else:
                    coroutine, trap = step(coroutine)
            except StopIteration as done:
                response = done.value
            else:
                operation = self._make_operation(stream_id, payload, size)
                self.rest = operation.rest(coroutine, trap)
                return True
            # Not in the clause above: what is raised here would show the answer in its traceback.
            if (
                type(response) is Payload
                and response.metadata is None
                and type(response.data) is bytes
                and len(response.data) <= self._max_whole
                and room.used < room.limit
                and table.failure is None
            ):
                # Does the same as `StreamSender.try_send_payload`, but saves the call.
                outbox.put(_pack(stream_id, _ANSWER_HEAD) + response.data)
            elif response is None:
                sender.send_control(encode_payload(stream_id, COMPLETE, None, b""))
            elif table.failure is None and not sender.try_send_payload(
                stream_id, _ANSWER, response
            ):
                operation = self._make_operation(stream_id, payload, size)
                self.rest = operation.respond(response)
                return True
        except BaseException as error:  # any error of a handler ends its stream
            self._failed(stream_id, payload, error)
        workload.active -= 1
        if workload.on_done is not None:
            workload.on_done()
        if self.shift.changed():
            self.dirty = True
            self.left = 0
            self.reader.pause()
        return True

    def _make_operation(
        self, stream_id: int, payload: Payload, size: int
    ) -> RequestResponseResponder[Payload]:
        """Make the request that waits an operation; the next requests go to the queue."""
        self.left = 0
        self.reader.pause()
        operation = RequestResponseResponder(self._sender, stream_id, payload, self.responder)
        operation.size = size
        self._workload.account.held += size
        self.operation = operation
        if self._table.failure is None:
            self._table.operations[stream_id] = operation
        else:
            operation.live = False  # the handler has ended the connection
        return operation

    def _failed(self, stream_id: int, payload: Payload, error: BaseException) -> None:
        operation = RequestResponseResponder(self._sender, stream_id, payload, self.responder)
        operation.live = self._table.failure is None
        settle(operation, error)
