"""The streams of a connection, by their ids: `StreamTable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import fresh_copy
from ..protocol.stream_ids import StreamIds

if TYPE_CHECKING:
    import trio

    from ..interactions.operation import Operation

__all__ = ["StreamTable"]


class StreamTable:
    """Knows the operation of each stream id, and ends one stream or all of them.

    Attributes:
        operations: Stream id to operation, the streams of both sides.
        ids: The ids of our own requests.
        sources: Stream id to the cancel scope around a source of chunks
            (`rsocket_trio.connection.body_sender`). `finish` cancels it, because nothing else would
            wake a task that waits for its next chunk.
        failure: Why the connection is over, or ``None`` while it is not.
        on_forgotten: Called each time a stream has ended. The connection sets it while it drains.
    """

    def __init__(self, *, client: bool) -> None:
        self.operations: dict[int, Operation] = {}
        self.ids = StreamIds(client)
        self.sources: dict[int, trio.CancelScope] = {}
        self.failure: Exception | None = None
        self.on_forgotten: Callable[[], None] | None = None
        self._unopened: set[Operation] = set()

    def enter(self, operation: Operation) -> int:
        """Give a stream of ours its id, and enter it.

        Raises:
            LocalProtocolError: There is no id left.
        """
        stream_id = operation.stream_id = self.ids.next(self.operations)
        self.operations[stream_id] = operation
        return stream_id

    def retract(self, operation: Operation) -> None:
        """Forget a stream whose request has not left; the next request has its id.

        Its id must be the last one that was taken.
        """
        self.ids.give_back(operation.stream_id)
        self.finish(operation)
        operation.stream_id = 0

    def finish(self, operation: Operation) -> None:
        """Forget a stream that is over; see `Outbound.finish`."""
        stream_id = operation.stream_id
        if self.operations.get(stream_id) is operation:
            del self.operations[stream_id]
            if self.sources and stream_id in self.sources:
                self.sources[stream_id].cancel(reason="the stream is over")
            if self.on_forgotten is not None:
                self.on_forgotten()

    def add_unopened(self, operation: Operation) -> None:
        """See `Outbound.add_unopened`."""
        if self.failure is not None:
            operation.connection_closed(fresh_copy(self.failure))
        else:
            self._unopened.add(operation)

    def remove_unopened(self, operation: Operation) -> None:
        """See `Outbound.remove_unopened`."""
        self._unopened.discard(operation)

    def end(self, error: Exception, _last_words: bytes | None) -> None:
        """Tell every operation that the connection is over, and forget all of them."""
        self.failure = error
        operations = [*self.operations.values(), *self._unopened]
        self.operations.clear()
        self._unopened.clear()
        for operation in operations:
            operation.connection_closed(fresh_copy(error))
