"""Deliver received frames: `Dispatcher`. It is synchronous: it never waits for a consumer.

A frame goes to the operation of its stream, to `IncomingRequests` if it is a new request, or to
`StreamZero` if it concerns the connection. A malformed frame closes the connection with
CONNECTION_ERROR, unless its I flag says to skip it (Protocol.md, "Frame Header Format").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..config import MAX_FRAME_SIZE
from ..errors import MalformedFrame, RemoteProtocolError
from ..frames.cancel import CancelFrame
from ..frames.error import ErrorFrame
from ..frames.header import HEADER, MAX_U31, METADATA, FrameType, read_header, split_metadata
from ..frames.request_n import RequestNFrame
from ..frames.union import decode
from ..protocol.frame_rules import REQUEST_TYPES, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..interactions.operation import Operation
    from .incoming_requests import IncomingRequests
    from .stream_zero import StreamZero

__all__ = ["Dispatcher"]

_HEADER_SIZE: Final = HEADER.size
_unpack_header: Final = HEADER.unpack_from
# Plain numbers: on the hottest path, a member of an enum costs ten times as much.
_PAYLOAD: Final = FrameType.PAYLOAD.value
_BARE_PAYLOAD: Final = _PAYLOAD << 10
_TYPE_AND_METADATA: Final = 0x3F << 10 | METADATA
_BARE_REQUEST: Final = FrameType.REQUEST_RESPONSE.value << 10
_FIRST_REQUEST: Final = min(REQUEST_TYPES).value
_LAST_REQUEST: Final = max(REQUEST_TYPES).value


class Dispatcher:
    """Delivers frames.

    Args:
        table: The streams.
        requests: Receives the peer's requests.
        zero: Receives the frames of the connection itself.
        client: Whether we dialled.
    """

    def __init__(
        self,
        table: dict[int, Operation],
        requests: IncomingRequests,
        zero: StreamZero,
        *,
        client: bool,
    ) -> None:
        self._table = table
        self._requests = requests
        self._zero = zero
        self._client = client

    def dispatch_all(self, frames: Iterable[bytes]) -> None:
        """Deliver frames, in order.

        Raises:
            RemoteProtocolError: One of them ends the connection.
        """
        find = self._table.get
        take_bare = self._requests.receive_bare
        unpack = _unpack_header
        for frame in frames:
            size = len(frame)
            if _HEADER_SIZE <= size <= MAX_FRAME_SIZE:
                stream_id, type_and_flags = unpack(frame)
                if type_and_flags & _TYPE_AND_METADATA == _BARE_PAYLOAD:
                    # Most frames are of this kind; this saves them a call.
                    operation = find(stream_id)
                    if operation is not None:
                        operation.receive_payload(type_and_flags, None, frame[_HEADER_SIZE:])
                        continue
                elif type_and_flags == _BARE_REQUEST and stream_id <= MAX_U31:
                    take_bare(stream_id, frame)
                    continue
            try:
                self.dispatch(frame)
            except MalformedFrame as error:
                if not error.ignorable:
                    raise

    def dispatch(self, frame: bytes) -> None:
        """Deliver one frame.

        Raises:
            RemoteProtocolError: The frame ends the connection (except an ignorable
                `MalformedFrame`).
        """
        if not _HEADER_SIZE <= len(frame) <= MAX_FRAME_SIZE:
            # The upper bound holds on any transport (Protocol.md, "Framing Format").
            read_header(frame)  # raises, and says whether the frame is too short or too long
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
        """Deliver a frame that is no PAYLOAD and no request; it is decoded as a whole."""
        verdict = judge(frame_type, flags, stream_id, client=self._client)
        if verdict is Verdict.IGNORE:
            return
        decoded = decode(frame)
        if verdict is Verdict.REFUSE:
            raise RemoteProtocolError(f"{decoded.frame_type.name} is not supported here")
        if not stream_id:
            self._zero.receive(decoded)
            return
        operation = self._table.get(stream_id)
        if operation is None:
            return  # the stream is over, or never existed (Protocol.md, "Handling the Unexpected")
        if isinstance(decoded, RequestNFrame):
            # n MUST be > 0. The specification names no reaction, so the frame is ignored.
            if decoded.n:
                operation.receive_request_n(decoded.n)
        elif isinstance(decoded, CancelFrame):
            operation.receive_cancel()
        elif isinstance(decoded, ErrorFrame):
            operation.receive_error(decoded.code, decoded.data)
