"""request_channel: a stream of payloads each way (Protocol.md, "Request Channel").

A channel has two halves, each with its own credit, and each completes on its own. The stream ends
when both halves are complete, on an ERROR from either side, or on the requester's CANCEL. The
responder's CANCEL stops the requester's half only. `rsocket_trio.protocol.legality` decides for
every frame whether it is legal.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..errors import ApplicationError, Canceled, RemoteProtocolError, RSocketError
from ..frames.header import COMPLETE, FrameType
from ..frames.request_n import encode_request_n
from ..log_policy import logger
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..protocol.legality import Event, Side
from ..protocol.stream_state import StreamState
from ..reactive_streams.interfaces import Publisher
from ..reactive_streams.iterating import close_iterator
from ..sealed import make
from .block import Block, opened_by_block
from .channel_operation import ChannelOperation
from .credit_gate import CreditGate
from .demand import PayloadInbox, PayloadStream
from .handler_errors import error_frame_for, forget_frames
from .isolation import hidden_by_scope, parted
from .leftovers import Watch
from .operation import Handlers, Outbound, ResponderOperation
from .sending import (
    DROPPED,
    ENDED,
    AnyItems,
    begin,
    follow_credit,
    send_items,
    send_stream,
    throw_into,
)

if TYPE_CHECKING:
    from ..protocol.credit import Window
    from ..streamed import AnyPayload

__all__ = ["RequestChannelResponder", "request_channel"]

_TYPE: Final = FrameType.REQUEST_CHANNEL.value
_CHANNEL: Final = Interaction.REQUEST_CHANNEL
_EMPTY: Final = Payload()


class _Requester(ChannelOperation):
    """Sends the items of a source, and delivers the replies to a `PayloadInbox`."""

    __slots__ = ("credit", "inbox", "left", "pump_scope", "source_error", "state")

    def __init__(self, outbound: Outbound, window: Window, max_window: int) -> None:
        super().__init__(outbound)
        self.state = StreamState(_CHANNEL, Side.REQUESTER)
        self.credit = CreditGate(0)
        self.inbox = PayloadInbox(self, outbound.memory.unread, window, max_window)
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
        """End the block: the channel is closed, and a source that still runs is stopped."""
        self.left = True
        self.inbox.close()
        self.send_cancel()
        self.stop_sending("the request_channel block was left")

    async def pump(
        self,
        source: AnyItems | Iterable[AnyPayload],
        first: AnyPayload | None,
        route: Callable[[AnyPayload], AnyPayload],
        body: trio.CancelScope,
    ) -> None:
        """Send the items of the source. An error of the source ends the channel and the body."""
        watch = Watch()
        try:
            with self.pump_scope:
                try:
                    items = begin(_asynchronous(source))
                    follow_credit(items, self.credit)
                    try:
                        await self._send(items, first, route)
                    finally:
                        if self.left:
                            # The request may have left after `leave`, which could not cancel it.
                            self.send_cancel()
                        # Also if the channel was never opened.
                        await close_iterator(items)
                except Exception as error:  # any error of the source ends the channel
                    self._source_failed(error, body)
        except BaseException as error:  # the source may also raise a cancellation of no scope
            cancelled, failure = parted(hidden_by_scope(error))
            if failure is not None:
                self._source_failed(failure, body)
            if cancelled is not None:
                raise cancelled from None
        finally:
            await watch.leave()

    def _source_failed(self, error: Exception, body: trio.CancelScope) -> None:
        """End the stream with an error of the user's source, and keep the error for the user.

        The source may also raise while it is stopped, when the block is left.
        """
        self.source_error = error
        if self.live:
            at_most = self.outbound.max_frame_size
            self.send_error(error_frame_for(error, self.stream_id, at_most, quiet=True), error)
            body.cancel(reason="the source of the channel failed")

    def log_source_error(self) -> None:
        """Log an error of the source, because the block raises another error instead."""
        if self.source_error is not None:
            logger.error("the source of a channel failed as well", exc_info=self.source_error)

    def abandoned(self) -> bool:
        """Whether the block has been left; this may change at any checkpoint."""
        return self.left

    async def _send(
        self,
        items: AsyncIterator[AnyPayload],
        first: AnyPayload | None,
        route: Callable[[AnyPayload], AnyPayload],
    ) -> None:
        flags = 0
        if first is None:
            # A source may take long. If the connection ends, the reader of the replies must be
            # told at once.
            self.outbound.add_unopened(self)
            try:
                first = await anext(items)
            except StopAsyncIteration:
                first, flags = _EMPTY, COMPLETE  # see `RequestChannelResponder.take_first`
            finally:
                self.outbound.remove_unopened(self)
        n = self.inbox.window.initial_request_n
        pause = checkpoint_if_cancelled  # the source may not have had a checkpoint
        while self.live:
            try:
                await pause()
                payload = route(first)
                if not self.outbound.try_open(self, _TYPE, flags, n, payload):
                    await self.outbound.open(self, _TYPE, flags, n, payload)
                break
            except (RSocketError, trio.ClosedResourceError) as error:
                # No fault of the source: the reader of the replies gets the error.
                self.quit(error)
                return
            except BaseException as error:  # also a cancellation; the source gets it, as later
                instead = await throw_into(items, error)
            if self.stream_id and self.live:
                raise ApplicationError(DROPPED)
            pause = checkpoint  # it may absorb one error after the other
            if instead is ENDED:
                first, flags = _EMPTY, COMPLETE
            else:
                first = cast("AnyPayload", instead)
        else:
            return
        if flags and self.state.send(Event.SEND_COMPLETE):
            self.live = False
            self.settle()
        if flags or self.abandoned():
            return
        await send_items(self, items, self.credit)


def _asynchronous(source: AnyItems | Iterable[AnyPayload]) -> AnyItems:
    if isinstance(source, AsyncIterable | Publisher):
        return source
    return _iterate(source)


async def _iterate(source: Iterable[AnyPayload]) -> AsyncIterator[AnyPayload]:
    """Turn a plain iterable into a source; `send_items` lets other tasks run between items."""
    for payload in source:
        yield payload


@opened_by_block
async def request_channel(
    outbound: Outbound,
    source: AnyItems | Iterable[AnyPayload],
    first: AnyPayload | None,
    route: Callable[[AnyPayload], AnyPayload],
    window: Window,
    max_window: int,
) -> AsyncIterator[PayloadStream]:
    """Open a channel; see `rsocket_trio.Requester.request_channel`.

    A task of this block sends the items of the source. An error of the source goes to the peer as
    an ERROR, and the block raises it. Errors of the source and of the body are never in a group.
    """
    outbound.home.check("this requester")
    channel = _Requester(outbound, window, max_window)
    block = Block()
    try:
        with block.around():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.pump, source, first, route, nursery.cancel_scope)
                try:
                    with block.body():
                        yield make(PayloadStream, channel.inbox)
                finally:
                    # Synchronous, so that a cancelled task sends CANCEL too.
                    channel.leave()
    except BaseException as error:  # raised again
        if error is not channel.source_error:
            channel.log_source_error()
        raise
    if channel.source_error is not None:
        raise channel.source_error


class RequestChannelResponder(ChannelOperation, ResponderOperation):
    """Runs the handler, which reads the peer's items and sends its own."""

    __slots__ = ("complete", "credit", "inbox", "payload", "responder", "state")

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
        ResponderOperation.__init__(self, outbound, stream_id)
        self.payload = payload
        self.responder = responder
        self.state = StreamState(_CHANNEL, Side.RESPONDER)
        self.credit = CreditGate(initial_request_n)
        self.inbox = PayloadInbox(self, outbound.memory.unread, window, max_window)
        self.complete = complete

    def take_first(self) -> None:
        """Take the item of the request frame, and grant the first credit.

        The frame has no flag for an item as PAYLOAD has (N). Here it means the same as there if it
        completes without data: there is no item (Protocol.md, "REQUEST_CHANNEL Frame", "PAYLOAD
        Frame"). An item without data comes with C in a PAYLOAD of its own.
        """
        if self.payload.data or not self.complete:
            try:
                self.inbox.deliver(self.payload, free=True)
            except RemoteProtocolError as error:
                error.__traceback__ = None  # it would keep the item alive as long as the error
                self.reject(error)
                return
        # Sent even if the requester has completed: requesters may wait for it.
        n = self.inbox.window.initial_request_n
        self.outbound.send_control(encode_request_n(self.stream_id, n))
        if self.complete:
            self.state.receive(Event.COMPLETE)
            self.inbox.end()

    def receive_cancel(self) -> None:
        if self.state.receive(Event.CANCEL):
            self.stop("the peer sent CANCEL")

    def stop_sending(self, reason: str) -> None:
        self.stop(reason)

    def stop(self, reason: str) -> None:
        # The cancellation comes first: a handler that waits for an item must not mistake this
        # for the end of the requester's items.
        super().stop(reason)
        self.quit(Canceled(reason, stream_id=self.stream_id))
        if self.scope is None:
            self.inbox.close()  # no handler will read them

    def dismiss(self, error: Exception) -> None:
        super().stop(str(error))
        self.quit(error)

    def quit(self, failure: Exception | None) -> None:
        super().quit(failure)
        # This operation and its inbox refer to each other, so they stay in memory until the
        # garbage collector runs. The first item, which may be large, is freed now.
        self.payload = _EMPTY

    def fail(self, error: Exception) -> None:
        quiet = self.state.closed or self.outbound.has_refused(error)
        answer = error_frame_for(error, self.stream_id, self.outbound.max_frame_size, quiet=quiet)
        if not self.state.closed:
            self.send_error(answer, error)

    def work(self) -> Coroutine[Any, Any, None]:
        payloads = make(PayloadStream, self.inbox)
        return send_stream(
            self, self.responder.request_channel(self.payload, payloads), self.credit
        )

    def close(self, error: Exception | None) -> None:
        self.scope = None
        if error is not None:
            self.fail(error)
            forget_frames(error)
        # The handler reads no more, so the requester's half is cancelled if it is open.
        self.inbox.close()
        self.send_cancel()
        self.quit(None)
