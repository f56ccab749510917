"""Choose the protocol of a new connection.

A server finds it out from the client's first bytes: `recognise_wire`. A client that knows it calls
`speak_reactivesocket`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..field_checks import TEXT, argument, listed
from ..transports.base import FrameTransport
from ..transports.byte_stream import RECEIVE_SIZE, ByteStreamTransport
from .frames import LengthDecoder, join_frames
from .recognition import Wire, has_length, recognise_bytes, recognise_message
from .transport import ReactiveSocketTransport

__all__ = [
    "PROTOCOLS",
    "check_protocol",
    "check_protocols",
    "check_speakable",
    "recognise_wire",
    "speak_reactivesocket",
]

PROTOCOLS: Final = ("rsocket", "reactivesocket")
"""RSocket 1.0, and the draft."""

_FORMS: Final = (Wire.REACTIVESOCKET, Wire.REACTIVESOCKET_WITH_LENGTH)


def check_protocol(protocol: str) -> None:
    """Check the name of a client's protocol.

    Raises:
        TypeError: It is no name.
        ValueError: It is unknown.
    """
    argument("protocol", protocol, TEXT)
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be {' or '.join(map(repr, PROTOCOLS))}, not {protocol!r}")


def check_protocols(protocols: Collection[str]) -> tuple[str, ...]:
    """Check the names of a server's protocols, and return them.

    Raises:
        TypeError: It is not a list of names.
        ValueError: A name is unknown, or there is no name.
    """
    named = listed("protocols", protocols, str)
    if not named or not set(named) <= set(PROTOCOLS):
        names = " and ".join(map(repr, PROTOCOLS))
        raise ValueError(f"protocols must be a list of {names}, one or both, not {protocols!r}")
    return named


def speak_reactivesocket(
    transport: FrameTransport,
    *,
    client: bool,
    max_frame_size: int,
    with_length: bool | None = None,
) -> FrameTransport:
    """Return a transport that speaks the draft over one that has not been used yet.

    Args:
        transport: A byte stream, or a transport of messages; the result owns it.
        client: Whether we are the client.
        max_frame_size: The peer's frames may be this long, in bytes.
        with_length: As for `ReactiveSocketTransport`; byte streams always have the length.

    Raises:
        TypeError: The transport puts the lengths of RSocket 1.0 before its frames, and this cannot
            be changed.
    """
    if transport.capabilities.translates_frames:
        return transport
    if isinstance(transport, ByteStreamTransport):
        return _over_bytes(transport, b"", client=client, max_frame_size=max_frame_size)
    check_speakable(transport)
    return ReactiveSocketTransport(transport, client=client, with_length=with_length)


def check_speakable(transport: FrameTransport) -> None:
    """Check that a transport can carry the draft.

    Raises:
        TypeError: It is a wrapper around a byte stream transport, which writes the lengths of 1.0.
    """
    if not _speakable(transport):
        raise TypeError(
            f"{type(transport).__name__} is a wrapper around a ByteStreamTransport, which writes "
            "the lengths of RSocket 1.0: for the ReactiveSocket draft wrap the stream below it, or "
            "a ReactiveSocketTransport"
        )


def _speakable(transport: FrameTransport) -> bool:
    able = transport.capabilities
    return (
        able.translates_frames or not able.byte_stream or isinstance(transport, ByteStreamTransport)
    )


def _over_bytes(
    transport: ByteStreamTransport, seen: bytes, *, client: bool, max_frame_size: int
) -> ReactiveSocketTransport:
    carrier = ByteStreamTransport(
        transport.stream,
        info=transport.info,
        decoder=LengthDecoder(max_frame_size),
        join=join_frames,
    )
    carrier.push_back(seen)
    return ReactiveSocketTransport(carrier, client=client, with_length=False)


async def recognise_wire(
    transport: FrameTransport, protocols: Collection[str], max_frame_size: int
) -> tuple[FrameTransport, list[bytes]]:
    """Find out which protocol the client of a new connection speaks, by its first bytes.

    A wrapper around a byte stream transport can only carry RSocket 1.0: see `check_speakable`.

    Args:
        transport: The accepted transport.
        protocols: The protocols that the server speaks; see `PROTOCOLS`.
        max_frame_size: The client's frames may be this long, in bytes.

    Returns:
        The transport to use, which is ``transport`` itself for RSocket 1.0; and the frames that
        were already received on it.

    Raises:
        RemoteProtocolError: As the transport does.
        trio.BrokenResourceError: As the transport does.
        trio.ClosedResourceError: As the transport does.

    Checkpoint: if the client may speak either protocol.
    If cancelled: received bytes are lost; close the transport.
    """
    draft_only = "rsocket" not in protocols
    if (
        "reactivesocket" not in protocols
        or transport.capabilities.translates_frames
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
        # It is not the draft either. The refusal has the form of the message.
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
        # At the end of the stream, RSocket 1.0 reports the error.
        wire = recognise_bytes(seen) if data else Wire.RSOCKET
    if wire is Wire.RSOCKET:
        transport.push_back(seen)
        return transport
    return _over_bytes(transport, seen, client=False, max_frame_size=max_frame_size)
