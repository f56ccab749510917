"""Translate received frames of the draft into frames of RSocket 1.0: `Incoming`. No I/O.

It applies the rules that only the draft has: a frame with an impossible metadata length is ignored,
a RESPONSE to a REQUEST_RESPONSE always completes it, and the responder's completion of a channel
ends both halves. The engine checks all other rules.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.errors import (
    ErrorCode,
    MalformedFrame,
    MetadataLengthError,
    RemoteProtocolError,
)
from rsocket_trio.frames import FrameType as EngineType
from rsocket_trio.frames import LeaseFrame as EngineLease
from rsocket_trio.frames import SetupFrame as EngineSetup
from rsocket_trio.frames import (
    encode_cancel,
    encode_error,
    encode_keepalive,
    encode_metadata_push,
    encode_payload,
    encode_request,
    encode_request_n,
)
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, MAX_U31, NEXT

from ..protocol.interaction import Interaction
from .error_codes import read_code, read_reason
from .frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    Frame,
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
    decode,
)
from .translated_streams import Stream, TranslatedStreams

__all__ = ["Incoming"]

# The translated frame may be 4 bytes longer: it may get an initial n that the draft's has not.
_LARGEST: Final = MAX_FRAME_SIZE - 4
# 0, and the 0.1 that some implementations sent for the same protocol.
_VERSIONS: Final = frozenset((0, 1))
_UNLIMITED: Final = MAX_U31
_ZERO_N: Final = bytes(4)


class Incoming:
    """Translates the frames that a peer of the draft sends, one by one.

    Attributes:
        setup: On a server: the client's SETUP, when a valid one has arrived.
    """

    def __init__(self, table: TranslatedStreams, *, client: bool) -> None:
        self.setup: SetupFrame | None = None
        self._table = table
        self._client = client

    def translate(self, frame: bytes) -> list[bytes]:
        """Translate one frame.

        Returns:
            Frames of RSocket 1.0: usually one; none if the frame must be ignored.

        Raises:
            RemoteProtocolError: It closes the connection, with the error's code.
        """
        if len(frame) > _LARGEST:
            raise RemoteProtocolError(
                f"a frame of {len(frame)} bytes is longer than the limit of {_LARGEST}"
            )
        try:
            decoded = decode(frame)
        except MetadataLengthError:
            return []  # "Metadata Optional Header": "the entire frame MUST be ignored"
        except MalformedFrame as error:
            if error.ignorable and self.established:
                return []
            raise
        if self.established:
            return self._dispatch(decoded)
        if not isinstance(decoded, SetupFrame) or decoded.stream_id:
            raise RemoteProtocolError("the first frame must be SETUP, on stream 0")
        translated = _translate_setup(decoded)
        self.setup = decoded
        return [translated]

    @property
    def established(self) -> bool:
        """Whether the first frame was valid; errors before that have the code INVALID_SETUP."""
        return self._client or self.setup is not None

    def _dispatch(self, frame: Frame) -> list[bytes]:
        match frame:
            case ResponseFrame():
                return self._response(frame)
            case RequestResponseFrame():
                return self._request(
                    frame, Interaction.REQUEST_RESPONSE, EngineType.REQUEST_RESPONSE
                )
            case RequestFnfFrame():
                return self._request(frame, Interaction.FIRE_AND_FORGET, EngineType.REQUEST_FNF)
            case RequestStreamFrame():
                return self._stream(frame)
            case RequestSubFrame():
                return self._stream(frame, subscription=True)
            case RequestChannelFrame():
                return self._channel(frame)
            case RequestNFrame():
                return self._request_n(frame)
            case CancelFrame():
                return self._cancel(frame)
            case ErrorFrame():
                return self._error(frame)
            case ExtFrame():
                if frame.ignore:
                    return []
                raise RemoteProtocolError(
                    f"EXT with the unknown extended type 0x{frame.extended_type:x}"
                )
            case _:
                return [] if frame.stream_id else self._zero(frame)

    # -- stream 0 ---------------------------------------------------------------------------

    @staticmethod
    def _zero(frame: SetupFrame | LeaseFrame | KeepaliveFrame | MetadataPushFrame) -> list[bytes]:
        match frame:
            case KeepaliveFrame():
                return [encode_keepalive(frame.respond, 0, frame.data)]
            case MetadataPushFrame():
                return [encode_metadata_push(frame.metadata)]
            case LeaseFrame():
                time_to_live = min(frame.time_to_live_ms, MAX_U31)
                requests = min(frame.number_of_requests, MAX_U31)
                return [EngineLease(time_to_live, requests, frame.metadata).encode()]
            case _:
                return []  # a second SETUP, or one to a client

    # -- requests of the peer ---------------------------------------------------------------

    def _is_new(self, stream_id: int) -> bool:
        # "Receiving a Request frame on a Stream ID that is already in use MUST be ignored."
        return stream_id != 0 and stream_id not in self._table.by_wire

    def _request(
        self,
        frame: RequestResponseFrame | RequestFnfFrame,
        interaction: Interaction,
        engine_type: EngineType,
    ) -> list[bytes]:
        if not self._is_new(frame.stream_id):
            return []
        stream = self._table.open_theirs(interaction, frame.stream_id)
        if interaction is Interaction.FIRE_AND_FORGET:
            self._table.close(stream)  # fire-and-forget ends with its request
        request = encode_request(engine_type, stream.engine_id, 0, None, frame.metadata, frame.data)
        return [request]

    def _stream(
        self, frame: RequestStreamFrame | RequestSubFrame, *, subscription: bool = False
    ) -> list[bytes]:
        if not self._is_new(frame.stream_id):
            return []
        stream = self._table.open_theirs(
            Interaction.REQUEST_STREAM, frame.stream_id, subscription=subscription
        )
        n = min(frame.initial_request_n, MAX_U31)
        request = encode_request(
            EngineType.REQUEST_STREAM, stream.engine_id, 0, n, frame.metadata, frame.data
        )
        return [request]

    def _channel(self, frame: RequestChannelFrame) -> list[bytes]:
        table = self._table
        if not frame.stream_id:
            return []
        stream = table.by_wire.get(frame.stream_id)
        if stream is not None:
            return self._channel_item(frame, stream)
        n = frame.initial_request_n or 0
        if not n and table.is_straggler(frame.stream_id):
            if frame.complete:
                table.forget_straggler(frame.stream_id)
            return []
        stream = table.open_theirs(Interaction.REQUEST_CHANNEL, frame.stream_id)
        stream.requester_done = frame.complete
        request = encode_request(
            EngineType.REQUEST_CHANNEL,
            stream.engine_id,
            _flags(follows=frame.follows, complete=frame.complete),
            min(n, MAX_U31),
            frame.metadata,
            frame.data,
        )
        return [request]

    @staticmethod
    def _channel_item(frame: RequestChannelFrame, stream: Stream) -> list[bytes]:
        # With credit it would be a second initial frame, on an id that is in use.
        if (
            stream.ours
            or stream.interaction is not Interaction.REQUEST_CHANNEL
            or stream.requester_done
            or frame.initial_request_n
        ):
            return []
        data = frame.data
        if frame.complete and frame.initial_request_n is None and data == _ZERO_N:
            data = b""  # an initial n, from peers that always write the field
        stream.requester_done = frame.complete
        flags = _flags(follows=frame.follows, complete=frame.complete)
        if data or frame.metadata or not frame.complete:
            flags |= NEXT
        return [encode_payload(stream.engine_id, flags, frame.metadata, data)]

    def _request_n(self, frame: RequestNFrame) -> list[bytes]:
        stream = self._table.by_wire.get(frame.stream_id)
        if stream is None or not frame.n:
            return []
        return [encode_request_n(stream.engine_id, min(frame.n, MAX_U31))]

    # -- both sides -------------------------------------------------------------------------

    def _cancel(self, frame: CancelFrame) -> list[bytes]:
        stream = self._table.by_wire.get(frame.stream_id)
        if stream is None:
            self._table.forget_straggler(frame.stream_id)
            return []
        if not stream.ours:
            self._table.close(stream)
            return [encode_cancel(stream.engine_id)]
        if stream.interaction is not Interaction.REQUEST_CHANNEL:
            return []
        # Not a CANCEL: from a responder of 1.0 it leaves the other half open.
        self._table.close(stream)
        return [encode_error(stream.engine_id, ErrorCode.CANCELED, b"the peer sent CANCEL")]

    def _error(self, frame: ErrorFrame) -> list[bytes]:
        engine_id = 0
        if frame.stream_id:
            stream = self._table.by_wire.get(frame.stream_id)
            if stream is None:
                self._table.forget_straggler(frame.stream_id)
                return []
            if not stream.ours and stream.interaction is not Interaction.REQUEST_CHANNEL:
                return []
            self._table.close(stream)
            engine_id = stream.engine_id
        code = read_code(frame.code, frame.stream_id)
        return [encode_error(engine_id, code, read_reason(frame.metadata, frame.data))]

    # -- answers to us ----------------------------------------------------------------------

    def _response(self, frame: ResponseFrame) -> list[bytes]:
        stream = self._table.by_wire.get(frame.stream_id)
        if stream is None or not stream.ours:
            return []
        single = stream.interaction is Interaction.REQUEST_RESPONSE
        # "If a RESPONSE for a REQUEST_RESPONSE is received that does not have a COMPLETE flag
        # set, the implementation MUST assume it is set".
        complete = frame.complete or (single and not frame.follows)
        flags = _flags(follows=frame.follows, complete=complete)
        if single or frame.data or frame.metadata or not complete:
            flags |= NEXT
        frames = [encode_payload(stream.engine_id, flags, frame.metadata, frame.data)]
        if complete:
            self._table.close(stream)
            if stream.interaction is Interaction.REQUEST_CHANNEL and not stream.requester_done:
                # "Upon receiving a COMPLETE or ERROR, the stream is terminated on the Requester":
                # in 1.0 the requester's half ends only with a CANCEL.
                frames.append(encode_cancel(stream.engine_id))
        return frames


def _flags(*, follows: bool, complete: bool) -> int:
    # F has no meaning together with C.
    return COMPLETE if complete else FOLLOWS * follows


def _translate_setup(frame: SetupFrame) -> bytes:
    """Return the SETUP for the engine.

    Raises:
        RemoteProtocolError: It has another version.
    """
    if frame.version not in _VERSIONS:
        raise RemoteProtocolError(
            f"version 0x{frame.version:08x} in SETUP is not that of the ReactiveSocket draft, 0"
        )
    # The draft allows any time. Without KEEPALIVE the loss of a client cannot be noticed, so its
    # lifetime has no limit then. Clients of that time also sent a lifetime of 0 for "no limit".
    keepalive = min(frame.keepalive_interval_ms, MAX_U31) or _UNLIMITED
    lifetime = min(frame.max_lifetime_ms, MAX_U31) or _UNLIMITED
    return EngineSetup(
        1,
        0,
        keepalive,
        _UNLIMITED if keepalive == _UNLIMITED else lifetime,
        lease=frame.lease,
        metadata_mime_type=_ascii(frame.metadata_mime_type),
        data_mime_type=_ascii(frame.data_mime_type),
        metadata=frame.metadata,
        data=frame.data,
    ).encode()


def _ascii(mime_type: str) -> str:
    return mime_type.encode("ascii", "replace").decode("ascii")
