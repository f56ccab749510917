"""A connection to a peer of the draft, for an engine of RSocket 1.0: `ReactiveSocketTransport`.

It wraps what carries the frames and translates both ways, so that requester, responder, demand and
limits are the same on both wires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from ..config import MIN_FRAGMENT_SIZE, ConnectionConfig
from ..errors import ErrorCode, RemoteProtocolError
from ..transports.base import FrameTransport
from .frames.length import PREFIX_SIZE, encode_length
from .incoming import Incoming
from .outgoing import Outgoing
from .recognition import has_length
from .streams import StreamTable

__all__ = ["ReactiveSocketTransport", "fitted"]

_OVERHEAD: Final = 20
"""What a frame holds beside data and metadata, at most: length, header, n and metadata length."""


def fitted(config: ConnectionConfig) -> ConnectionConfig:
    """The settings of an engine whose frames are translated, which makes them longer."""
    largest = max(config.limits.max_frame_size - _OVERHEAD, MIN_FRAGMENT_SIZE)
    return attrs.evolve(
        config,
        fragment_size=min(config.fragment_size, largest),
        limits=attrs.evolve(config.limits, max_frame_size=largest),
    )


class ReactiveSocketTransport(FrameTransport):
    """Carries frames of RSocket 1.0 to and from a peer that speaks the draft.

    It owns the carrier: closing the one closes the other. `TransportInfo.extra` says
    ``protocol="reactivesocket"``, and on a server ``strict=True`` where the client's SETUP asked
    for strict interpretation of the setup payload: an acceptor shall refuse then what it does not
    understand.

    Args:
        carrier: What carries the frames of the draft, as they are. For byte streams give
            ``connect`` or ``serve_transport`` the `ByteStreamTransport` itself.
        client: Whether we are the client of the connection.
        with_length: Whether each message has the length before its frame that only byte streams
            should have: there are peers that insist on it. By default none is sent until the
            peer's first message shows which form it uses; both are read.
    """

    def __init__(
        self, carrier: FrameTransport, *, client: bool, with_length: bool | None = None
    ) -> None:
        extra = {**carrier.info.extra, "protocol": "reactivesocket"}
        self.info = attrs.evolve(carrier.info, extra=extra)
        self.carrier = carrier
        table = StreamTable(client=client)
        self._incoming = Incoming(table, client=client)
        self._outgoing = Outgoing(table)
        self._with_length = with_length
        self._unread: list[bytes] = []
        self._due: list[bytes] = []
        self._failure: RemoteProtocolError | None = None
        self._wake_writer: Callable[[], None] | None = None

    @property
    def wake_writer(self) -> Callable[[], None] | None:
        """See `FrameTransport.wake_writer`."""
        return self._wake_writer

    @wake_writer.setter
    def wake_writer(self, wake: Callable[[], None] | None) -> None:
        self._wake_writer = self.carrier.wake_writer = wake

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`.

        Raises:
            LocalProtocolError: A frame cannot be said in the draft; nothing was sent.
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: frames may have been sent in part; the transport is good only for closing.
        """
        translate = self._outgoing.translate
        translated, self._due = self._due, []
        for frame in frames:
            translated += translate(frame)
        if self._with_length:
            translated = [encode_length(frame) + frame for frame in translated]
        await self.carrier.send_frames(translated)

    def push_back(self, frames: list[bytes]) -> None:
        """Let `receive_frames` find frames of the draft that have been read already."""
        self._unread += frames

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`.

        Raises:
            RemoteProtocolError: What arrives is no frame, or not understood; its code is
                INVALID_SETUP where a SETUP was expected. Frames before it are returned first.
            trio.BrokenResourceError: The connection broke, or ended inside a frame.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always, unless frames had been pushed back.
        If cancelled: nothing is lost; call again.
        """
        while True:
            if self._failure is not None:
                await trio.lowlevel.checkpoint()
                raise self._failure
            frames, self._unread = self._unread, []
            try:
                frames = frames or await self.carrier.receive_frames()
            except RemoteProtocolError as error:
                self._fail(error)
                continue
            if not frames:
                return []
            if translated := self._translate(frames):
                return translated

    def _translate(self, frames: list[bytes]) -> list[bytes]:
        """All the frames, up to the first that ends the connection."""
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
            self.info = attrs.evolve(self.info, extra={**self.info.extra, "strict": True})
        if incoming.released:
            for frame in incoming.released:
                self._due += self._outgoing.translate(frame)
            incoming.released.clear()
            if self._wake_writer is not None:
                self._wake_writer()
        return translated

    def _fail(self, error: RemoteProtocolError) -> None:
        if not self._incoming.established:
            # "Connection Establishment": anything but a good SETUP is INVALID_SETUP.
            error.code = ErrorCode.INVALID_SETUP
        self._failure = error

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`.

        Checkpoint: as the carrier does.
        If cancelled: it may or may not have been said; close the transport.
        """
        return await self.carrier.close_sending()

    async def aclose(self) -> None:
        """Close the carrier.

        Checkpoint: always.
        If cancelled: closed all the same, forcefully.
        """
        await self.carrier.aclose()
