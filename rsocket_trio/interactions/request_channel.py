"""request_channel: a stream of payloads each way (Protocol.md, "Request Channel").

Two halves, each with its own credit, that complete one by one: the stream ends when both have,
on an ERROR from either side, or on the requester's CANCEL. The responder's CANCEL stops the
requester's half only. `rsocket_trio.protocol.legality` is the judge of every frame.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from ..errors import Canceled, RemoteProtocolError, RSocketError, sole, stream_error
from ..frames.cancel import encode_cancel
from ..frames.error import encode_error
from ..frames.header import COMPLETE, FOLLOWS, NEXT, FrameType
from ..frames.payload import encode_payload
from ..frames.request_n import encode_request_n
from ..payload import Payload
from ..protocol.frame_rules import payload_event
from ..protocol.legality import Event, Interaction, Side
from ..protocol.stream_state import StreamState
from .credit_gate import CreditGate
from .demand import PayloadStream
from .operation import Handlers, Operation, Outbound, ResponderOperation, answer_to
from .sending import close_iterator, send_items

if TYPE_CHECKING:
    from ..protocol.credit import Window
    from ..streamed import AnyPayload

__all__ = ["RequestChannelResponder", "request_channel"]

_TYPE: Final = FrameType.REQUEST_CHANNEL.value
_PART: Final = NEXT | FOLLOWS
_CHANNEL: Final = Interaction.REQUEST_CHANNEL


class _ChannelOperation(Operation):
    """What requester and responder have in common: they differ in who may end what.

    Attributes:
        state: Which halves are open.
        credit: What the peer granted us.
        payloads: What the peer sends.
    """

    __slots__ = ()

    state: StreamState
    credit: CreditGate
    payloads: PayloadStream

    @abstractmethod
    def stop_sending(self, reason: str) -> None:
        """The peer wants no more of our half."""

    # -- from the reader of the connection --------------------------------------------------

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        whole: Payload | None = None
        try:
            if flags & _PART == NEXT and self.assembling is None:
                # What nearly every item is, without a call more.
                whole = Payload(data, metadata)
            elif flags & NEXT or self.assembling is not None:
                whole = self.whole(flags, metadata, data)
                if whole is None:
                    return
            event = payload_event(flags, reassembled=whole is not None)
            if event is None or not self.state.receive(event):
                return
            if whole is not None:
                self.payloads.deliver(whole)
        except RemoteProtocolError as error:
            error.__traceback__ = None  # it would keep the item alive for as long as the error
            self.reject(error)
            return
        if flags & COMPLETE:
            self.payloads.end()
            self.settle()

    def receive_request_n(self, n: int) -> None:
        if self.state.receive(Event.REQUEST_N):
            self.credit.add(n)

    def receive_error(self, code: int, data: bytes) -> None:
        if self.state.receive(Event.ERROR):
            error = stream_error(code, data, self.stream_id)
            self.quit(error)
            self.stop_sending(f"the peer sent ERROR: {error}")

    # -- from our own side ------------------------------------------------------------------

    def grant(self, n: int) -> None:
        if self.stream_id and self.state.may_send(Event.SEND_REQUEST_N):
            self.outbound.send_control(encode_request_n(self.stream_id, n))

    def abandon(self) -> None:
        self.discard_fragments()
        self.send_cancel()

    def send_complete(self) -> None:
        """Our half is done."""
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
        """The peer broke the rules on this stream: it ends, the connection lives."""
        if self.state.may_send(Event.SEND_ERROR):
            self.send_error(encode_error(self.stream_id, error.code, str(error).encode()), error)
        else:
            # Our half is complete: what is left to say is that we want no more.
            self.payloads.end(error)
            self.send_cancel()
            self.quit(error)
        self.stop_sending(str(error))

    def settle(self) -> None:
        """Forget the id once both halves are over."""
        if self.state.closed:
            self.quit(None)

    def quit(self, failure: Exception | None) -> None:
        """The stream is over now."""
        self.live = False
        self.discard_fragments()
        self.credit.close()
        self.payloads.end(failure)
        self.outbound.finish(self)


class _Requester(_ChannelOperation):
    """Sends the items of a source, and delivers what comes back to a `PayloadStream`."""

    __slots__ = ("credit", "left", "payloads", "pump_scope", "source_error", "state")

    def __init__(self, outbound: Outbound, window: Window, max_window: int) -> None:
        super().__init__(outbound)
        self.state = StreamState(_CHANNEL, Side.REQUESTER)
        self.credit = CreditGate(0)
        self.payloads = PayloadStream(self, outbound, window, max_window)
        self.source_error: Exception | None = None
        self.pump_scope = trio.CancelScope()
        self.left = False

    def receive_cancel(self) -> None:
        if self.state.receive(Event.CANCEL):
            self.stop_sending("the responder wants no more items (CANCEL)")
            self.settle()

    def connection_closed(self, error: Exception) -> None:
        self.quit(error)
        self.stop_sending(str(error))

    def stop_sending(self, reason: str) -> None:
        self.live = False
        self.credit.close()
        self.pump_scope.cancel(reason=reason)

    def leave(self) -> None:
        """The block is over. Closing is final: a source that is still running is stopped."""
        self.left = True
        self.payloads.close()
        self.send_cancel()
        self.stop_sending("the request_channel block was left")

    async def pump(
        self,
        source: AsyncIterable[AnyPayload] | Iterable[AnyPayload],
        first: AnyPayload | None,
        route: Callable[[AnyPayload], AnyPayload],
        body: trio.CancelScope,
    ) -> None:
        """Send the source. What it raises ends the channel, and the body with it."""
        with self.pump_scope:
            try:
                items = aiter(source if isinstance(source, AsyncIterable) else _iterate(source))
                try:
                    await self._send(items, first, route)
                finally:
                    # Also where the channel was never opened, or not for long.
                    await close_iterator(items)
            except Exception as error:
                # Whatever the user's source raises must reach the user, and end the stream.
                if not self.live:
                    return
                self.source_error = error
                at_most = self.outbound.max_frame_size
                self.send_error(answer_to(error, self.stream_id, at_most, quiet=True), error)
                body.cancel(reason="the source of the channel failed")

    def abandoned(self) -> bool:
        """Whether the block has been left, which can happen at any checkpoint."""
        return self.left

    async def _send(
        self,
        items: AsyncIterator[AnyPayload],
        first: AnyPayload | None,
        route: Callable[[AnyPayload], AnyPayload],
    ) -> None:
        if first is None:
            # A source may take its time; who reads the replies learns at once that none will come.
            self.outbound.expect(self)
            try:
                first = await anext(items)
            except StopAsyncIteration:
                # Nothing to say is a channel that never was: REQUEST_CHANNEL carries an item.
                self.quit(None)
                return
            finally:
                self.outbound.expected(self)
        if not self.live:
            return  # a source that never waits does not notice that it is cancelled
        n = self.payloads.initial_request_n
        try:
            payload = route(first)
            if not self.outbound.try_open(self, _TYPE, 0, n, payload):
                await self.outbound.open(self, _TYPE, 0, n, payload)
        except (RSocketError, trio.ClosedResourceError) as error:
            # Not the source's fault: the reader of the replies is told.
            self.quit(error)
            return
        if self.abandoned():
            self.send_cancel()  # while the request waited for room it could not be cancelled
            return
        await send_items(self, items, self.credit)
        if self.live:
            self.send_complete()


async def _iterate(source: Iterable[AnyPayload]) -> AsyncIterator[AnyPayload]:
    """A plain iterable as a source; `send_items` lets other tasks run between the items."""
    for payload in source:
        yield payload


@asynccontextmanager
async def request_channel(
    outbound: Outbound,
    source: AsyncIterable[AnyPayload] | Iterable[AnyPayload],
    first: AnyPayload | None,
    route: Callable[[AnyPayload], AnyPayload],
    window: Window,
    max_window: int,
) -> AsyncIterator[PayloadStream]:
    """Open a channel; see `rsocket_trio.Requester.request_channel`.

    The source is pumped by a task of this block. What the source raises goes to the peer as an
    ERROR and comes out of the block as itself; so does what the body raises: never in a group.
    """
    channel = _Requester(outbound, window, max_window)
    body_error: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.pump, source, first, route, nursery.cancel_scope)
            try:
                yield channel.payloads
            except Exception as error:
                # Kept out of the nursery, so that it is never grouped; raised below.
                body_error = error
            except trio.Cancelled:
                raise
            except BaseException as error:
                # Not to be kept from what it ends; but it is not grouped either.
                body_error = error
                raise
            finally:
                # Synchronous, so that CANCEL leaves from a cancelled task too.
                channel.leave()
    except trio.Cancelled:
        if body_error is not None:
            raise body_error from None  # an error is not lost to a cancellation while closing
        raise
    except BaseExceptionGroup as group:
        if body_error is None or sole(group) is not sole(body_error):
            raise
    if body_error is not None:
        raise body_error
    if channel.source_error is not None:
        raise channel.source_error


class RequestChannelResponder(_ChannelOperation, ResponderOperation):
    """Runs the handler: the peer's items in, its own items out."""

    __slots__ = ("complete", "credit", "payloads", "state")

    def __init__(
        self,
        outbound: Outbound,
        stream_id: int,
        payload: Payload,
        responder: Handlers,
        initial_request_n: int,
        *,
        complete: bool,
        window: Window,
        max_window: int,
    ) -> None:
        ResponderOperation.__init__(self, outbound, stream_id, payload, responder)
        self.state = StreamState(_CHANNEL, Side.RESPONDER)
        self.credit = CreditGate(initial_request_n)
        self.payloads = PayloadStream(self, outbound, window, max_window)
        self.complete = complete

    def begin(self) -> None:
        """Take the item of the request frame, and grant the first credit."""
        try:
            self.payloads.deliver(self.payload, free=True)
        except RemoteProtocolError as error:
            error.__traceback__ = None  # it would keep the item alive for as long as the error
            self.reject(error)
            return
        # Always answered, also where the requester has completed: requesters may wait for it.
        n = self.payloads.initial_request_n
        self.outbound.send_control(encode_request_n(self.stream_id, n))
        if self.complete:
            self.state.receive(Event.COMPLETE)
            self.payloads.end()

    def receive_cancel(self) -> None:
        if self.state.receive(Event.CANCEL):
            self.stop("the peer sent CANCEL")

    def stop_sending(self, reason: str) -> None:
        self.stop(reason)

    def stop(self, reason: str) -> None:
        # The cancellation first: a handler that waits for an item must not take this for the
        # end of the requester's items.
        super().stop(reason)
        self.quit(Canceled(reason, stream_id=self.stream_id))
        if self.scope is None:
            self.payloads.close()  # no handler will read them

    def connection_closed(self, error: Exception) -> None:
        super().stop(str(error))
        self.quit(error)

    def fail(self, error: Exception) -> None:
        answer = answer_to(
            error, self.stream_id, self.outbound.max_frame_size, quiet=self.state.closed
        )
        if not self.state.closed:
            self.send_error(answer, error)

    async def run(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        try:
            items = self.responder.request_channel(self.payload, self.payloads)
            if isinstance(items, Awaitable):
                items = await items
            await send_items(self, items, self.credit)
            if self.live:
                self.send_complete()
        except Exception as error:
            # Whatever a handler raises ends its one stream.
            self.fail(error)
        finally:
            self.scope = None
            # The handler has read all it wants: the requester's half, if open, is cancelled.
            self.payloads.close()
            self.send_cancel()
            self.quit(None)
