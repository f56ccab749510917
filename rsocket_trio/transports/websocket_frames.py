"""WebSocket messages, sans-IO: `encode_messages` and `MessageReader`.

wsproto knows the rules of RFC 6455; what nearly every frame is, a whole binary message, has a
short way around it here, both ways, that takes a small part of the time (docs/performance.md). A
test holds both to the same outcome.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import Struct
from typing import Final

from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Ping
from wsproto.frame_protocol import CloseReason, XorMaskerSimple

from ..errors import RemoteProtocolError

__all__ = ["MessageReader", "encode_messages"]

# RFC 6455, section 5.2: FIN and opcode, MASK and length, then 0, 2 or 8 more bytes of length.
_WHOLE_BINARY: Final = 0x82
_TEXT: Final = 0x1
_CONTROL: Final = 0x8
_MASK: Final = 0x80
_SHORT: Final = Struct(">BB").pack
_MEDIUM: Final = Struct(">BBH").pack
_LONG: Final = Struct(">BBQ").pack
_LONGEST_HEADER: Final = 14


def encode_messages(messages: Sequence[bytes], *, mask: bool) -> list[bytes]:
    """Each message as one binary frame.

    Args:
        messages: What to send.
        mask: Clients mask, servers do not (section 5.1).

    Returns:
        The pieces to send, in order.
    """
    pieces: list[bytes] = []
    # Section 5.3: a fresh key from a strong source for every frame; one system call for all.
    keys = os.urandom(4 * len(messages)) if mask else b""
    bit = _MASK if mask else 0
    position = 0
    for message in messages:
        size = len(message)
        if size < 126:
            pieces.append(_SHORT(_WHOLE_BINARY, bit | size))
        elif size < 65536:
            pieces.append(_MEDIUM(_WHOLE_BINARY, bit | 126, size))
        else:
            pieces.append(_LONG(_WHOLE_BINARY, bit | 127, size))
        if mask:
            key = keys[position : position + 4]
            position += 4
            pieces.append(key)
            pieces.append(_masked(message, key, size))
        else:
            pieces.append(message)
    return pieces


_SMALL: Final = 1024
_ONES: Final = tuple(
    int.from_bytes(b"\1\0\0\0" * words, "little") for words in range(_SMALL // 4 + 1)
)
"""A key times one of these is the key over and over."""


def _masked(data: bytes, key: bytes, size: int) -> bytes:
    """``data`` with its masking put on or taken off."""
    if size > _SMALL:
        return bytes(XorMaskerSimple(key).process(bytearray(data)))
    # As one long number, small messages take half the time.
    if size & 3:
        stretched = int.from_bytes(key * (size >> 2) + key[: size & 3], "little")
    else:
        stretched = int.from_bytes(key, "little") * _ONES[size >> 2]
    return (int.from_bytes(data, "little") ^ stretched).to_bytes(size, "little")


class MessageReader:
    """Turns bytes of the peer into binary messages, and remembers what else they said.

    Args:
        connection: wsproto's state after the handshake.
        max_message_size: Longer messages are refused, in bytes, before they are kept.

    Attributes:
        ping: The payload of the latest ping that has no pong yet. Only the latest: a pong may
            answer several pings (section 5.5.3), so a flood of them costs nothing.
        peer_close: Code and reason of the peer's close frame, once there was one.
        failure: What the peer did wrong, if it did.
        failure_code: The close code that tells it so.
    """

    def __init__(self, connection: Connection, max_message_size: int) -> None:
        self.ping: bytes | None = None
        self.peer_close: tuple[int, str] | None = None
        self.failure: RemoteProtocolError | None = None
        self.failure_code = 0
        self._connection = connection
        self._max_message_size = max_message_size
        self._expected_mask = 0 if connection.client else _MASK
        self._header = b""  # The beginning of a frame, while its header is not whole.
        self._rest = 0  # Bytes still to come of a frame that wsproto reads.
        self._in_message = False  # wsproto has seen the beginning of a message...
        self._message = bytearray()  # ...of which this is there.

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be read: the peer closed, or broke the rules."""
        return self.failure is not None or self.peer_close is not None

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take what the stream brought, cut anywhere.

        Returns:
            The messages that are whole now. After them, look at `is_over` and `ping`.
        """
        data = self._header + data
        self._header = b""
        messages: list[bytes] = []
        position, end = 0, len(data)
        while not self.is_over:
            if not (self._rest or self._in_message):
                position = self._take_short_way(data, position, messages)
            if position == end:
                break
            if self._rest:
                part = data[position : position + self._rest]
                self._rest -= len(part)
                position += len(part)
                self._pass_on(part, messages)
                continue
            start = position + _header_size(data, position)
            if start > end:
                self._header = data[position:]
                break
            self._begin_long_way(data[position:start], messages)
            position = start
        return messages

    def _take_short_way(self, data: bytes, position: int, messages: list[bytes]) -> int:
        """Read binary messages as long as each is one frame, below 64 KiB and all there.

        Returns:
            Where the first other frame begins.
        """
        expected_mask = self._expected_mask
        key_size = 4 if expected_mask else 0
        limit = self._max_message_size
        end = len(data)
        while end - position >= _LONGEST_HEADER and data[position] == _WHOLE_BINARY:
            size = data[position + 1] - expected_mask
            start = position + 2 + key_size
            if size == 126:
                size = data[position + 2] << 8 | data[position + 3]
                start += 2
                if size < 126:
                    break
            elif not 0 <= size < 126:
                break
            stop = start + size
            if stop > end or size > limit:
                break
            message = data[start:stop]
            if key_size:
                message = _masked(message, data[start - 4 : start], size)
            messages.append(message)
            position = stop
        return position

    def _begin_long_way(self, header: bytes, messages: list[bytes]) -> None:
        """Let wsproto have the header of a frame, and see to our own limits."""
        opcode = header[0] & 0x0F
        if opcode < _CONTROL:
            self._in_message = True
        size = self._rest = _payload_size(header)
        self._pass_on(header, messages)
        if self.is_over or opcode >= _CONTROL:
            return
        if opcode == _TEXT:
            self._fail("a text message; frames are binary", CloseReason.UNSUPPORTED_DATA)
        elif len(self._message) + size > self._max_message_size:
            self._fail_too_long(len(self._message) + size)

    def _pass_on(self, data: bytes, messages: list[bytes]) -> None:
        connection = self._connection
        connection.receive_data(data)
        for event in connection.events():
            if isinstance(event, BytesMessage):
                self._message += event.data
                if event.message_finished:
                    messages.append(bytes(self._message))
                    self._message.clear()
                    self._in_message = False
            elif isinstance(event, Ping):
                self.ping = bytes(event.payload)
            elif isinstance(event, CloseConnection):
                # wsproto reports a breach of the rules as a close too; but its state tells.
                if connection.state is ConnectionState.OPEN:
                    self._fail(event.reason or "no WebSocket frame", event.code)
                else:
                    self.peer_close = (event.code, event.reason or "")

    def _fail_too_long(self, size: int) -> None:
        self._fail(
            f"a message of {size} bytes is longer than the limit of {self._max_message_size}"
            " (max_frame_size)",
            CloseReason.MESSAGE_TOO_BIG,
        )

    def _fail(self, why: str, code: int) -> None:
        self.failure = RemoteProtocolError(f"WebSocket: {why}")
        self.failure_code = int(code)


def _header_size(data: bytes, position: int) -> int:
    """How long the header that begins at ``position`` is, as far as can be told."""
    if len(data) - position < 2:
        return 2
    second = data[position + 1]
    return 2 + {126: 2, 127: 8}.get(second & 0x7F, 0) + (4 if second & _MASK else 0)


def _payload_size(header: bytes) -> int:
    size = header[1] & 0x7F
    if size < 126:
        return size
    return int.from_bytes(header[2 : 4 if size == 126 else 10], "big")
