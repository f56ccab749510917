"""A request of the peer that is not whole yet: `FragmentedRequest`.

It is in the table of streams until the request is whole, or until data have arrived and the
responder wants to read them while they arrive.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Final

from ..errors import RemoteProtocolError
from ..frames.header import COMPLETE, FrameType
from ..interactions.handler_errors import error_frame_for, forget_frames
from ..interactions.isolation import outcome_of
from ..interactions.operation import Operation
from ..protocol.interaction import Interaction

if TYPE_CHECKING:
    from .incoming_requests import IncomingRequests
    from .stream_sender import StreamSender

__all__ = ["FragmentedRequest"]

_REQUEST_RESPONSE: Final = FrameType.REQUEST_RESPONSE.value
_REQUEST_FNF: Final = FrameType.REQUEST_FNF.value
_REQUEST_STREAM: Final = FrameType.REQUEST_STREAM.value
_REQUEST_CHANNEL: Final = FrameType.REQUEST_CHANNEL.value
_INTERACTIONS: Final = {
    _REQUEST_RESPONSE: Interaction.REQUEST_RESPONSE,
    _REQUEST_FNF: Interaction.FIRE_AND_FORGET,
    _REQUEST_STREAM: Interaction.REQUEST_STREAM,
}


class FragmentedRequest(Operation):
    """A request whose next fragments are still to come (PAYLOAD frames on its stream)."""

    __slots__ = ("arrived", "complete", "frame_type", "initial_n", "requests", "undecided")

    arrived: float | None

    def __init__(
        self,
        requests: IncomingRequests,
        sender: StreamSender,
        frame_type: int,
        stream_id: int,
        initial_n: int,
    ) -> None:
        super().__init__(sender, stream_id)
        self.requests = requests
        self.frame_type = frame_type
        self.initial_n = initial_n
        self.complete = 0  # or COMPLETE, once a frame has had this flag
        # Whether the responder may still choose to read the data while they arrive. It cannot
        # choose this for a channel.
        self.undecided = frame_type != _REQUEST_CHANNEL

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        self.complete |= flags & COMPLETE
        try:
            whole = self.whole(flags, metadata, data)
        except RemoteProtocolError as error:
            self.requests.refuse(self.stream_id, self.frame_type, error.code, str(error))
            self._drop()
            return
        if whole is not None:
            payload, _ = whole
            self.requests.take_on_whole(self, payload)
            self.requests.forget(self)
        elif data and self.undecided:
            self._decide()

    def _decide(self) -> None:
        """Ask the responder whether to read the data while they arrive.

        Data have arrived, so the metadata are complete, and the responder can route the request.
        """
        self.undecided = False
        assembling = self.assembling
        if assembling is None:
            return
        if self.requests.refuse_without_room(self, assembling.size):
            self._drop()  # before the metadata are read
            return
        interaction = _INTERACTIONS[self.frame_type]
        try:
            # What it does to the context must not reach a handler.
            responder = copy_context().run(
                self.requests.responder.body_responder, interaction, assembling.metadata
            )
        except BaseException as error:  # as of a handler: it ends this one request
            failure = outcome_of(error)
            answer = error_frame_for(failure, self.stream_id, self.outbound.max_frame_size)
            if self.frame_type != _REQUEST_FNF:
                self.outbound.send_control(answer)
            self._drop()
            forget_frames(failure)
            return
        if responder is not None:
            self.assembling = None
            so_far = assembling.finish()
            self.requests.take_on_body(self, so_far, responder)
            self.requests.forget(self)

    def receive_request_n(self, n: int) -> None:
        # A requester may grant more demand at any time, also before its request is whole.
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
