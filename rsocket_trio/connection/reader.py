"""Frames in, to whom they belong: the one task that receives from the transport.

The reader never waits for a consumer. It delivers synchronously: to the operation of a stream, to
`Requests`, to `StreamZero`. It waits in three places only: for the transport, at one checkpoint
per worker it wakes (`Workers.start`), and for a peer that makes us answer more than it reads
(`Outbox.clogged`), because not reading from that peer is the one thing that stops it.

What is no frame ends the connection with CONNECTION_ERROR, unless its I flag says to skip it
(Protocol.md, "Frame Header Format").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint

from ..config import MAX_FRAME_SIZE
from ..errors import ConnectionLost, MalformedFrame, RemoteProtocolError
from ..frames.cancel import CancelFrame
from ..frames.error import ErrorFrame
from ..frames.header import HEADER, MAX_U31, METADATA, FrameType, read_header, split_metadata
from ..frames.request_n import RequestNFrame
from ..frames.union import decode
from ..protocol.frame_rules import Verdict, judge

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["Reader"]

_HEADER_SIZE: Final = HEADER.size
_unpack_header: Final = HEADER.unpack_from
# Plain numbers: looking one up in its enum costs ten times as much, on the hottest path.
_PAYLOAD: Final = FrameType.PAYLOAD.value
_BARE_PAYLOAD: Final = _PAYLOAD << 10
_TYPE_AND_METADATA: Final = 0x3F << 10 | METADATA
_FIRST_REQUEST: Final = FrameType.REQUEST_RESPONSE.value
_LAST_REQUEST: Final = FrameType.REQUEST_CHANNEL.value
_BATCH: Final = 1024
"""Frames dispatched in a row without letting another task run."""


class Reader:
    """Receives frames and dispatches them, until the connection is over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._table = connection.streams.table
        self._requests = connection.requests
        self._zero = connection.zero
        self._client = connection.client

    async def run(self, frames: list[bytes]) -> None:
        """Dispatch ``frames``, which came right behind the first one, and all that follow.

        Checkpoint: always.
        If cancelled: between two batches of frames.
        """
        connection = self._connection
        transport = connection.transport
        workers = connection.workers
        outbox = connection.outbox
        nursery = connection.nursery
        clock = connection.clock
        try:
            while True:
                if frames:
                    clock.received(trio.current_time())
                    if len(frames) > _BATCH:
                        for start in range(0, len(frames), _BATCH):
                            self._dispatch_all(frames[start : start + _BATCH])
                            await checkpoint()
                    else:
                        self._dispatch_all(frames)
                    if workers.waiting:
                        await workers.start(nursery)
                    if outbox.clogged:
                        await outbox.wait_unclogged()
                frames = await transport.receive_frames()
                if not frames:
                    connection.end(ConnectionLost("the peer closed the connection"))
                    return
        except RemoteProtocolError as error:
            connection.protocol_error(error)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            connection.lost(error)

    def _dispatch_all(self, frames: list[bytes]) -> None:
        find = self._table.get
        unpack = _unpack_header
        for frame in frames:
            size = len(frame)
            if _HEADER_SIZE <= size <= MAX_FRAME_SIZE:
                stream_id, type_and_flags = unpack(frame)
                if type_and_flags & _TYPE_AND_METADATA == _BARE_PAYLOAD:
                    # What most frames are, without a call more.
                    operation = find(stream_id)
                    if operation is not None:
                        operation.receive_payload(type_and_flags, None, frame[_HEADER_SIZE:])
                        continue
            try:
                self.dispatch(frame)
            except MalformedFrame as error:
                if not error.ignorable:
                    raise
        if not self._connection.established:
            for frame in frames:
                self._zero.look_for_acceptance(frame)

    def dispatch(self, frame: bytes) -> None:
        """Deliver one frame.

        Raises:
            RemoteProtocolError: It ends the connection (unless it is an ignorable
                `MalformedFrame`).
        """
        if not _HEADER_SIZE <= len(frame) <= MAX_FRAME_SIZE:
            # The upper bound holds on any transport (Protocol.md, "Framing Format").
            read_header(frame)  # raises, and says which of the two it is
        stream_id, type_and_flags = HEADER.unpack_from(frame)
        frame_type = type_and_flags >> 10
        if frame_type == _PAYLOAD:
            operation = self._table.get(stream_id)
            if operation is not None:
                if type_and_flags & METADATA:
                    metadata, data = split_metadata(
                        frame, _HEADER_SIZE, type_and_flags & 0x3FF, stream_id
                    )
                    operation.receive_payload(type_and_flags, metadata, data)
                else:
                    operation.receive_payload(type_and_flags, None, frame[_HEADER_SIZE:])
            elif stream_id > MAX_U31:
                read_header(frame)  # raises: the reserved bit before the stream id is set
        elif _FIRST_REQUEST <= frame_type <= _LAST_REQUEST:
            self._requests.receive(frame_type, stream_id, type_and_flags & 0x3FF, frame)
        else:
            self._dispatch_rare(frame, frame_type, stream_id, type_and_flags & 0x3FF)

    def _dispatch_rare(self, frame: bytes, frame_type: int, stream_id: int, flags: int) -> None:
        """All but PAYLOAD and requests: decoded whole."""
        verdict = judge(frame_type, flags, stream_id, client=self._client)
        if verdict is Verdict.IGNORE:
            return
        decoded = decode(frame)
        if verdict is Verdict.REFUSE:
            raise RemoteProtocolError(f"{decoded.frame_type.name} is not understood here")
        if not stream_id:
            self._zero.receive(decoded)
            return
        operation = self._table.get(stream_id)
        if operation is None:
            return  # it is over, or never was (Protocol.md, "Handling the Unexpected")
        if isinstance(decoded, RequestNFrame):
            # n MUST be > 0; no reaction is named, so the lenient rule applies.
            if decoded.n:
                operation.receive_request_n(decoded.n)
        elif isinstance(decoded, CancelFrame):
            operation.receive_cancel()
        elif isinstance(decoded, ErrorFrame):
            operation.receive_error(decoded.code, decoded.data)
