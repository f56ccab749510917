"""What a connection is spoken over: `recognise_wire` of a server, which learns it from the client.

And what whoever knows already makes of a transport: `speak_reactivesocket`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..transports.base import FrameTransport
from ..transports.byte_stream import RECEIVE_SIZE, ByteStreamTransport
from .frames import LengthDecoder, encode_length
from .recognition import Wire, has_length, recognise_bytes, recognise_message
from .transport import ReactiveSocketTransport

__all__ = [
    "PROTOCOLS",
    "check_protocols",
    "check_speakable",
    "recognise_wire",
    "speak_reactivesocket",
]

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
) -> FrameTransport:
    """Speak the draft over a transport that has not been used yet.

    Args:
        transport: A byte stream, or anything that keeps messages apart; owned by the result.
        client: Whether we are the client.
        max_frame_size: The peer's frames may be this long, in bytes.
        with_length: As for `ReactiveSocketTransport`; byte streams always have it.

    Raises:
        TypeError: It puts the lengths of RSocket 1.0 before its frames, and nobody can change that.
    """
    if transport.capabilities.translates:
        return transport
    if isinstance(transport, ByteStreamTransport):
        return _over_bytes(transport, b"", client=client, max_frame_size=max_frame_size)
    check_speakable(transport)
    return ReactiveSocketTransport(transport, client=client, with_length=with_length)


def check_speakable(transport: FrameTransport) -> None:
    """Refuse a transport that the draft cannot be spoken over.

    Raises:
        TypeError: It is a wrapper around one for byte streams, and writes the lengths of 1.0.
    """
    if not _speakable(transport):
        raise TypeError(
            f"{type(transport).__name__} is a wrapper around a ByteStreamTransport, which writes "
            "the lengths of RSocket 1.0: for the ReactiveSocket draft wrap the stream below it, or "
            "a ReactiveSocketTransport"
        )


def _speakable(transport: FrameTransport) -> bool:
    able = transport.capabilities
    return able.translates or not able.byte_stream or isinstance(transport, ByteStreamTransport)


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


async def recognise_wire(
    transport: FrameTransport, protocols: Collection[str], max_frame_size: int
) -> tuple[FrameTransport, list[bytes]]:
    """Find out what the client of a new connection speaks, by what it sends first.

    A wrapper of yours around a byte stream is for RSocket 1.0 alone: see `check_speakable`.

    Args:
        transport: As accepted.
        protocols: What the server speaks; see `PROTOCOLS`.
        max_frame_size: The client's frames may be this long, in bytes.

    Returns:
        What to go on with, which is ``transport`` itself for RSocket 1.0; and the frames that have
        been received on it already, none where the first are still to be received.

    Raises:
        RemoteProtocolError: As the transport does.
        trio.BrokenResourceError: Likewise.
        trio.ClosedResourceError: Likewise.

    Checkpoint: where there are two protocols to tell apart.
    If cancelled: what has come is lost; close the transport.
    """
    draft_only = "rsocket" not in protocols
    if (
        "reactivesocket" not in protocols
        or transport.capabilities.translates
        or not _speakable(transport)
    ):
        return transport, []
    if isinstance(transport, ByteStreamTransport):
        return await _recognise_bytes(transport, max_frame_size, draft_only=draft_only), []
    frames = await transport.receive_frames()
    if not frames:
        return transport, frames
    wire = recognise_message(frames[0])
    if draft_only and wire is Wire.RSOCKET:
        # Neither; it is refused in the form it came in.
        wire = _FORMS[has_length(frames[0])]
    if wire is Wire.RSOCKET:
        return transport, frames
    with_length = wire is Wire.REACTIVESOCKET_WITH_LENGTH
    chosen = ReactiveSocketTransport(transport, client=False, with_length=with_length)
    chosen.push_back(frames)
    return chosen, []


async def _recognise_bytes(
    transport: ByteStreamTransport, max_frame_size: int, *, draft_only: bool
) -> FrameTransport:
    seen = b""
    wire = Wire.REACTIVESOCKET if draft_only else None
    while wire is None:
        data = await transport.stream.receive_some(RECEIVE_SIZE)
        seen += data
        # Who says nothing more is refused in the newer form.
        wire = recognise_bytes(seen) if data else Wire.RSOCKET
    if wire is Wire.RSOCKET:
        transport.push_back(seen)
        return transport
    return _over_bytes(transport, seen, client=False, max_frame_size=max_frame_size)
