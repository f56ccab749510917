"""Send payloads whose data come in chunks: `BodySender`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint

from ..account import ITEM_COST
from ..entrance import over
from ..interactions.operation import IN_A_ROW, ResponderOperation
from ..interactions.sending import ENDED, begin, throw_into
from ..reactive_streams.iterating import close_iterator
from .sendable import check_size, take_answer

if TYPE_CHECKING:
    from ..account import Account
    from ..interactions.operation import Operation
    from ..protocol.body_fragments import BodyFragments
    from ..streamed import StreamedPayload
    from .admission import Admission
    from .outbox import Outbox
    from .stream_table import StreamTable

__all__ = ["BodySender"]

_WENT_ON: Final = (
    "the timeout of a source of chunks ended the wait of a chunk, and the source went on: it may "
    "only end then, or the data would have a hole"
)


class BodySender:
    """Sends fragments while chunks come, and stops when the peer does not want more.

    Around each source there is a cancel scope, in `StreamTable.sources` once its stream is open.

    An error while a chunk waits to leave, for example a cancellation, is raised at the ``yield`` of
    the source. So a timeout around the ``yield`` works as usual: if the source ends then, its last
    chunk is sent all the same.
    """

    def __init__(
        self,
        table: StreamTable,
        outbox: Outbox,
        admission: Admission,
        answers: Account,
        fragment_size: int,
    ) -> None:
        self._unopened: set[trio.CancelScope] = set()  # around sources whose stream is not open yet
        self._table = table
        self._outbox = outbox
        self._admission = admission
        self._answers = answers
        self._fragment_size = fragment_size

    def stop(self) -> None:
        """Cancel the wait for every source, because the connection is over."""
        for scope in [*self._table.sources.values(), *self._unopened]:
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
            Canceled: It answers the peer, and too many bytes wait for room already.
            TypeError: What comes is no bytes, or no async iterable.
            RuntimeError: It has been iterated already; or it went on behind a chunk that its own
                timeout kept from leaving.
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
            held = 0
            if fragments.ready and isinstance(operation, ResponderOperation):
                held = fragments.size + ITEM_COST
                take_answer(self._answers, operation, held)
            try:
                return await send_all()
            finally:
                self._answers.give_back(held)

        async def send_all() -> bool:
            nonlocal opened, sent
            while fragments.ready:
                room = self._fragment_size if at_most is None else size
                if opened or enter is None:
                    await self._outbox.reserve(room)
                else:
                    await self._admission.wait(room)
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
                    self._unopened.discard(scope)
                    self._table.sources[operation.stream_id] = scope
                if self._table.operations.get(operation.stream_id) is not operation:
                    self._outbox.release(room)
                    return False  # answered, or over, before it was whole
                self._outbox.put_reserved(fragments.next())
                sent = True
            return True

        self._unopened.add(scope)
        try:
            with scope:
                try:
                    check_size(size, at_most)
                    async for chunk in source:
                        if not isinstance(chunk, bytes | bytearray | memoryview):
                            raise TypeError(f"a chunk must be bytes, not {type(chunk).__name__}")
                        size += memoryview(chunk).nbytes
                        check_size(size, at_most)
                        fragments.add(chunk)
                        del chunk
                        try:
                            if not await send_ready():
                                return
                            burst += 1
                            if burst == IN_A_ROW:
                                burst = 0
                                await checkpoint()
                        except BaseException as error:  # also a cancellation; the source gets it
                            if await throw_into(source, error) is ENDED:
                                break  # its own timeout has ended it: this chunk is the last one
                            if scope.cancel_called:
                                return
                            if not isinstance(error, trio.Cancelled):
                                raise
                            raise RuntimeError(_WENT_ON) from None
                    fragments.end()
                    await send_ready()
                    whole = True
                finally:
                    # In its scope: one that the source has around a `yield` is within.
                    await close_iterator(source)
        finally:
            if sent and not whole:
                operation.cut_short()
            self._unopened.discard(scope)
            if self._table.sources.get(operation.stream_id) is scope:
                del self._table.sources[operation.stream_id]
        if scope.cancelled_caught and self._table.failure is not None:
            await over(self._table.failure)
