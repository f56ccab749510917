"""Handlers, up to their first wait: `FirstSteps`.

Most handlers end without waiting, so one step of their coroutine gives the answer. The handler of a
request_response is run right where its frame is dispatched; then there has been no operation, no
entry in the table of streams, no queue. All other requests, and those behind others that wait, go
through the queue of the crew: requests begin in the order of their arrival.

A handler that waits becomes an operation at its first wait. The task that reads stays with this
handler, and another one dispatches the rest of what was read (`rsocket_trio.connection.crew`). trio
must learn of the wait before anything else happens: a frame may end it, and a task that trio does
not know to wait must not be woken. What is run in a row is limited in number and in time.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Final

from ..frames.header import COMPLETE, HEADER, NEXT, FrameType
from ..frames.payload import encode_payload
from ..interactions.operation import IN_A_ROW
from ..interactions.request_response import RequestResponseResponder
from ..interactions.stepping import step
from ..payload import Payload
from .shift import AT_ONCE, BURST_SECONDS, LOOK, differ, settle

if TYPE_CHECKING:
    import trio

    from ..interactions.operation import Handlers
    from .crew import Crew
    from .outbox import Outbox
    from .reader import Reader
    from .shift import Shift
    from .streams import Streams

__all__ = ["FirstSteps"]

_ANSWER: Final = NEXT | COMPLETE
_ANSWER_HEAD: Final = FrameType.PAYLOAD.value << 10 | _ANSWER
_pack: Final = HEADER.pack
_copy_context: Final = contextvars.copy_context


class FirstSteps:
    """Runs handlers by one step each, in the task that calls it.

    Attributes:
        responder: Whose they are; set once the connection is accepted.
        left: Requests of this read that may still be run. The crew sets it for the time of a read.
        count: Requests that have been run since the crew looked.
        clean: The context of a task that has run no handler.
        dirty: A handler has changed the context of the task that reads.
        operation: The request that waits in it now, if one does.
        rest: Its rest, to be awaited in that task.
        reader: What has to pause where another task goes on. The crew sets it.
    """

    __slots__ = (
        "_crew",
        "_end",
        "_outbox",
        "_room",
        "_streams",
        "_whole",
        "clean",
        "count",
        "dirty",
        "left",
        "operation",
        "reader",
        "responder",
        "rest",
    )

    responder: Handlers
    reader: Reader

    def __init__(self, streams: Streams, outbox: Outbox, crew: Crew) -> None:
        self._streams = streams
        self._whole = streams.whole
        self._outbox = outbox
        self._room = outbox.room
        self._crew = crew
        self._end = 0.0
        self.count = 0
        self.left = 0
        self.clean = contextvars.Context()
        self.dirty = False
        self.operation: RequestResponseResponder[Payload] | None = None
        self.rest: Awaitable[object] | None = None

    def run(self, stream_id: int, payload: Payload, size: int) -> bool:
        """Run a handler up to its first wait, where that is possible now.

        Args:
            stream_id: Of a request that is taken on.
            payload: The request.
            size: Its bytes.

        Returns:
            Whether it was; if not, the request belongs in the queue.

        Raises:
            KeyboardInterrupt: And its like, out of a handler.
        """
        room = self._room
        outbox = self._outbox
        # What the same read has brought before it begins first; or its answer would have to wait.
        if (
            self._crew.queue
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
        crew = self._crew
        crew.active += 1  # for what the handler may do: begin to drain the connection, say
        streams = self._streams
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
                operation = self._operation(stream_id, payload, size)
                self.rest = operation.rest(coroutine, trap)
                return True
            # Not in the clause above: what is raised here would show the answer in its traceback.
            if (
                type(response) is Payload
                and response.metadata is None
                and type(response.data) is bytes
                and len(response.data) <= self._whole
                and room.used < room.limit
                and streams.failure is None
            ):
                # As `Streams.try_send_payload`, without its call.
                outbox.put(_pack(stream_id, _ANSWER_HEAD) + response.data)
            elif response is None:
                streams.send_control(encode_payload(stream_id, COMPLETE, None, b""))
            elif streams.failure is None and not streams.try_send_payload(
                stream_id, _ANSWER, response
            ):
                operation = self._operation(stream_id, payload, size)
                self.rest = operation.respond(response)
                return True
        except BaseException as error:
            self._failed(stream_id, payload, error)
        crew.active -= 1
        if crew.on_done is not None:
            crew.on_done()
        now = _copy_context()
        clean = self.clean
        # As `differ`, without its call where there is nothing to compare.
        if differ(now, clean) if clean else now:
            self.dirty = True
            self.left = 0
            self.reader.pause()
        return True

    def run_queued(
        self, shift: Shift, scope: trio.CancelScope, *, due: bool
    ) -> Awaitable[object] | None:
        """Run the requests that wait in the queue, by one step each.

        Args:
            shift: Counts them, and holds the one that waits.
            scope: Of this task; the one that waits gets hold of it.
            due: The first may begin although the outbox is full.

        Returns:
            The rest of the request that waits now; ``None``: there are no more, or it is time
            for others.
        """
        clean = shift.clean
        crew = self._crew
        queue = crew.queue
        outbox = self._outbox
        room = outbox.room
        until = 0.0
        served = 0
        while queue and not crew.over:
            if room.used >= room.limit or outbox.control_size > outbox.max_control_size:
                if not due:
                    break
                due = False
            operation = queue.popleft()
            if operation.live:
                try:
                    rest = operation.begin()
                except BaseException as error:
                    settle(operation, error)
                else:
                    if rest is not None:
                        # Its first wait: task and scope are its own from here on.
                        shift.served += served + 1
                        shift.operation = operation
                        operation.attach(scope)
                        return rest
            crew.active -= 1
            crew.size -= operation.size
            if crew.on_done is not None:
                crew.on_done()
            now = _copy_context()
            # As `differ`, without its call where there is nothing to compare.
            if differ(now, clean) if clean else now:
                break
            served += 1
            if not served & LOOK:
                time = perf_counter()
                if served >= IN_A_ROW or (until and time > until):
                    break
                until = until or time + BURST_SECONDS
        shift.served += served
        return None

    def hand_out(self, shift: Shift, scope: trio.CancelScope) -> Awaitable[object] | None:
        """What waits now is of the task that calls this, and of its scope; see `run_queued`."""
        operation, rest = self.operation, self.rest
        self.operation = self.rest = None
        if operation is not None:
            shift.operation = operation
            operation.attach(scope)
        return rest

    def _operation(
        self, stream_id: int, payload: Payload, size: int
    ) -> RequestResponseResponder[Payload]:
        """The request waits: it becomes an operation, and the next ones are for the queue."""
        self.left = 0
        self.reader.pause()
        streams = self._streams
        operation = RequestResponseResponder(streams, stream_id, payload, self.responder)
        operation.size = size
        self._crew.size += size
        self.operation = operation
        if streams.failure is None:
            streams.table[stream_id] = operation
        else:
            operation.live = False  # the handler has ended the connection
        return operation

    def _failed(self, stream_id: int, payload: Payload, error: BaseException) -> None:
        streams = self._streams
        operation = RequestResponseResponder(streams, stream_id, payload, self.responder)
        operation.live = streams.failure is None
        settle(operation, error)
