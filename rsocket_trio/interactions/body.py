"""Payloads that are read while they arrive: `PayloadBody`, and the request that gives one.

Demand in RSocket counts items. Below the item there is none: once a payload has begun, its
fragments come as fast as the peer sends them. What arrives and is not read waits in memory, up to
`Limits.max_unread_body_size` for one body (and `Limits.max_unread_size` for all streams of the
connection together); then its stream ends with an error. Not to read from the connection would
hold up all its other streams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

import trio

from ..errors import ErrorCode, RemoteProtocolError, stream_error
from ..frames.cancel import encode_cancel
from ..frames.header import COMPLETE, FOLLOWS, NEXT, FrameType
from ..protocol.reassembly import is_followed
from .arrivals import Arrivals
from .operation import Operation, Outbound

if TYPE_CHECKING:
    from ..streamed import AnyPayload

__all__ = ["PayloadBody", "Unread", "body_of", "request_response_streamed"]

_TYPE: Final = FrameType.REQUEST_RESPONSE.value
_COST: Final = 64
"""What a chunk is charged beside its bytes: tiny ones cost more as objects than as bytes."""


class Unread(Protocol):
    """The account of bytes that nobody has read yet; see `Outbound`."""

    unread: int
    max_unread: int
    max_unread_body: int


class PayloadBody(Arrivals[bytes]):
    """The data of one payload, in chunks, as they arrive: a `trio.abc.ReceiveChannel` of bytes.

    Made by `Requester.request_response_streamed`, and given to handlers that have a parameter
    annotated so. One task reads it at a time. Where chunks begin and end means nothing, and none
    is empty. Read faster than the peer sends: see `Limits.max_unread_body_size`.

    Attributes:
        metadata: Of the payload; complete before there is a chunk.
        present: There is a payload: False where a request was completed without a value.
    """

    def __init__(self, outbound: Unread, metadata: bytes | None = None) -> None:
        super().__init__()
        self.metadata = metadata
        self.present = True
        self._outbound = outbound
        self._unread = 0
        self._begun = False

    # -- the connection's side: synchronous, called by the operation ------------------------

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self._ended

    def deliver(self, metadata: bytes | None, data: bytes) -> None:
        """Take a fragment.

        Raises:
            RemoteProtocolError: Too much is unread. The body is over then.
        """
        if self._ended or self._closed:
            return
        outbound = self._outbound
        charge = len(data) + _COST if data else 0
        if metadata is not None and not self._begun:  # behind data they mean nothing
            self.metadata = (self.metadata or b"") + metadata
            charge += len(metadata) + _COST
        self._unread += charge
        outbound.unread += charge
        if self._unread > outbound.max_unread_body or outbound.unread > outbound.max_unread:
            error = RemoteProtocolError(
                f"{self._unread} bytes of a payload are unread (Limits.max_unread_body_size is "
                f"{outbound.max_unread_body}); read faster",
                code=ErrorCode.CANCELED,
            )
            self.end(error)
            raise error
        if data:
            self._begun = True
            self._queue.append(data)
            self._wake()

    # -- the user's side --------------------------------------------------------------------

    async def receive(self) -> bytes:
        """Receive the next chunk.

        Raises:
            trio.EndOfChannel: The payload is complete, and all of it has been received.
            StreamError: The peer gave the payload up.
            RemoteProtocolError: The peer broke the rules, or too much was unread.
            ConnectionClosed: The connection ended before the payload did.
            trio.ClosedResourceError: This body was closed here.
            trio.BusyResourceError: Another task is receiving.

        Checkpoint: always.
        If cancelled: no chunk is lost.
        """
        await self._wait()
        chunk = self._queue.popleft()
        self._give_back(len(chunk) + _COST)
        return chunk

    async def wait_begun(self) -> None:
        """Wait until there is a chunk, or the end: then the metadata are complete.

        Raises:
            StreamError: There is none, and never will be; and all else as `receive`.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        try:
            await self._wait()
        except trio.EndOfChannel:
            return

    def close(self) -> None:
        """Stop reading: what is here is dropped, and so is what may still come."""
        if not self._closed:
            self._closed = True
            self._queue.clear()
            self._give_back(self._unread)
            self._wake()

    def _give_back(self, size: int) -> None:
        self._unread -= size
        self._outbound.unread -= size


def body_of(payload: AnyPayload) -> PayloadBody:
    """A request's data as a body, also where they came as a whole."""
    data: object = payload.data
    if isinstance(data, PayloadBody):
        return data
    body = PayloadBody(_Nowhere(), payload.metadata)
    if isinstance(data, bytes):
        body.deliver(None, data)
    body.end()
    return body


class _Nowhere:
    """Stands for a connection that has counted already."""

    unread = 0
    max_unread = max_unread_body = 2**62


@asynccontextmanager
async def request_response_streamed(
    outbound: Outbound, payload: AnyPayload
) -> AsyncIterator[PayloadBody]:
    """See `rsocket_trio.Requester.request_response_streamed`."""
    operation = _Requester(outbound)
    try:
        if not outbound.try_open(operation, _TYPE, 0, None, payload):
            await outbound.open(operation, _TYPE, 0, None, payload)
        await operation.body.wait_begun()
        yield operation.body
    finally:
        # Synchronous, so that CANCEL leaves from a cancelled task too.
        operation.give_up()


class _Requester(Operation):
    """Delivers the fragments of the response to a `PayloadBody`."""

    __slots__ = ("begun", "body")

    def __init__(self, outbound: Outbound) -> None:
        super().__init__(outbound)
        self.body = PayloadBody(outbound)
        self.begun = False

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        if not flags & (NEXT | FOLLOWS) and not self.begun:
            if flags & COMPLETE:
                self.body.present = False
                self._end(None)
            return  # neither an item nor an end, so it means nothing
        self.begun = True
        try:
            self.body.deliver(metadata, data)
        except RemoteProtocolError as error:
            self.outbound.send_control(encode_cancel(self.stream_id))
            self._end(error)
            return
        if not is_followed(flags):
            self._end(None)

    def receive_error(self, code: int, data: bytes) -> None:
        self._end(stream_error(code, data, self.stream_id))

    def connection_closed(self, error: Exception) -> None:
        self._end(error)

    def _end(self, failure: Exception | None) -> None:
        self.body.end(failure)
        self.outbound.finish(self)

    def give_up(self) -> None:
        """The block is left: CANCEL, if the request has left and the response is not whole."""
        if self.stream_id and not self.body.ended:
            self.outbound.send_control(encode_cancel(self.stream_id))
            self.outbound.finish(self)
        self.body.close()
