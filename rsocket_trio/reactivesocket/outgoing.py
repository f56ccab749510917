"""Frames of RSocket 1.0 in, frames of the draft out: `Outgoing`. Pure.

Everything is translated as it comes, and nothing waits here: what waits is counted, and that is the
engine's business. It knows what the draft cannot do (`Capabilities`).
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
    """Translates what the engine sends, frame by frame."""

    def __init__(self, table: TranslatedStreams) -> None:
        self._table = table

    def translate(self, frame: bytes) -> list[bytes]:
        """Translate one frame of 1.0, which the engine has made.

        Returns:
            What it is in the draft: mostly one frame; none where the draft has nothing like it, or
            where its stream is over already.

        Raises:
            LocalProtocolError: It does not fit; or it is the first fragment of a request, and the
                draft has fragments of channels only.
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
                return []  # EXT, and all of resumption

    # -- requests of ours -------------------------------------------------------------------

    def _request(self, frame: _Request, encoded: bytes) -> list[bytes]:
        if frame.follows:
            raise LocalProtocolError(
                f"{frame.frame_type.name} cannot be cut into fragments for the ReactiveSocket draft"
            )
        interaction = _interaction(frame)
        subscription = _is_subscription(encoded)
        stream = self._table.open_ours(interaction, frame.stream_id, subscription=subscription)
        stream_id = stream.wire_id
        # Metadata that is present and empty is legal, and more than some peers can read.
        metadata, data = frame.metadata or None, frame.data
        request: RequestResponseFrame | RequestFnfFrame | RequestStreamFrame | RequestSubFrame
        if interaction is Interaction.REQUEST_RESPONSE:
            request = RequestResponseFrame(stream_id, metadata, data)
        elif interaction is Interaction.FIRE_AND_FORGET:
            self._table.close(stream)  # over when sent
            request = RequestFnfFrame(stream_id, metadata, data)
        else:
            assert isinstance(frame, EngineStream)
            make = RequestSubFrame if subscription else RequestStreamFrame
            # N means nothing on these two, but there are peers that take it for the sign of n.
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
        # N and an n of 0 on later frames: without it some peers read four bytes too many.
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
            # "Request Subscription" has no COMPLETE: an ERROR is the only end a responder has.
            ending = ErrorFrame(stream_id, ErrorCode.CANCELED, None, _OVER)
        elif stream.interaction is Interaction.REQUEST_RESPONSE or metadata or data:
            return [ResponseFrame(stream_id, False, True, metadata, data).encode()]
        if not frame.next:
            return [ending.encode()]
        # C without data would be completion only.
        return [ResponseFrame(stream_id, False, False, metadata, data).encode(), ending.encode()]

    # -- the rest ---------------------------------------------------------------------------

    def _request_n(self, frame: EngineRequestN) -> list[bytes]:
        stream = self._table.by_engine.get(frame.stream_id)
        if stream is None:
            return []
        return [RequestNFrame(stream.wire_id, frame.n).encode()]

    def _cancel(self, frame: EngineCancel) -> list[bytes]:
        stream = self._table.by_engine.get(frame.stream_id)
        # The draft has no CANCEL of the responder's that ends one half: it grants no more.
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
            return []  # the draft can only end all at once; the streams finish as they would
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
