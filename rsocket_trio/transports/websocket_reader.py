"""Read WebSocket messages, sans-IO: `MessageReader`.

wsproto can read them too, but it takes 15 microseconds per frame, also for an empty one: 64 KiB of
pings, or of empty parts of a message, would block the loop for 0.2 s. Here a frame takes one or two
microseconds, and a whole binary message, the most common frame, less (docs/performance.md). A test
checks that both give the same result for the same bytes.
"""

from __future__ import annotations

from typing import Final

from wsproto.frame_protocol import LOCAL_ONLY_CLOSE_REASONS, CloseReason

from ..errors import RemoteProtocolError
from ..frames.length import too_long
from .websocket_frames import MASK, WHOLE_BINARY, masked

__all__ = ["FRAMES_AT_ONCE", "MAX_EMPTY_PARTS", "MessageReader"]

FRAMES_AT_ONCE: Final = 512
"""The most frames read before another task may run: about a millisecond. One read of 64 KiB may
bring 32 thousand frames."""

MAX_EMPTY_PARTS: Final = 128
"""The most empty parts of one message; one more closes the connection with 1008. A peer that
streams a message may end it with an empty part, but many empty parts only take our time."""

# RFC 6455, section 5.2: FIN and opcode, MASK and length, then 0, 2 or 8 more bytes of length.
_FIN: Final = 0x80
_RESERVED: Final = 0x70
_CONTINUATION: Final = 0x0
_TEXT: Final = 0x1
_BINARY: Final = 0x2
_CONTROL: Final = 0x8
_CLOSE: Final = 0x8
_PING: Final = 0x9
_PONG: Final = 0xA
_MAX_CONTROL: Final = 125
_TOO_LARGE: Final = 2**63
_LENGTH_SIZES: Final = {126: 2, 127: 8}
_LONGEST_HEADER: Final = 14
_NO_TEXT: Final = CloseReason.INVALID_FRAME_PAYLOAD_DATA
_CLOSE_CODES: Final = {
    int(code): code for code in CloseReason if code not in LOCAL_ONLY_CLOSE_REASONS
}


