"""Requests of the peer, from the frame to the workers: `Requests`.

Here it is decided whether a request is taken on, refused (REJECTED, INVALID) or ignored, and here
requests in fragments become whole.

Where leases are in use each request is counted against the one we granted. What goes beyond it is
answered with REJECTED, also before the first lease (Protocol.md, "Lease Semantics"). A request in
fragments is counted with its first one, before anything of it is kept.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from ..errors import ErrorCode, RemoteProtocolError
from ..frames.error import encode_error
from ..frames.header import (
    COMPLETE,
    FOLLOWS,
    MAX_U31,
    METADATA,
    FrameType,
    read_header,
    split_metadata,
)
from ..frames.request import read_initial_n
from ..interactions.body_responders import responder_of_body
from ..interactions.fire_and_forget import FireAndForgetResponder
from ..interactions.metadata_push import MetadataPushResponder
from ..interactions.operation import Handlers, Operation, ResponderOperation, answer_to
from ..interactions.request_channel import RequestChannelResponder
from ..interactions.request_response import RequestResponseResponder
from ..interactions.request_stream import RequestStreamResponder
from ..payload import Payload
from ..protocol.credit import Window
from ..protocol.fragmentation import PAYLOAD_HEAD, REQUEST_N_HEAD

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from .leases import Leases
    from .streams import Streams
    from .workers import Workers

__all__ = ["Requests"]

logger = logging.getLogger("rsocket_trio")

# Plain numbers: looking one up in its enum costs ten times as much, on the hottest path.
_REQUEST_RESPONSE: Final = FrameType.REQUEST_RESPONSE.value
_REQUEST_FNF: Final = FrameType.REQUEST_FNF.value
_REQUEST_STREAM: Final = FrameType.REQUEST_STREAM.value
_REQUEST_CHANNEL: Final = FrameType.REQUEST_CHANNEL.value
_KINDS: Final = {
    _REQUEST_RESPONSE: "request_response",
    _REQUEST_FNF: "fire_and_forget",
    _REQUEST_STREAM: "request_stream",
}
_TOO_MANY: Final = "too many requests"
_BEYOND: Final = "beyond the lease"


class Requests:
    """Takes on the requests of the peer.

    Attributes:
        responder: Who answers them; set once the connection is accepted.
        dropped: Messages without an answer that were not taken on, by interaction.
        refused: While set, every new request is answered with REJECTED and this text.
    """

    responder: Handlers

    def __init__(
        self,
        config: ConnectionConfig,
        streams: Streams,
        workers: Workers,
        leases: Leases | None = None,
        *,
        client: bool,
    ) -> None:
        self.refused: str | None = None
        self.dropped: Counter[str] = Counter()
        self._table = streams.table
        self._streams = streams
        self._workers = workers
        self._leases = leases
        self._limits = config.limits
        self._prefetch = config.prefetch
        # Protocol.md, "Stream Identifiers": clients use odd ids, servers even ones.
        self._parity = 0 if client else 1
        self._incomplete = 0

    # -- the hot path -----------------------------------------------------------------------

    def receive(self, frame_type: int, stream_id: int, flags: int, frame: bytes) -> None:
        """A REQUEST_* frame.

        Raises:
            MalformedFrame: It is too short, or its metadata length or its n is impossible.
        """
        if stream_id & 1 != self._parity or stream_id in self._table or not stream_id:
            # Not an id of the peer's, or one in use: ignored (Protocol.md, "Handling the
            # Unexpected"). Finished ids may come again, once the peer has used all up.
            return
        if stream_id > MAX_U31:
            read_header(frame)  # raises: the reserved bit before the stream id is set
        initial_n = 1  # of those that have none: there is nothing to refuse
        head = PAYLOAD_HEAD
        if frame_type >= _REQUEST_STREAM:
            head = REQUEST_N_HEAD
            initial_n = read_initial_n(frame, flags, stream_id)
        if flags & METADATA:
            metadata, data = split_metadata(frame, head, flags, stream_id)
        else:
            metadata, data = None, frame[head:]
        if not initial_n:
            self.answer(stream_id, frame_type, ErrorCode.INVALID, "the initial n must be above 0")
        elif self._leases is not None and not self._leases.spend():
            self.answer(stream_id, frame_type, ErrorCode.REJECTED, _BEYOND)
        elif flags & FOLLOWS:
            self._begin(frame_type, stream_id, flags, initial_n, metadata, data)
        else:
            payload = Payload(data, metadata)
            size = len(frame) - head
            self.take_on(frame_type, stream_id, flags, initial_n, payload, size)

    def take_on(
        self,
        frame_type: int,
        stream_id: int,
        flags: int,
        initial_n: int,
        payload: Payload,
        size: int,
    ) -> None:
        """A whole request of ``size`` bytes: hand it to the workers, or refuse it.

        Of ``flags`` only COMPLETE counts here, and only for a channel.
        """
        workers = self._workers
        if self.refused is not None or not workers.has_room(size):
            self.answer(stream_id, frame_type, ErrorCode.REJECTED, self.refused or _TOO_MANY)
            return
        operation: ResponderOperation
        if frame_type == _REQUEST_RESPONSE:
            operation = RequestResponseResponder(self._streams, stream_id, payload, self.responder)
        elif frame_type == _REQUEST_FNF:
            # The stream is over with its arrival, so it is not entered in the table.
            operation = FireAndForgetResponder(self._streams, stream_id, payload, self.responder)
            workers.add(operation, size)
            return
        elif frame_type == _REQUEST_STREAM:
            operation = RequestStreamResponder(
                self._streams, stream_id, payload, self.responder, initial_n
            )
        else:
            operation = channel = RequestChannelResponder(
                self._streams,
                stream_id,
                payload,
                self.responder,
                initial_n,
                complete=bool(flags & COMPLETE),
                window=Window(self._prefetch, uncredited=1),
                max_window=self._limits.max_prefetch,
            )
            self._table[stream_id] = channel
            channel.begin()
            workers.add(channel, size)
            return
        self._table[stream_id] = operation
        workers.add(operation, size)

    # -- the rest ---------------------------------------------------------------------------

    def take_on_body(self, request: _FragmentedRequest, payload: Payload) -> None:
        """A request that the responder reads while it arrives; ``payload`` is what is here."""
        stream_id = request.stream_id
        size = len(payload.data) + len(payload.metadata or b"")
        if self.refused is not None or not self._workers.has_room(size):
            text = self.refused or _TOO_MANY
            self.answer(stream_id, request.frame_type, ErrorCode.REJECTED, text)
            return
        operation = responder_of_body(
            request.frame_type,
            self._streams,
            stream_id,
            payload,
            self.responder,
            request.initial_n,
        )
        self._table[stream_id] = operation
        self._workers.add(operation, size)

    def receive_metadata_push(self, metadata: bytes) -> None:
        """A METADATA_PUSH frame: best effort, so past the limits it is dropped."""
        operation = MetadataPushResponder(self._streams, metadata, self.responder)
        if self._workers.has_room(len(metadata)):
            self._workers.add(operation, len(metadata))
        else:
            self._drop("metadata_push", _TOO_MANY)

    def answer(self, stream_id: int, frame_type: int, code: int, text: str) -> None:
        """Refuse a request; fire_and_forget never hears of it."""
        if frame_type != _REQUEST_FNF:
            self._streams.send_control(encode_error(stream_id, code, text.encode()))
        else:
            self._drop("fire_and_forget", text)

    def _drop(self, what: str, reason: str) -> None:
        """Nobody is told but the log, and that once: a peer must not be able to fill a disk."""
        self.dropped[what] += 1
        count = self.dropped[what]
        level = logging.WARNING if count == 1 else logging.DEBUG
        logger.log(level, "%s dropped (number %d of this connection): %s", what, count, reason)

    def _begin(
        self,
        frame_type: int,
        stream_id: int,
        flags: int,
        initial_n: int,
        metadata: bytes | None,
        data: bytes,
    ) -> None:
        """The first fragment of a request."""
        if self.refused is not None or not self._has_room_for_fragments():
            self.answer(stream_id, frame_type, ErrorCode.REJECTED, self.refused or _TOO_MANY)
            return
        request = _FragmentedRequest(self, self._streams, frame_type, stream_id, initial_n)
        # Where C stands beside F in REQUEST_CHANNEL, it means the whole payload.
        request.complete = flags & COMPLETE
        self._incomplete += 1
        self._table[stream_id] = request
        request.receive_payload(FOLLOWS, metadata, data)

    def _has_room_for_fragments(self) -> bool:
        return self._workers.active + self._incomplete < self._limits.max_streams

    def forget(self, request: _FragmentedRequest) -> None:
        """A request in fragments is whole, or will never be."""
        self._incomplete -= 1
        self._streams.finish(request)


class _FragmentedRequest(Operation):
    """A request of which fragments are still to come (PAYLOAD frames on its stream)."""

    __slots__ = ("complete", "frame_type", "initial_n", "requests", "undecided")

    def __init__(
        self,
        requests: Requests,
        streams: Streams,
        frame_type: int,
        stream_id: int,
        initial_n: int,
    ) -> None:
        super().__init__(streams, stream_id)
        self.requests = requests
        self.frame_type = frame_type
        self.initial_n = initial_n
        self.complete = 0  # or COMPLETE, once a frame has had it
        # Whether the responder reads it while it arrives; nobody reads channels so.
        self.undecided = frame_type != _REQUEST_CHANNEL

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        self.complete |= flags & COMPLETE
        try:
            payload = self.whole(flags, metadata, data)
        except RemoteProtocolError as error:
            self._drop()
            self.requests.answer(self.stream_id, self.frame_type, error.code, str(error))
            return
        if payload is not None:
            self.requests.forget(self)
            size = len(payload.data) + len(payload.metadata or b"")
            self.requests.take_on(
                self.frame_type, self.stream_id, self.complete, self.initial_n, payload, size
            )
        elif data and self.undecided:
            self._decide()

    def _decide(self) -> None:
        """There are data, so the metadata are complete: the responder knows who it is for."""
        self.undecided = False
        assembling = self.assembling
        if assembling is None:
            return
        kind = _KINDS[self.frame_type]
        try:
            takes_body = self.requests.responder.takes_body(kind, assembling.metadata)
        except Exception as error:
            # As where a handler fails: it ends this one request.
            self._drop()
            answer = answer_to(error, self.stream_id, self.outbound.max_frame_size)
            if self.frame_type != _REQUEST_FNF:
                self.outbound.send_control(answer)
            return
        if takes_body:
            self.assembling = None
            so_far = assembling.finish()
            self.requests.forget(self)
            self.requests.take_on_body(self, so_far)

    def receive_request_n(self, n: int) -> None:
        # A requester may grant more at any time, also before its request is whole.
        if self.frame_type >= _REQUEST_STREAM:
            self.initial_n += n

    def receive_cancel(self) -> None:
        self._drop()

    def receive_error(self, code: int, data: bytes) -> None:
        self._drop()

    def connection_closed(self, error: Exception) -> None:
        self._drop()

    def _drop(self) -> None:
        self.discard_fragments()
        self.requests.forget(self)
