"""Translate frames of RSocket 1.0 into frames of the draft, to be sent: `Outgoing`. No I/O.

Each frame is translated at once and not queued, as only the engine counts queued bytes. The engine
knows from `Capabilities` which features the draft does not have.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import ErrorCode, LocalProtocolError
from rsocket_trio.frames import CancelFrame as EngineCancel
from rsocket_trio.frames import ErrorFrame as EngineError
from rsocket_trio.frames import KeepaliveFrame as EngineKeepalive
from rsocket_trio.frames import LeaseFrame as EngineLease
from rsocket_trio.frames import MetadataPushFrame as EngineMetadataPush
from rsocket_trio.frames import PayloadFrame, decode
from rsocket_trio.frames import RequestChannelFrame as EngineChannel
from rsocket_trio.frames import RequestFnfFrame as EngineFnf
from rsocket_trio.frames import RequestNFrame as EngineRequestN
from rsocket_trio.frames import RequestResponseFrame as EngineRequestResponse
from rsocket_trio.frames import RequestStreamFrame as EngineStream
from rsocket_trio.frames import SetupFrame as EngineSetup
from rsocket_trio.frames.header import HEADER
from rsocket_trio.transports.base import SUBSCRIPTION

from ..protocol.interaction import Interaction
from .error_codes import reason_fields
from .frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
    SetupFrame,
)
from .translated_streams import Stream, TranslatedStreams

__all__ = ["Outgoing"]

_OVER: Final = b"the subscription is over"

_Request = EngineRequestResponse | EngineFnf | EngineStream


class Outgoing:
    """Translates the frames that the engine sends, one by one."""

    def __init__(self, table: TranslatedStreams) -> None:
        self._table = table

    def translate(self, frame: bytes) -> list[bytes]:
        """Translate one frame of RSocket 1.0, made by the engine.

        Returns:
            Frames of the draft: usually one; none if the draft has no such frame, or if the stream
            is already over.

        Raises:
            LocalProtocolError: A value does not fit; or the frame is the first fragment of a
                request, and in the draft only channels have fragments.
        """
        decoded = decode(frame)
        match decoded:
            case PayloadFrame():
                return self._payload(decoded)
            case EngineRequestResponse() | EngineFnf() | EngineStream():
                return self._request(decoded, frame)
            case EngineChannel():
                return self._channel(decoded)
            case EngineRequestN():
                return self._request_n(decoded)
            case EngineCancel():
                return self._cancel(decoded)
            case EngineError():
                return self._error(decoded)
            case EngineKeepalive():
                return [KeepaliveFrame(decoded.respond, decoded.data).encode()]
            case EngineMetadataPush():
                return [MetadataPushFrame(decoded.metadata).encode()]
            case EngineSetup():
                return [_translate_setup(decoded)]
            case EngineLease():
                metadata = decoded.metadata or None
                lease = LeaseFrame(decoded.time_to_live_ms, decoded.number_of_requests, metadata)
                return [lease.encode()]
            case _:
                return []  # EXT and the frames of resumption

    # -- requests of ours -------------------------------------------------------------------

    def _request(self, frame: _Request, encoded: bytes) -> list[bytes]:
        if frame.follows:
            raise LocalProtocolError(
                f"{frame.frame_type.name} cannot be sent in fragments to a peer that speaks the "
                "ReactiveSocket draft: send it in one frame"
            )
        interaction = _interaction(frame)
        subscription = _is_subscription(encoded)
        stream = self._table.open_ours(interaction, frame.stream_id, subscription=subscription)
        stream_id = stream.wire_id
        # Without empty metadata: it is legal, but some peers cannot read it.
        metadata, data = frame.metadata or None, frame.data
        request: RequestResponseFrame | RequestFnfFrame | RequestStreamFrame | RequestSubFrame
        if interaction is Interaction.REQUEST_RESPONSE:
            request = RequestResponseFrame(stream_id, metadata, data)
        elif interaction is Interaction.FIRE_AND_FORGET:
            self._table.close(stream)  # fire-and-forget ends with its request
            request = RequestFnfFrame(stream_id, metadata, data)
        else:
            assert isinstance(frame, EngineStream)
            make = RequestSubFrame if subscription else RequestStreamFrame
            # N has no meaning on these two, but some peers read n only if it is set.
            request = make(stream_id, frame.initial_request_n, metadata, data, n_flag=True)
        return [request.encode()]

    def _channel(self, frame: EngineChannel) -> list[bytes]:
        stream = self._table.open_ours(Interaction.REQUEST_CHANNEL, frame.stream_id)
        stream.requester_done = frame.complete
        channel = RequestChannelFrame(
            stream.wire_id,
            frame.initial_request_n,
            follows=frame.follows,
            complete=frame.complete,
            metadata=frame.metadata or None,
            data=frame.data,
        )
        return [channel.encode()]

    # -- items ------------------------------------------------------------------------------

    def _payload(self, frame: PayloadFrame) -> list[bytes]:
        stream = self._table.by_engine.get(frame.stream_id)
        if stream is None:
            return []
        return (self._channel_item if stream.ours else self._response)(stream, frame)

    @staticmethod
    def _channel_item(stream: Stream, frame: PayloadFrame) -> list[bytes]:
        stream.requester_done = frame.complete
        # N and an n of 0 on later frames: some peers read an n even if N is clear.
        item = RequestChannelFrame(
            stream.wire_id,
            0,
            follows=frame.follows,
            complete=frame.complete,
            metadata=frame.metadata or None,
            data=frame.data,
        )
        return [item.encode()]

    def _response(self, stream: Stream, frame: PayloadFrame) -> list[bytes]:
        stream_id = stream.wire_id
        metadata, data = frame.metadata or None, frame.data
        if not frame.complete:
            return [ResponseFrame(stream_id, frame.follows, False, metadata, data).encode()]
        self._table.close_answered(stream)
        ending: ResponseFrame | ErrorFrame = ResponseFrame(stream_id, False, True)
        if stream.subscription:
            # "Request Subscription" has no COMPLETE: a responder can end one only with an ERROR.
            ending = ErrorFrame(stream_id, ErrorCode.CANCELED, None, _OVER)
        elif stream.interaction is Interaction.REQUEST_RESPONSE or metadata or data:
            return [ResponseFrame(stream_id, False, True, metadata, data).encode()]
        if not frame.next:
            return [ending.encode()]
        # C without data would be a completion without an item, so the item is sent on its own.
        return [ResponseFrame(stream_id, False, False, metadata, data).encode(), ending.encode()]

    # -- the rest ---------------------------------------------------------------------------

    def _request_n(self, frame: EngineRequestN) -> list[bytes]:
        stream = self._table.by_engine.get(frame.stream_id)
        if stream is None:
            return []
        return [RequestNFrame(stream.wire_id, frame.n).encode()]

    def _cancel(self, frame: EngineCancel) -> list[bytes]:
        stream = self._table.by_engine.get(frame.stream_id)
        # In the draft a responder cannot end one half by CANCEL; it only stops granting credit.
        if stream is None or not stream.ours:
            return []
        self._table.close(stream)
        return [CancelFrame(stream.wire_id).encode()]

    def _error(self, frame: EngineError) -> list[bytes]:
        stream_id = 0
        if frame.stream_id:
            stream = self._table.by_engine.get(frame.stream_id)
            if stream is None:
                return []
            if stream.ours:
                self._table.close(stream)
            else:
                self._table.close_answered(stream)
            stream_id = stream.wire_id
        elif frame.code == ErrorCode.CONNECTION_CLOSE:
            return []  # the draft cannot announce an end; the open streams finish as usual
        metadata, data = reason_fields(frame.code, frame.data)
        return [ErrorFrame(stream_id, frame.code, metadata, data).encode()]


def _interaction(frame: _Request) -> Interaction:
    if isinstance(frame, EngineRequestResponse):
        return Interaction.REQUEST_RESPONSE
    return (
        Interaction.FIRE_AND_FORGET if isinstance(frame, EngineFnf) else Interaction.REQUEST_STREAM
    )


def _is_subscription(encoded: bytes) -> bool:
    _, type_and_flags = HEADER.unpack_from(encoded)
    return bool(type_and_flags & SUBSCRIPTION)


def _translate_setup(frame: EngineSetup) -> bytes:
    return SetupFrame(
        0,
        frame.keepalive_interval_ms,
        frame.max_lifetime_ms,
        lease=frame.lease,
        metadata_mime_type=frame.metadata_mime_type,
        data_mime_type=frame.data_mime_type,
        metadata=frame.metadata or None,
        data=frame.data,
    ).encode()
