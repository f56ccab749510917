"""Payloads that are read while they arrive, and the request that gives one.

`BodyInbox` takes the fragments that arrive, and its user reads a `PayloadBody`.

Demand in RSocket counts items. There is no demand for fragments: once a payload has begun, they
come as fast as the peer sends them. Unread fragments wait in memory, up to
`Limits.max_unread_body_size` for one body (and `Limits.max_unread_size` for all streams of the
connection together); then the stream ends with an error. The connection cannot stop reading
instead, as this would block all its other streams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, final

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..account import ITEM_COST, Account
from ..errors import ErrorCode, RemoteProtocolError, stream_error
from ..frames.cancel import encode_cancel
from ..frames.header import COMPLETE, FrameType
from ..payload import Payload
from ..protocol.reassembly import Reassembler, has_payload, is_followed
from ..sealed import Sealed, make
from .block import opened_by_block
from .inbox import Inbox
from .operation import Operation, Outbound

if TYPE_CHECKING:
    from ..streamed import AnyPayload

__all__ = [
    "BodyInbox",
    "Memory",
    "PayloadBody",
    "body_of",
    "request_response_streamed",
    "whole",
]

_TYPE: Final = FrameType.REQUEST_RESPONSE.value
_AT_ONCE: Final = 256
"""The number of chunks joined in one turn of the loop; tiny ones take less than a millisecond."""

_NAME: Final = "PayloadBody"


class Memory(Protocol):
    """The accounts for bodies; see `rsocket_trio.protocol.memory.ConnectionMemory`."""

    unread: Account
    max_unread_body: int

    def reassembler(self, stream_id: int) -> Reassembler: ...


class BodyInbox(Inbox[bytes]):
    """The chunks of a payload that have arrived; its user reads them from a `PayloadBody`.

    Attributes:
        memory: Has the account of the unread bytes of the connection.
        size: The bytes of data that have arrived.
    """

    __slots__ = ("_begun", "_joined", "_metadata", "_unread", "memory", "size")

    def __init__(self, memory: Memory, metadata: bytes | None = None) -> None:
        super().__init__()
        self.memory = memory
        self._metadata: bytes | bytearray | None = metadata
        self._unread = 0
        self.size = 0
        self._begun = False
        self._joined: Reassembler | None = None

    @property
    def metadata(self) -> bytes | None:
        """See `PayloadBody.metadata`."""
        metadata = self._metadata
        if isinstance(metadata, bytearray):
            metadata = bytes(metadata)
            if self._begun or self.ended:
                self._metadata = metadata  # the metadata are complete
        return metadata

    def deliver(self, metadata: bytes | None, data: bytes) -> None:
        """Add a fragment that arrived.

        Raises:
            RemoteProtocolError: Too many bytes are unread. The body is over then.
        """
        if self.ended or self.closed:
            return
        memory = self.memory
        charge = len(data) + ITEM_COST if data else 0
        if self._begun:
            metadata = None  # metadata behind data are ignored
        if metadata is not None:
            charge += len(metadata) + ITEM_COST
        if self._unread + charge > memory.max_unread_body:
            self._refuse(
                f"more than {memory.max_unread_body} bytes of a payload are unread "
                "(Limits.max_unread_body_size)"
            )
        if not memory.unread.take(charge):
            self._refuse(memory.unread.refusal)
        self._unread += charge
        if metadata is not None:
            if self._metadata is None:
                self._metadata = metadata
            else:
                if not isinstance(self._metadata, bytearray):
                    self._metadata = bytearray(self._metadata)
                self._metadata += metadata  # in place: metadata may come in many fragments
        if data:
            self._begun = True
            self.size += len(data)
            self.queue.append(data)
            self._wake()

    def pop(self) -> bytes:
        """Take a chunk from the queue."""
        chunk = self.queue.popleft()
        self._give_back(len(chunk) + ITEM_COST)
        return chunk

    async def wait_begun(self) -> None:
        """Wait until there is a chunk, or the end: then the metadata are complete.

        Raises:
            StreamError: The peer ended the payload; and the other errors of `PayloadBody.receive`.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        try:
            await self.wait(_NAME)
        except trio.EndOfChannel:
            return

    async def join(self) -> Payload:
        """Wait for the whole payload and return it.

        It counts against the limits for reassembly (`Limits.max_payload_size`,
        `Limits.max_reassembly_size`) until this inbox is closed.

        Raises:
            RemoteProtocolError: It is larger than those limits allow.
            Exception: The payload ended early; see `PayloadBody.receive`.

        Checkpoint: always.
        If cancelled: the chunks taken so far are lost.
        """
        joined = self._joined = self.memory.reassembler(0)
        await self.wait_begun()
        joined.add(self.metadata, b"")
        try:
            while True:
                await self.wait(_NAME)
                # Very many small chunks may have arrived, so other tasks run in between.
                for _ in range(min(len(self.queue), _AT_ONCE)):
                    joined.add(None, self.pop())
        except trio.EndOfChannel:
            return joined.take()

    def close(self) -> None:
        """See `PayloadBody.close`."""
        if self._joined is not None:
            self._joined.discard()
        if not self.closed:
            self.drop()
            self._give_back(self._unread)
            self._wake()

    def _give_back(self, size: int) -> None:
        self._unread -= size
        self.memory.unread.give_back(size)

    def _refuse(self, reason: str) -> NoReturn:
        error = RemoteProtocolError(f"{reason}; read faster", code=ErrorCode.CANCELED)
        self.end(error)
        raise error