class MessageReader:
    """Turns the peer's bytes into binary messages, and keeps its last ping and its close frame.

    One call reads at most `FRAMES_AT_ONCE` frames, so that the caller can let other tasks run
    between two calls.

    Args:
        peer_masks: Whether the peer masks its frames: clients do, servers do not (section 5.1).
        max_message_size: The longest message, in bytes; a longer one is refused before it is kept.

    Attributes:
        ping: The payload of the latest ping that has no pong yet. Only the latest: a pong may
            answer several pings (section 5.5.3), so a flood of pings uses no memory.
        peer_close: Code and reason of the peer's close frame, or ``None`` before it.
        failure: The error of the peer that ended reading, or ``None``.
        failure_code: The close code for this error.
    """

    def __init__(self, max_message_size: int, *, peer_masks: bool) -> None:
        self.ping: bytes | None = None
        self.peer_close: tuple[int, str] | None = None
        self.failure: RemoteProtocolError | None = None
        self.failure_code = 0
        self._max_message_size = self._at_most = max_message_size
        self._frames_at_once = FRAMES_AT_ONCE
        self._expected_mask = MASK if peer_masks else 0
        self._data = b""  # The bytes that were fed.
        self._position = 0  # The position in them of the first byte that is not read yet.
        self._header_incomplete = False  # The unread bytes are only a part of a header.
        # Of the frame whose header was read last:
        self._first = 0  # Its first byte.
        self._key = b""  # The key, turned so that it masks the next byte first.
        self._missing = 0  # The bytes of it that are still to come.
        self._control = bytearray()  # The payload of a control frame so far.
        self._message = bytearray()  # The message so far.
        self._in_message = False  # A frame of the message is complete, and it was not the last.
        self._empty_parts = 0  # The empty frames of the message.

    @property
    def is_over(self) -> bool:
        """Whether reading has ended: the peer closed, or broke the rules."""
        return self.failure is not None or self.peer_close is not None

    @property
    def has_more(self) -> bool:
        """Whether there is more to read in the bytes that were fed: call ``feed(b"")``."""
        return not self._header_incomplete and self._position < len(self._data)

    def limit_messages(self, at_most: int | None) -> None:
        """Read one message, or a part of one, of at most this many bytes; ``None`` reads on."""
        self._frames_at_once = FRAMES_AT_ONCE if at_most is None else 1
        self._at_most = self._max_message_size
        if at_most is not None:
            self._at_most = min(at_most, self._at_most)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take bytes of the stream, cut anywhere, and read on.

        Returns:
            The messages that are whole now, of the next `FRAMES_AT_ONCE` frames. Afterwards check
            `has_more`, `is_over` and `ping`.
        """
        if data:
            rest = self._data[self._position :]
            self._data = rest + data if rest else bytes(data)
            self._position = 0
            self._header_incomplete = False
        data, position = self._data, self._position
        end = len(data)
        messages: list[bytes] = []
        left = self._frames_at_once
        while left > 0 and position < end and not self.is_over:
            if self._missing:
                position = self._take(data, position, messages)
                continue
            if not self._in_message:
                before = len(messages)
                position = self._take_whole_messages(data, position, messages, left)
                left -= len(messages) - before
                if left <= 0 or position == end:
                    break
            begin = position
            position = self._begin_frame(data, position)
            if position == begin:
                self._header_incomplete = True
                break
            left -= 1
            if not self.is_over:
                position = self._take(data, position, messages)
        if position == end or self.is_over:
            self._data, self._position = b"", 0
        else:
            self._position = position
        return messages

    def forget(self) -> None:
        """Drop what is left. Feed it no more."""
        self._data = b""
        self._message = bytearray()

    def _take_whole_messages(
        self, data: bytes, position: int, messages: list[bytes], at_most: int
    ) -> int:
        """Read binary messages as long as each is one complete frame, below 64 KiB.

        Returns:
            The position of the first other frame.
        """
        expected_mask = self._expected_mask
        key_size = 4 if expected_mask else 0
        limit = self._at_most
        end = len(data)
        enough = len(messages) + at_most
        while end - position >= _LONGEST_HEADER and data[position] == WHOLE_BINARY:
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
            if stop > end or size > limit or len(messages) >= enough:
                break
            message = data[start:stop]
            if key_size:
                message = masked(message, data[start - 4 : start], size)
            messages.append(message)
            position = stop
        return position

    def _begin_frame(self, data: bytes, position: int) -> int:
        """Read the header of a frame, check it by section 5.2 and our limits.

        Returns:
            The position of its payload; ``position`` if the header is not complete.
        """
        if len(data) - position < 2:
            return position
        first, second = data[position], data[position + 1]
        opcode = first & 0x0F
        size = second & 0x7F
        if error := self._header_error(first, opcode, second):
            self._fail(error, CloseReason.PROTOCOL_ERROR)
            return position + 2
        if opcode == _TEXT:
            self._fail("a text message; frames must be binary", CloseReason.UNSUPPORTED_DATA)
            return position + 2
        start = position + 2 + _LENGTH_SIZES.get(size, 0)
        stop = start + (4 if self._expected_mask else 0)
        if stop > len(data):
            return position
        if size >= 126:
            smallest = 126 if size == 126 else 0x10000
            size = int.from_bytes(data[position + 2 : start], "big")
            if not smallest <= size < _TOO_LARGE:
                self._fail("a length in a form that is not allowed", CloseReason.PROTOCOL_ERROR)
        if opcode < _CONTROL and len(self._message) + size > self._at_most:
            self._fail_too_long(len(self._message) + size)
        self._first = first
        self._key = data[start:stop]
        self._missing = size
        return stop

    def _header_error(self, first: int, opcode: int, second: int) -> str:
        """Return the error in the first two bytes of a frame; empty if there is none."""
        if first & _RESERVED:
            return "a reserved bit is set"
        if second & MASK != self._expected_mask:
            return "a masked frame from a server" if second & MASK else "an unmasked frame"
        if opcode >= _CONTROL:
            if opcode > _PONG:
                return f"an unknown opcode, {opcode:#x}"
            if not first & _FIN or second & 0x7F > _MAX_CONTROL:
                return f"a control frame in parts, or longer than {_MAX_CONTROL} bytes"
        elif opcode == _CONTINUATION:
            if not self._in_message:
                return "a continuation frame without a message"
        elif self._in_message:
            return "a new message before the end of the last one"
        elif opcode > _BINARY:
            return f"an unknown opcode, {opcode:#x}"
        return ""

    def _take(self, data: bytes, position: int, messages: list[bytes]) -> int:
        """Take the bytes of the frame whose header was read; return the position behind them."""
        part = data[position : position + self._missing]
        size = len(part)
        self._missing -= size
        if self._key and size:
            key = self._key
            part = masked(part, key, size)
            turn = size & 3
            self._key = key[turn:] + key[:turn]
        if self._first & _CONTROL:
            self._control += part
        else:
            self._message += part
        if not self._missing:
            self._end_frame(messages, empty=not size)
        return position + size

    def _end_frame(self, messages: list[bytes], *, empty: bool) -> None:
        opcode = self._first & 0x0F
        if opcode < _CONTROL:
            if self._first & _FIN:
                messages.append(bytes(self._message))
                self._message = bytearray()
                self._in_message = False
                self._empty_parts = 0
            else:
                self._in_message = True
                self._empty_parts += empty
                if self._empty_parts > MAX_EMPTY_PARTS:
                    self._fail(
                        f"a message of more than {MAX_EMPTY_PARTS} empty parts",
                        CloseReason.POLICY_VIOLATION,
                    )
            return
        payload = bytes(self._control)
        self._control.clear()
        if opcode == _PING:
            self.ping = payload
        elif opcode == _CLOSE:
            self._end(payload)

    def _end(self, payload: bytes) -> None:
        """Handle a close frame (sections 5.5.1 and 7.4)."""
        code: int = CloseReason.NO_STATUS_RCVD
        if payload:
            code = int.from_bytes(payload[:2], "big")
            known = code in _CLOSE_CODES or 3000 <= code < 5000
            if len(payload) == 1 or not known:
                self._fail("a close frame without a valid code", CloseReason.PROTOCOL_ERROR)
                return
        try:
            reason = payload[2:].decode()
        except UnicodeDecodeError:
            self._fail("a close frame with a reason that is not UTF-8", _NO_TEXT)
            return
        self.peer_close = (_CLOSE_CODES.get(code, code), reason)

    def _fail_too_long(self, size: int) -> None:
        self._end_with(
            too_long(
                "WebSocket: a message",
                size,
                at_most=self._at_most,
                max_frame_size=self._max_message_size,
            ),
            CloseReason.MESSAGE_TOO_BIG,
        )

    def _fail(self, why: str, code: int) -> None:
        self._end_with(RemoteProtocolError(f"WebSocket: {why}"), code)

    def _end_with(self, failure: RemoteProtocolError, code: int) -> None:
        if self.failure is None:
            self.failure = failure
            self.failure_code = int(code)
        # The message is not read any more.
        self._message = bytearray()
