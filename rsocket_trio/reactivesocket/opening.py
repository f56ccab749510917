"""The first frame decides: `Opening`, the server's end of a connection until its protocol is known.

And what a client or a server that knows already makes of its transport: `speak_reactivesocket`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ..transports.base import FrameTransport
from ..transports.byte_stream import RECEIVE_SIZE, ByteStreamTransport
from .frames import LengthDecoder, encode_length
from .recognition import Wire, has_length, recognise_bytes, recognise_message
from .transport import ReactiveSocketTransport

__all__ = ["PROTOCOLS", "Opening", "check_protocols", "speak_reactivesocket"]

PROTOCOLS: Final = ("rsocket", "reactivesocket")
"""RSocket 1.0, and the draft."""

_FORMS: Final = (Wire.REACTIVESOCKET, Wire.REACTIVESOCKET_WITH_LENGTH)


def check_protocols(protocols: Collection[str]) -> None:
    """Refuse names that mean nothing.

    Raises:
        ValueError: There is such a name, or none at all.
    """
    if isinstance(protocols, str) or not protocols or not set(protocols) <= set(PROTOCOLS):
        names = " and ".join(map(repr, PROTOCOLS))
        raise ValueError(f"protocols are {names}, one or both, not {protocols!r}")


def speak_reactivesocket(
    transport: FrameTransport,
    *,
    client: bool,
    max_frame_size: int,
    with_length: bool | None = None,
) -> ReactiveSocketTransport:
    """Speak the draft over a transport that has not been used yet.

    Args:
        transport: A byte stream, or anything that keeps messages apart; owned by the result.
        client: Whether we are the client.
        max_frame_size: The peer's frames may be this long, in bytes.
        with_length: As for `ReactiveSocketTransport`; byte streams always have it.
    """
    if isinstance(transport, ReactiveSocketTransport):
        return transport
    if not isinstance(transport, ByteStreamTransport):
        return ReactiveSocketTransport(transport, client=client, with_length=with_length)
    return _over_bytes(transport, b"", client=client, max_frame_size=max_frame_size)


def _over_bytes(
    transport: ByteStreamTransport, seen: bytes, *, client: bool, max_frame_size: int
) -> ReactiveSocketTransport:
    carrier = ByteStreamTransport(
        transport.stream,
        info=transport.info,
        decoder=LengthDecoder(max_frame_size),
        encode_length=encode_length,
    )
    carrier.push_back(seen)
    return ReactiveSocketTransport(carrier, client=client, with_length=False)


class Opening(FrameTransport):
    """Receives the first frame, in whichever protocol it is, and is done with.

    Args:
        transport: As accepted; its owner closes it.
        protocols: What the server speaks; see `PROTOCOLS`.
        max_frame_size: The peer's frames may be this long, in bytes.

    Attributes:
        chosen: What to go on with: ``transport`` itself for RSocket 1.0, and until it is known.
    """

    def __init__(
        self, transport: FrameTransport, protocols: Collection[str], max_frame_size: int
    ) -> None:
        self.info = transport.info
        self.chosen = transport
        self._transport = transport
        self._draft_only = "rsocket" not in protocols
        self._max_frame_size = max_frame_size
        self._seen = b""
        self._decided = "reactivesocket" not in protocols or isinstance(
            transport, ReactiveSocketTransport
        )

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`; the first call finds out about the protocol.

        Raises:
            RemoteProtocolError: As the transport does.
            trio.BrokenResourceError: Likewise.
            trio.ClosedResourceError: Likewise.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        if self._decided:
            return await self.chosen.receive_frames()
        if isinstance(self._transport, ByteStreamTransport):
            return await self._receive_bytes(self._transport)
        frames = await self._transport.receive_frames()
        if not frames:
            return frames
        self._decided = True
        wire = recognise_message(frames[0])
        if self._draft_only and wire is Wire.RSOCKET:
            # Neither; it is refused in the form it came in.
            wire = _FORMS[has_length(frames[0])]
        if wire is Wire.RSOCKET:
            return frames
        with_length = wire is Wire.REACTIVESOCKET_WITH_LENGTH
        chosen = ReactiveSocketTransport(self._transport, client=False, with_length=with_length)
        self.chosen = chosen
        chosen.push_back(frames)
        return await chosen.receive_frames()

    async def _receive_bytes(self, transport: ByteStreamTransport) -> list[bytes]:
        wire = Wire.REACTIVESOCKET if self._draft_only else recognise_bytes(self._seen)
        while wire is None:
            data = await transport.stream.receive_some(RECEIVE_SIZE)
            self._seen += data
            # Who says nothing more is refused in the newer form.
            wire = recognise_bytes(self._seen) if data else Wire.RSOCKET
        self._decided = True
        if wire is Wire.RSOCKET:
            transport.push_back(self._seen)
        else:
            self.chosen = _over_bytes(
                transport, self._seen, client=False, max_frame_size=self._max_frame_size
            )
        return await self.chosen.receive_frames()

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: The transport was closed.

        Checkpoint: always.
        If cancelled: frames may have been sent in part; the transport is good only for closing.
        """
        await self.chosen.send_frames(frames)

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`.

        Checkpoint: as the transport does.
        If cancelled: it may or may not have been said; close the transport.
        """
        return await self.chosen.close_sending()

    async def aclose(self) -> None:
        """Close the transport.

        Checkpoint: always.
        If cancelled: closed all the same, forcefully.
        """
        await self.chosen.aclose()
