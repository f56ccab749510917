"""Run the handlers of unary calls where their requests are dispatched: `CallSteps`.

Most handlers end without waiting, so one step of their coroutine gives the answer. Then the call
needs no object, no entry in the table and no queue. See
`rsocket_trio.connection.first_steps.FirstSteps`, which does the same for RSocket.
"""

from __future__ import annotations

from math import inf
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ...connection.queued_steps import QueuedSteps
from ...connection.shift import AT_ONCE, BURST_SECONDS, LOOK, settle
from ...interactions.stepping import go_on, step
from .calls import UnaryCall
from .outcomes import note_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ...connection.outbox import Outbox
    from ...connection.workload import Workload
    from .bound import ServedMethod
    from .call import Call
    from .incoming import IncomingCalls
    from .replies import Replies

__all__ = ["CallSteps"]


class CallSteps(QueuedSteps):
    """Runs handlers by one step each, in the task that calls it."""

    __slots__ = ("_end", "_incoming", "_replies")

    def __init__(
        self, incoming: IncomingCalls, replies: Replies, outbox: Outbox, workload: Workload
    ) -> None:
        super().__init__(outbox, workload)
        self._incoming = incoming
        self._replies = replies
        self._end = 0.0

    def run(
        self, stream_id: int, method: ServedMethod, request: Any, facts: Call | None, size: int
    ) -> bool:
        """Run the handler of a unary call up to its first wait, if that is possible now.

        Returns:
            Whether the handler ran; if not, the call belongs in the queue.

        Raises:
            KeyboardInterrupt: Or another `BaseException` that a handler raised.
        """
        room = self._room
        outbox = self._outbox
        workload = self._workload
        # Earlier calls of the same read begin first; or the answer would have to wait.
        if (
            workload.queue
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
        workload.active += 1  # because the handler may, for example, stop the server
        incoming = self._incoming
        try:
            coroutine = method.start(request, facts)
            try:
                if type(coroutine) is CoroutineType and not coroutine.cr_suspended:
                    trap = coroutine.send(None)
                else:
                    coroutine, trap = step(coroutine)
            except StopIteration as done:
                reply = done.value
            else:
                call = self._make_call(stream_id, method, facts, size)
                self.rest = _rest(call, go_on(coroutine, trap))
                return True
            # Not in the clause above: what is raised here would show the answer in its traceback.
            if not incoming.over:
                try:
                    body = method.encode(reply)
                except Exception as error:  # to be raised again, with a note
                    note_answer(error, method.path, reply)
                    raise
                frame = self._replies.frame(stream_id, body)
                if room.used < room.limit:
                    outbox.put(frame)
                else:
                    call = self._make_call(stream_id, method, facts, size)
                    self.rest = _send(call, frame)
                    return True
        except BaseException as error:  # any error of a handler ends its call
            call = UnaryCall(incoming, stream_id, method, None, facts, inf)
            call.live = not incoming.over
            settle(call, error)
        workload.active -= 1
        if workload.on_done is not None:
            workload.on_done()
        if self.shift.changed():
            self.dirty = True
            self.left = 0
            self.reader.pause()
        return True

    def _make_call(
        self, stream_id: int, method: ServedMethod, facts: Call | None, size: int
    ) -> UnaryCall:
        """Make an object of the call that waits; the next calls go to the queue."""
        self.left = 0
        self.reader.pause()
        call = UnaryCall(self._incoming, stream_id, method, None, facts, inf)
        call.size = size
        self._workload.account.held += size
        self.operation = call
        if self._incoming.over:
            call.live = False  # the handler has ended the connection
        else:
            self._incoming.calls[stream_id] = call
        return call


async def _rest(call: UnaryCall, handler: Awaitable[Any]) -> None:
    """Await the rest of a handler, and send its answer."""
    reply = await handler
    if call.live:
        frame = call.frame(reply)
        del reply  # thousands of calls may wait for room, each with its answer
        await call.respond(frame)


async def _send(call: UnaryCall, frame: bytes) -> None:
    await call.incoming.replies.send(call, frame)
    call.live = False