@final
class PayloadBody(
    trio.abc.ReceiveChannel[bytes],
    metaclass=Sealed,
    given="Requester.request_response_streamed gives one, and handlers are given one",
):
    """The data of one payload, in chunks, as they arrive: a `trio.abc.ReceiveChannel` of bytes.

    `Requester.request_response_streamed` makes it, and handlers get one if their parameter is
    annotated so. One task reads it at a time. The boundaries of chunks have no meaning, and no
    chunk is empty. Read faster than the peer sends: see `Limits.max_unread_body_size`.
    """

    __slots__ = ("_inbox",)

    def __init__(self, inbox: BodyInbox) -> None:
        self._inbox = inbox

    @property
    def size(self) -> int:
        """The bytes of data that have arrived so far."""
        return self._inbox.size

    @property
    def metadata(self) -> bytes | None:
        """The metadata of the payload; complete before the first chunk."""
        return self._inbox.metadata

    async def receive(self) -> bytes:
        """Receive the next chunk.

        Raises:
            trio.EndOfChannel: The payload is complete, and all of it has been received.
            StreamError: The peer ended the payload with an error.
            RemoteProtocolError: The peer broke the protocol, or too many bytes were unread.
            ConnectionClosed: The connection ended before the payload did.
            trio.ClosedResourceError: This body was closed here.
            trio.BusyResourceError: Another task is receiving.

        Checkpoint: always.
        If cancelled: no chunk is lost.
        """
        await self._inbox.wait(_NAME)
        return self._inbox.pop()

    def close(self) -> None:
        """Stop reading: unread chunks are dropped, and so are chunks that still arrive."""
        if not self._inbox.closed:
            self._inbox.check_home(_NAME)
        self._inbox.close()

    async def aclose(self) -> None:
        """`close`, and a checkpoint.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        self.close()
        await checkpoint()


def body_of(payload: Payload) -> PayloadBody:
    """Return a request that arrived as a whole as a body, for a handler that takes one."""
    inbox = BodyInbox(_Unlimited(), payload.metadata)
    inbox.deliver(None, payload.data)
    inbox.end()
    return make(PayloadBody, inbox)


async def whole(body: PayloadBody) -> Payload:
    """Wait for the rest of a request and return it, for a handler that takes no body.

    It counts against the limits for reassembly (`Limits.max_payload_size`,
    `Limits.max_reassembly_size`) until the handler has ended.

    Raises:
        RemoteProtocolError: It is larger than those limits allow.
        Exception: The payload ended early; see `PayloadBody.receive`.

    Checkpoint: always.
    If cancelled: the chunks received so far are lost.
    """
    return await body._inbox.join()  # noqa: SLF001 - a class of this module


class _Unlimited:
    """Stands in for a connection, which has counted the whole payload already."""

    max_unread_body = 2**62

    def __init__(self) -> None:
        self.unread = Account(self.max_unread_body, "no limit", "are unread")

    def reassembler(self, stream_id: int) -> Reassembler:
        return Reassembler(self.max_unread_body)


@opened_by_block
async def request_response_streamed(
    outbound: Outbound, payload: AnyPayload
) -> AsyncIterator[PayloadBody | None]:
    """See `rsocket_trio.Requester.request_response_streamed`."""
    outbound.home.check("this requester")
    operation = _Requester(outbound)
    try:
        await checkpoint_if_cancelled()  # else the request would leave, and a CANCEL behind it
        if not outbound.try_open(operation, _TYPE, 0, None, payload):
            await outbound.open(operation, _TYPE, 0, None, payload)
        await operation.inbox.wait_begun()
        yield None if operation.without_value else make(PayloadBody, operation.inbox)
    finally:
        # Synchronous, so that a cancelled task sends CANCEL too.
        operation.give_up()


class _Requester(Operation):
    """Delivers the fragments of the response to a `BodyInbox`."""

    __slots__ = ("begun", "inbox", "without_value")

    def __init__(self, outbound: Outbound) -> None:
        super().__init__(outbound)
        self.inbox = BodyInbox(outbound.memory)
        self.begun = False
        self.without_value = False

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        if not self.begun and not has_payload(flags):
            if flags & COMPLETE:
                self.without_value = True
                self._end(None)
            return  # neither an item nor an end, so it is ignored
        self.begun = True
        try:
            self.inbox.deliver(metadata, data)
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
        self.inbox.end(failure)
        self.outbound.finish(self)

    def give_up(self) -> None:
        """End the block: send CANCEL if the request has left and the response is not whole."""
        if self.stream_id and not self.inbox.ended:
            self.outbound.send_control(encode_cancel(self.stream_id))
            self.outbound.finish(self)
        self.inbox.close()
