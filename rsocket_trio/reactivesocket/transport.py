"""A connection to a peer of the draft, for an engine of RSocket 1.0: `ReactiveSocketTransport`.

It wraps the transport of the draft's frames and translates both ways, so that requester, responder,
demand and limits are the same for both protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from ..errors import ErrorCode, RemoteProtocolError
from ..transports.base import Capabilities, FrameTransport, TransportInfo
from ..transports.wrapper import TransportWrapper
from .frames.length import PREFIX_SIZE, encode_length
from .incoming import Incoming
from .outgoing import Outgoing
from .recognition import has_length
from .translated_streams import TranslatedStreams

__all__ = ["ReactiveSocketTransport"]

_OVERHEAD: Final = 20
"""The most bytes of a frame besides data and metadata: length, header, n and metadata length."""


_AT_ONCE: Final = 256
"""The most frames translated before another task may run; each takes about ten microseconds."""


class ReactiveSocketTransport(TransportWrapper):
    """Carries frames of RSocket 1.0 to and from a peer that speaks the draft.

    It owns the inner transport, and closes it. `TransportInfo.extra` has
    ``protocol="reactivesocket"``. On a server it has ``strict=True`` if the client's SETUP asks for
    strict interpretation of the setup payload: an acceptor must then refuse a payload that it does
    not understand.

    Args:
        inner: The transport that carries the frames of the draft. For byte streams give
            ``connect`` or ``serve_transport`` the `ByteStreamTransport` itself.
        client: Whether we are the client of the connection.
        with_length: Whether each message has a length before its frame: only byte streams should
            have it, but some peers need it. By default we send none until the peer's first message
            shows its form. We read both forms.
    """

    def __init__(
        self, inner: FrameTransport, *, client: bool, with_length: bool | None = None
    ) -> None:
        super().__init__(inner)
        self._capabilities = attrs.evolve(
            inner.capabilities,
            frame_overhead=inner.capabilities.frame_overhead + _OVERHEAD,
            fragmented_requests=False,
            uncredited_requests=True,
            subscriptions=True,
            translates_frames=True,
        )
        table = TranslatedStreams(client=client)
        self._incoming = Incoming(table, client=client)
        self._outgoing = Outgoing(table)
        self._with_length = with_length
        self._unread: list[bytes] = []
        self._unsent: list[bytes] = []
        self._failure: RemoteProtocolError | None = None
        self._strict = False

    @property
    def info(self) -> TransportInfo:  # type: ignore[override]  # read-only: the inner one sets it
        """See `FrameTransport.info`."""
        info = self.inner.info
        extra = {**info.extra, "protocol": "reactivesocket"}
        if self._strict:
            extra["strict"] = True
        return attrs.evolve(info, extra=extra)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # as above
        """See `FrameTransport.capabilities`."""
        return self._capabilities

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`.

        Raises:
            LocalProtocolError: A frame cannot be translated into the draft; nothing was sent.
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as the inner transport, and if there are hundreds of frames.
        If cancelled: frames may have been sent in part; you can only close the transport then.
        """
        messages = self._translate_out(frames[:_AT_ONCE])
        for start in range(_AT_ONCE, len(frames), _AT_ONCE):
            # For a peer that did not read for a while there may be tens of thousands of frames.
            await trio.lowlevel.checkpoint()
            messages += self._translate_out(frames[start : start + _AT_ONCE])
        await self.inner.send_frames(messages)

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`.

        Raises:
            LocalProtocolError: A frame cannot be translated into the draft; nothing was sent.
            trio.WouldBlock: There are so many frames that other tasks must run in between.
        """
        if len(frames) > _AT_ONCE:
            raise trio.WouldBlock
        messages = self._translate_out(frames)
        try:
            return self.inner.send_frames_nowait(messages)
        except Exception:  # any error of the inner transport; `send_frames` will raise it
            # Frames cannot be translated twice, so the translated ones are kept for `send_frames`.
            self._unsent = messages
            return False

    def _translate_out(self, frames: Sequence[bytes]) -> list[bytes]:
        translated: list[bytes] = []
        for frame in frames:
            translated += self._outgoing.translate(frame)
        if self._with_length:
            translated = [encode_length(frame) + frame for frame in translated]
        unsent, self._unsent = self._unsent, []
        return unsent + translated

    def push_back(self, frames: list[bytes]) -> None:
        """Give back frames of the draft that were received already, for `receive_frames`."""
        self._unread += frames

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`.

        Raises:
            RemoteProtocolError: The peer sent something that is not a frame, or is not allowed;
                the code is INVALID_SETUP before a valid SETUP. Frames before it are returned first.
            trio.BrokenResourceError: The connection broke, or ended inside a frame.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        while True:
            if self._failure is not None or self._unread:
                await trio.lowlevel.checkpoint()
            if self._failure is not None:
                raise self._failure
            try:
                frames = self._unread or await self.inner.receive_frames()
            except RemoteProtocolError as error:
                self._fail(error)
                continue
            if not frames:
                return []
            self._unread = frames[_AT_ONCE:]
            if translated := self._translate(frames[:_AT_ONCE]):
                return translated

    def _translate(self, frames: list[bytes]) -> list[bytes]:
        """Translate frames, up to the first one that closes the connection."""
        incoming = self._incoming
        if self._with_length is None:
            self._with_length = has_length(frames[0])
        if self._with_length:
            frames = [frame[PREFIX_SIZE:] if has_length(frame) else frame for frame in frames]
        established = incoming.established
        translated: list[bytes] = []
        try:
            for frame in frames:
                translated += incoming.translate(frame)
        except RemoteProtocolError as error:
            self._fail(error)
        if not established and incoming.setup is not None and incoming.setup.strict:
            self._strict = True
        return translated

    def _fail(self, error: RemoteProtocolError) -> None:
        if not self._incoming.established:
            # "Connection Establishment": the answer to anything but a valid SETUP is INVALID_SETUP.
            error.code = ErrorCode.INVALID_SETUP
        self._failure = error
