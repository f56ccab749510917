"""request_stream: one request, a stream of items (Protocol.md, "Request Stream")."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from trio.lowlevel import checkpoint

from ..errors import RemoteProtocolError, stream_error
from ..frames.cancel import encode_cancel
from ..frames.header import COMPLETE, NEXT, FrameType
from ..frames.payload import encode_payload
from ..frames.request_n import encode_request_n
from .demand import CreditGate, PayloadStream
from .operation import Handlers, Operation, Outbound, ResponderOperation

if TYPE_CHECKING:
    import trio

    from ..payload import Payload
    from ..protocol.credit import Window

__all__ = ["RequestStreamResponder", "close_iterator", "request_stream", "send_items"]

_BURST: Final = 64
"""Items sent in a row without letting another task run."""


@asynccontextmanager
async def request_stream(
    outbound: Outbound, payload: Payload, window: Window, max_window: int
) -> AsyncIterator[PayloadStream]:
    """Open a stream, close it at the end; see `rsocket_trio.Requester.request_stream`."""
    operation = _Requester(outbound, window, max_window)
    n = window.initial_request_n
    try:
        if not outbound.try_open(operation, FrameType.REQUEST_STREAM, 0, n, payload):
            await outbound.open(operation, FrameType.REQUEST_STREAM, 0, n, payload)
        yield operation.payloads
    finally:
        # Synchronous, so that CANCEL leaves from a cancelled task too.
        operation.payloads.close()


class _Requester(Operation):
    """Delivers the items to a `PayloadStream`."""

    __slots__ = ("payloads",)

    def __init__(self, outbound: Outbound, window: Window, max_window: int) -> None:
        super().__init__(outbound)
        self.payloads = PayloadStream(self, outbound, window, max_window)

    # -- from the reader of the connection --------------------------------------------------

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        if flags & NEXT or self.assembling is not None:
            try:
                payload = self.whole(flags, metadata, data)
                if payload is None:
                    return
                self.payloads.deliver(payload)
            except RemoteProtocolError as error:
                self._cancel()
                self._end(error)
                return
        if flags & COMPLETE:
            self._end(None)

    def receive_error(self, code: int, data: bytes) -> None:
        self._end(stream_error(code, data, self.stream_id))

    def connection_closed(self, error: Exception) -> None:
        self._end(error)

    def _end(self, failure: Exception | None) -> None:
        self.discard_fragments()
        self.payloads.end(failure)
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


class RequestStreamResponder(ResponderOperation):
    """Runs the handler and sends its items as the peer grants credit."""

    __slots__ = ("credit", "responder")

    def __init__(
        self,
        outbound: Outbound,
        stream_id: int,
        payload: Payload,
        responder: Handlers,
        initial_request_n: int,
    ) -> None:
        super().__init__(outbound, stream_id, payload)
        self.responder = responder
        self.credit = CreditGate(initial_request_n)

    def receive_request_n(self, n: int) -> None:
        self.credit.add(n)

    async def run(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        try:
            items = self.responder.request_stream(self.payload)
            if isinstance(items, Awaitable):
                items = await items
            await send_items(self, items, self.credit)
            if self.live:
                complete = encode_payload(self.stream_id, COMPLETE, None, b"")
                self.outbound.send_control(complete)
        except Exception as error:
            # Whatever a handler raises ends its one stream.
            self.fail(error)
        finally:
            self.scope = None
            self.outbound.finish(self)


async def send_items(
    operation: Operation, items: AsyncIterable[Payload], credit: CreditGate
) -> None:
    """Send the items of an iterable as credit and the outbox allow, at most one item ahead.

    The iterator is closed in this task, whatever happens: a generator's ``finally`` runs here.

    Raises:
        TypeError: What the handler returned is no async iterable.
        Exception: Whatever the iterable raises.
    """
    try:
        iterator = aiter(items)
    except TypeError:
        raise TypeError(
            f"a handler of a stream must return an async iterable, not {type(items).__name__}"
        ) from None
    outbound = operation.outbound
    stream_id = operation.stream_id
    burst = 0
    try:
        async for payload in iterator:
            if not credit.try_take():
                burst = 0
                if not await credit.take():
                    return
            if not operation.live:
                return
            if not outbound.try_send_payload(stream_id, NEXT, payload):
                burst = 0
                await outbound.send_payload(stream_id, NEXT, payload)
            burst += 1
            if burst == _BURST:
                burst = 0
                await checkpoint()
    finally:
        await close_iterator(iterator)


async def close_iterator(iterator: object) -> None:
    """Close a generator, a channel: whatever can be closed. Once more does no harm."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is not None:
        await cast("Awaitable[object]", aclose())
