"""Accept or refuse requests of the peer, and give them to the crew: `IncomingRequests`.

This module decides whether a request is accepted, refused (REJECTED, INVALID) or ignored, and
assembles requests in fragments.

If leases are in use, each request counts against the lease that we granted. Requests beyond the
lease are answered with REJECTED, also before the first lease (Protocol.md, "Lease Semantics"). A
request in fragments counts with its first fragment, before any of its bytes are kept.

While the connection drains, new requests are refused. A request whose first fragment came before
that has begun, and is answered.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from ..errors import ErrorCode
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
from ..interactions.operation import Answers, Handlers, ResponderOperation
from ..interactions.request_channel import RequestChannelResponder
from ..interactions.request_response import RequestResponseResponder
from ..interactions.request_stream import RequestStreamResponder
from ..log_policy import logger
from ..payload import Payload
from ..protocol.credit import Window
from ..protocol.fragmentation import PAYLOAD_HEAD, REQUEST_N_HEAD
from ..protocol.interaction import Interaction
from ..protocol.reassembly import too_much_metadata
from ..protocol.stream_ids import is_peers
from .fragmented_request import FragmentedRequest

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..interactions.payload_body import PayloadBody
    from .first_steps import FirstSteps
    from .leases import Leases
    from .stream_sender import StreamSender
    from .stream_table import StreamTable
    from .workload import Workload

__all__ = ["IncomingRequests"]

# Plain numbers: on the hottest path, a member of an enum costs ten times as much.
_REQUEST_RESPONSE: Final = FrameType.REQUEST_RESPONSE.value
_REQUEST_FNF: Final = FrameType.REQUEST_FNF.value
_REQUEST_STREAM: Final = FrameType.REQUEST_STREAM.value
_REQUEST_CHANNEL: Final = FrameType.REQUEST_CHANNEL.value
_TOO_MANY: Final = "too many requests"
_BEYOND: Final = "beyond the lease"


class IncomingRequests:
    """Accepts or refuses the requests of the peer.

    Attributes:
        responder: Answers them; set once the connection is accepted.
        dropped: How many messages without an answer were dropped, by interaction.
        refused: While set, every new request is answered with REJECTED and this text.
        uncredited: Whether an initial n of 0 is legal (`Capabilities.uncredited_requests`).
    """

    responder: Handlers

    def __init__(
        self,
        config: ConnectionConfig,
        table: StreamTable,
        sender: StreamSender,
        workload: Workload,
        first_steps: FirstSteps,
        leases: Leases | None = None,
        *,
        client: bool,
    ) -> None:
        self.refused: str | None = None
        self.uncredited = False
        self.dropped: Counter[str] = Counter()
        self._table = table.operations
        self._sender = sender
        self._workload = workload
        self._first_steps = first_steps
        self._leases = leases
        self._limits = config.limits
        self._max_metadata = config.limits.max_metadata_size
        self._prefetch = config.prefetch
        self._parity = int(is_peers(1, client))
        self._incomplete: set[FragmentedRequest] = set()

    # -- the hot path -----------------------------------------------------------------------

    def receive(self, frame_type: int, stream_id: int, flags: int, frame: bytes) -> None:
        """Receive a REQUEST_* frame.

        Raises:
            MalformedFrame: It is too short, or its metadata length or its n is invalid.
        """
        if stream_id & 1 != self._parity or stream_id in self._table or not stream_id:
            # The peer may not use this id, or it is in use: ignored (Protocol.md, "Handling the
            # Unexpected"). The ids of finished streams may come again, once all are used up.
            return
        if stream_id > MAX_U31:
            read_header(frame)  # raises: the reserved bit before the stream id is set
        initial_n = 1  # for requests without an initial n, so that they are not refused
        head = PAYLOAD_HEAD
        if frame_type >= _REQUEST_STREAM:
            head = REQUEST_N_HEAD
            initial_n = read_initial_n(frame, flags, stream_id)
        if flags & METADATA:
            metadata, data = split_metadata(frame, head, flags, stream_id)
        else:
            metadata, data = None, frame[head:]
        if not initial_n and not self.uncredited:
            self.refuse(stream_id, frame_type, ErrorCode.INVALID, "the initial n must be above 0")
        elif self._leases is not None and not self._leases.spend():
            self.refuse(stream_id, frame_type, ErrorCode.REJECTED, _BEYOND)
        elif metadata is not None and len(metadata) > self._max_metadata:
            text = too_much_metadata(self._max_metadata)
            self.refuse(stream_id, frame_type, ErrorCode.INVALID, text)
        elif self.refused is not None:
            self.refuse(stream_id, frame_type, ErrorCode.REJECTED, self.refused)
        elif flags & FOLLOWS:
            self._begin_fragmented(frame_type, stream_id, flags, initial_n, metadata, data)
        else:
            payload = Payload(data, metadata)
            size = len(frame) - head
            self.take_on(frame_type, stream_id, flags, initial_n, payload, size)

    def receive_bare(self, stream_id: int, frame: bytes) -> None:
        """Receive a REQUEST_RESPONSE frame without flags, with a valid id: most requests.

        Does the same as `receive` and `take_on`, but saves their calls.
        """
        table = self._table
        if stream_id & 1 != self._parity or stream_id in table or not stream_id:
            return
        if self._leases is not None and not self._leases.spend():
            self.refuse(stream_id, _REQUEST_RESPONSE, ErrorCode.REJECTED, _BEYOND)
            return
        if self.refused is not None:
            self.refuse(stream_id, _REQUEST_RESPONSE, ErrorCode.REJECTED, self.refused)
            return
        workload = self._workload
        first_steps = self._first_steps
        payload = Payload(frame[PAYLOAD_HEAD:])
        size = len(frame) - PAYLOAD_HEAD
        if not (
            first_steps.left
            and (not workload.active or workload.has_room(size))
            and first_steps.run(stream_id, payload, size)
        ):
            self._receive_request_response(stream_id, payload, size)

    def _receive_request_response(self, stream_id: int, payload: Payload, size: int) -> None:
        """Run, queue or refuse a whole REQUEST_RESPONSE."""
        workload = self._workload
        account = workload.account
        active = workload.active
        if active >= workload.max_active or (active and account.held + size > account.limit):
            self.refuse(stream_id, _REQUEST_RESPONSE, ErrorCode.REJECTED, _TOO_MANY)
            return
        first_steps = self._first_steps
        if first_steps.left and first_steps.run(stream_id, payload, size):
            return
        operation = RequestResponseResponder(self._sender, stream_id, payload, self.responder)
        operation.size = size
        operation.arrived = workload.arrived
        self._table[stream_id] = operation
        workload.active = active + 1
        account.held += size
        workload.queue.append(operation)

    def take_on(
        self,
        frame_type: int,
        stream_id: int,
        flags: int,
        initial_n: int,
        payload: Payload,
        size: int,
    ) -> None:
        """Hand a whole request of ``size`` bytes to the crew, or refuse it for want of room.

        Only the flag COMPLETE is used here, and only for a channel.
        """
        if frame_type == _REQUEST_RESPONSE:
            self._receive_request_response(stream_id, payload, size)
            return
        workload = self._workload
        if not workload.has_room(size):
            self.refuse(stream_id, frame_type, ErrorCode.REJECTED, _TOO_MANY)
            return
        operation: ResponderOperation
        if frame_type == _REQUEST_FNF:
            # The stream ends when the request arrives, so it does not enter the table.
            operation = FireAndForgetResponder(self._sender, stream_id, payload, self.responder)
            workload.add(operation, size)
            return
        if frame_type == _REQUEST_STREAM:
            operation = RequestStreamResponder(
                self._sender, stream_id, payload, self.responder, initial_n
            )
        else:
            operation = channel = RequestChannelResponder(
                self._sender,
                stream_id,
                payload,
                self.responder,
                initial_n,
                complete=bool(flags & COMPLETE),
                window=Window(self._prefetch, uncredited=1),
                max_window=self._limits.max_prefetch,
            )
            self._table[stream_id] = channel
            channel.take_first()
            workload.add(channel, size)
            return
        self._table[stream_id] = operation
        workload.add(operation, size)

    # -- less frequent calls ----------------------------------------------------------------

    def take_on_whole(self, request: FragmentedRequest, payload: Payload) -> None:
        """Do as `take_on` with a request in fragments that is whole: it came with its first."""
        workload = self._workload
        now, workload.arrived = workload.arrived, request.arrived
        size = len(payload.data) + len(payload.metadata or b"")
        self.take_on(
            request.frame_type,
            request.stream_id,
            request.complete,
            request.initial_n,
            payload,
            size,
        )
        workload.arrived = now

    def take_on_body(
        self, request: FragmentedRequest, payload: Payload, responder: Answers[PayloadBody]
    ) -> None:
        """Accept a request that ``responder`` reads while it arrives; ``payload`` has arrived."""
        stream_id = request.stream_id
        size = len(payload.data) + len(payload.metadata or b"")
        if self.refuse_without_room(request, size):
            return
        operation = responder_of_body(
            request.frame_type,
            self._sender,
            stream_id,
            responder,
            request.initial_n,
        )
        self._table[stream_id] = operation
        operation.take(payload.metadata, payload.data)
        self._workload.add(operation, size)
        operation.arrived = request.arrived

    def receive_metadata_push(self, metadata: bytes) -> None:
        """Receive a METADATA_PUSH frame; it is best effort, so beyond the limits it is dropped."""
        size = len(metadata)
        if size > self._max_metadata:
            self._drop(Interaction.METADATA_PUSH, too_much_metadata(self._max_metadata))
        elif self.refused is not None or not self._workload.has_room(size):
            self._drop(Interaction.METADATA_PUSH, self.refused or _TOO_MANY)
        else:
            operation = MetadataPushResponder(self._sender, metadata, self.responder)
            self._workload.add(operation, size)

    def refuse(self, stream_id: int, frame_type: int, code: int, text: str) -> None:
        """Refuse a request; a fire_and_forget is dropped without an answer."""
        if frame_type != _REQUEST_FNF:
            self._sender.send_control(encode_error(stream_id, code, text.encode()))
        else:
            self._drop(Interaction.FIRE_AND_FORGET, text)

    def drain(self, _error: Exception) -> None:
        """Refuse new requests from now on; accepted requests are answered."""
        self.refused = "the connection is being closed"

    def end(self, _error: Exception, _last_words: bytes | None) -> None:
        """Refuse the remaining requests of the last read: the connection is over."""
        self.refused = "the connection is over"
        # No request of the queue begins any more; those with an answer see the end themselves.
        lost = sum(isinstance(each, FireAndForgetResponder) for each in self._workload.queue)
        if lost:
            self.dropped[Interaction.FIRE_AND_FORGET] += lost
            logger.info("%d fire_and_forget dropped: %s", lost, self.refused)

    def _drop(self, what: Interaction, reason: str) -> None:
        """Count and log a dropped message. Only the first is a warning: a peer cannot fill a disk.

        The peer is not told.
        """
        self.dropped[what] += 1
        count = self.dropped[what]
        level = logging.WARNING if count == 1 else logging.DEBUG
        logger.log(level, "%s dropped (number %d of this connection): %s", what, count, reason)

    def _begin_fragmented(
        self,
        frame_type: int,
        stream_id: int,
        flags: int,
        initial_n: int,
        metadata: bytes | None,
        data: bytes,
    ) -> None:
        """Begin to assemble a request, with its first fragment."""
        if self._workload.active + len(self._incomplete) >= self._limits.max_active_requests:
            self.refuse(stream_id, frame_type, ErrorCode.REJECTED, _TOO_MANY)
            return
        request = FragmentedRequest(self, self._sender, frame_type, stream_id, initial_n)
        request.assembling = self._sender.memory.reassembler(stream_id, self._max_metadata)
        # C beside F in REQUEST_CHANNEL applies to the whole payload.
        request.complete = flags & COMPLETE
        request.arrived = self._workload.arrived
        self._incomplete.add(request)
        self._table[stream_id] = request
        request.receive_payload(FOLLOWS, metadata, data)

    def refuse_without_room(self, request: FragmentedRequest, size: int) -> bool:
        """Refuse a request in fragments, if it has no room with the ``size`` bytes that it has."""
        if self._workload.has_room(size):
            return False
        self.refuse(request.stream_id, request.frame_type, ErrorCode.REJECTED, _TOO_MANY)
        return True

    def forget(self, request: FragmentedRequest) -> None:
        """Remove a request in fragments that is taken on or refused already, or was given up.

        Not before: without it a connection that drains may have nothing open, and end.
        """
        self._incomplete.discard(request)
        self._sender.finish(request)
