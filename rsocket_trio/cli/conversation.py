"""The frames of one connection, out of the bytes of both of its directions: `Conversation`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from rsocket_trio.cutting import MAX_HELD, Incomplete, StreamCutter
from rsocket_trio.reactivesocket.recognition import Wire, recognise_bytes, recognise_message

from .frame_reader import FrameReader
from .wire_formats import wire_format

__all__ = ["Conversation"]

_LONGEST_HEAD: Final = 64 * 2**10
"""The most bytes of the HTTP request or response that begins a WebSocket."""

_Found: TypeAlias = bytes | ValueError


class Conversation:
    """Cuts the bytes of a connection into frames.

    WebSocket is recognised by its handshake. Where the protocol is RSocket, so is the draft of
    2015.

    Args:
        protocol: The name of the protocol.

    Attributes:
        reader: Shows the frames.
    """

    def __init__(self, protocol: str) -> None:
        self.reader = FrameReader(wire_format(protocol))
        self._sides: Final = {each: _Side(self, from_client=each) for each in (True, False)}

    def feed(self, data: bytes, *, from_client: bool) -> Iterator[_Found]:
        """Yield the frames that are whole now; an error is the last of its direction."""
        return self._sides[from_client].feed(data)

    def end(self, *, from_client: bool) -> Iterator[_Found]:
        """Yield an error if a frame is not whole at the end of its direction."""
        return self._sides[from_client].end()

    def recognised(self, wire: Wire | None) -> None:
        """Go on in another protocol, if it is that of the client."""
        if self.reader.wire.name == "rsocket" and wire not in (None, Wire.RSOCKET):
            self.reader = FrameReader(wire_format("reactivesocket"))


class _Side:
    """One direction of a conversation."""

    def __init__(self, whole: Conversation, *, from_client: bool) -> None:
        self._whole: Final = whole
        self._from_client: Final = from_client
        self._begin: bytes | None = b""
        self._messages: StreamCutter | None = None
        self._cutter: StreamCutter | None = None
        self._parts: Final[list[bytes]] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[_Found]:
        if self._begin is not None:
            self._begin += data
            head, blank, rest = self._begin.partition(b"\r\n\r\n")
            http = _may_be_http(self._begin)
            if http and not blank and len(head) <= _LONGEST_HEAD:
                return
            if http and blank:
                self._messages = StreamCutter(_websocket_frames)
                data = rest
            else:
                data = self._begin
                if self._from_client:
                    self._whole.recognised(recognise_bytes(data))
            self._begin = None
        if self._messages is None:
            yield from self._cut(data)
            return
        for piece in self._messages.feed(data):
            yield from self._message(piece)

    def end(self) -> Iterator[_Found]:
        if self._begin:
            yield ValueError(f"nothing but the beginning of HTTP: {len(self._begin)} bytes")
        for cutter in (self._messages, self._cutter):
            if cutter is not None:
                yield from cutter.end()

    def _cut(self, data: bytes) -> Iterator[_Found]:
        if self._cutter is None:
            self._cutter = self._whole.reader.wire.stream_cutter()
        return self._cutter.feed(data)

    def _message(self, piece: _Found) -> Iterator[_Found]:
        if isinstance(piece, ValueError):
            yield piece
            return
        kind, body = piece[0] & 0x0F, piece[1:]
        if kind >= 8:  # ping, pong, close
            return
        self._parts.append(body)
        self._size += len(body)
        if self._size <= MAX_HELD and not piece[0] & 0x80:
            return
        message = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if len(message) > MAX_HELD:
            yield ValueError(f"a message of more than {MAX_HELD} bytes is not read")
            return
        if self._whole.reader.wire.cut is None:  # its messages need not end where frames end
            yield from self._cut(message)
            return
        if self._from_client:
            self._whole.recognised(recognise_message(message))
        yield message


def _may_be_http(begin: bytes) -> bool:
    return any(begin.startswith(word[: len(begin)]) for word in (b"GET ", b"HTTP/"))


def _websocket_frames(data: bytes) -> Iterator[_Found]:
    """Cut frames of WebSocket (RFC 6455, section 5.2): yield the first byte and the payload."""
    at = 0
    while at < len(data):
        rest = len(data) - at
        size = data[at + 1] & 0x7F if rest > 1 else 0
        extended = {126: 2, 127: 8}.get(size, 0)
        masked = rest > 1 and bool(data[at + 1] & 0x80)
        start = at + 2 + extended + 4 * masked
        if extended and start <= len(data):
            size = int.from_bytes(data[at + 2 : at + 2 + extended])
        whole = start - at + size
        if rest < 2 or len(data) < start or rest < whole:
            known = whole if len(data) >= start else start - at
            text = f"incomplete frame of WebSocket: {rest} of {known} bytes"
            yield Incomplete(text, rest=rest, whole=known)
            return
        payload = data[start : start + size]
        if masked:
            key = data[start - 4 : start] * (size // 4 + 1)
            mixed = int.from_bytes(payload) ^ int.from_bytes(key[:size])
            payload = mixed.to_bytes(size)
        yield data[at : at + 1] + payload
        at += whole
