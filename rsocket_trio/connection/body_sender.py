"""Payloads whose data come in chunks, on their way out: `BodySender`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import checkpoint

from ..errors import LocalProtocolError, fresh_copy
from ..interactions.operation import IN_A_ROW
from ..interactions.sending import begin, close_iterator

if TYPE_CHECKING:
    from ..interactions.operation import Operation
    from ..protocol.body_fragments import BodyFragments
    from ..streamed import StreamedPayload
    from .outbox import Outbox
    from .streams import Streams

__all__ = ["BodySender", "check_whole"]


def check_whole(size: int, at_most: int | None) -> None:
    """Refuse a request for a wire whose requests have no fragments.

    Raises:
        LocalProtocolError: It is larger than a frame can be.
    """
    if at_most is not None and size > at_most:
        raise LocalProtocolError(
            f"a request of {size} bytes or more is too large: the ReactiveSocket draft has no "
            f"fragments of requests, and a frame has room for {at_most} bytes "
            "(Limits.max_frame_size); send it through a request_channel"
        )


class BodySender:
    """Sends fragments while chunks come, and stops where nobody wants them any more.

    Attributes:
        scopes: By stream id, the cancel scope around a source that may be waiting for its next
            chunk. `Streams` cancels it when the stream is over: nobody else would wake the task.
            Those whose stream is not open yet are in ``unopened``.
    """

    def __init__(self, streams: Streams, outbox: Outbox, fragment_size: int) -> None:
        self.scopes: dict[int, trio.CancelScope] = {}
        self.unopened: set[trio.CancelScope] = set()
        self._streams = streams
        self._outbox = outbox
        self._fragment_size = fragment_size

    def stop(self) -> None:
        """The connection is over: no source is waited for any longer."""
        for scope in [*self.scopes.values(), *self.unopened]:
            scope.cancel(reason="the connection is over")

    async def send(
        self,
        operation: Operation,
        body: StreamedPayload,
        fragments: BodyFragments,
        enter: Callable[[Operation], object] | None = None,
        at_most: int | None = None,
    ) -> None:
        """Send a payload, to its end or to that of its stream.

        Args:
            operation: The stream's.
            body: The payload.
            fragments: Where its chunks become frames.
            enter: Opens the stream, right before the first frame is queued; ``None`` where it is
                open.
            at_most: Its bytes, where the wire has no fragments of it: then it is put together here,
                before room is looked for.

        Raises:
            ConnectionClosed: The connection is over.
            LocalProtocolError: There are more than ``at_most``.
            TypeError: What comes is no bytes, or no async iterable.
            RuntimeError: It has been iterated already.
            Exception: What the source raised.

        Checkpoint: where the source has one, where there is no room, and every 64 chunks at least.
        If cancelled: fragments may have left; the stream is good only for ending.
        """
        if not hasattr(body.data, "__aiter__"):
            raise TypeError(
                "a StreamedPayload needs an async iterable of bytes, not "
                f"{type(body.data).__name__}; for bytes there is Payload"
            )
        source = begin(body.data)
        size = len(body.metadata or b"")
        scope = trio.CancelScope()
        opened = sent = whole = False
        burst = 0

        async def send_ready() -> bool:
            nonlocal opened, sent
            while fragments.ready:
                room = self._fragment_size if at_most is None else size
                if opened or enter is None:
                    await self._outbox.reserve(room)
                else:
                    await self._streams.admission.wait(room)
                if not opened:
                    # No checkpoint from here to the queueing of the frame: ids leave in order.
                    try:
                        if enter is not None:
                            enter(operation)
                    except BaseException:
                        self._outbox.release(room)
                        raise
                    opened = True
                    fragments.stream_id = operation.stream_id
                    self.unopened.discard(scope)
                    self.scopes[operation.stream_id] = scope
                if self._streams.table.get(operation.stream_id) is not operation:
                    self._outbox.release(room)
                    return False  # answered, or over, before it was whole
                self._outbox.put_reserved(fragments.next())
                sent = True
            return True

        self.unopened.add(scope)
        try:
            with scope:
                check_whole(size, at_most)
                async for chunk in source:
                    if not isinstance(chunk, bytes | bytearray | memoryview):
                        raise TypeError(f"a chunk must be bytes, not {type(chunk).__name__}")
                    size += memoryview(chunk).nbytes
                    check_whole(size, at_most)
                    fragments.add(chunk)
                    if not await send_ready():
                        return
                    burst += 1
                    if burst == IN_A_ROW:
                        burst = 0
                        await checkpoint()
                fragments.end()
                await send_ready()
                whole = True
        finally:
            if sent and not whole:
                operation.cut_short()
            self.unopened.discard(scope)
            if self.scopes.get(operation.stream_id) is scope:
                del self.scopes[operation.stream_id]
            await close_iterator(source)
        if scope.cancelled_caught and self._streams.failure is not None:
            raise fresh_copy(self._streams.failure)
