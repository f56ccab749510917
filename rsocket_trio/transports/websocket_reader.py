"""WebSocket messages, read sans-IO: `MessageReader`.

wsproto knows all this too, but takes 15 microseconds for a frame, also for one that carries
nothing: 64 KiB of pings, or of empty parts of a message, would stand the loop still for 0.2 s. Here
a frame takes one or two, and what nearly every frame is, a whole binary message, less
(docs/performance.md). A test holds both to the same outcome for the same bytes.
"""

from __future__ import annotations

from typing import Final

from wsproto.frame_protocol import LOCAL_ONLY_CLOSE_REASONS, CloseReason

from ..errors import RemoteProtocolError
from .websocket_frames import MASK, WHOLE_BINARY, masked

__all__ = ["FRAMES_AT_ONCE", "MAX_EMPTY_PARTS", "MessageReader"]

FRAMES_AT_ONCE: Final = 512
"""Frames that are read in a row without letting another task run: about a millisecond. One read of
64 KiB may bring 32 thousand."""

MAX_EMPTY_PARTS: Final = 128
"""Parts of one message that may be empty; one more ends the connection with 1008. A peer that
streams a message may well end it with an empty part, but one that sends nothing else wants nothing
but our time."""

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
    """Turns bytes of the peer into binary messages, and remembers what else they said.

    One call looks at so many frames at most (`FRAMES_AT_ONCE`), however many there are, so that
    whoever calls can let others run between two calls.

    Args:
        peer_masks: Whether the peer masks its frames: clients do, servers do not (section 5.1).
        max_message_size: Longer messages are refused, in bytes, before they are kept.

    Attributes:
        ping: The payload of the latest ping that has no pong yet. Only the latest: a pong may
            answer several pings (section 5.5.3), so a flood of them costs nothing.
        peer_close: Code and reason of the peer's close frame, once there was one.
        failure: What the peer did wrong, if it did.
        failure_code: The close code that tells it so.
    """

    def __init__(self, max_message_size: int, *, peer_masks: bool) -> None:
        self.ping: bytes | None = None
        self.peer_close: tuple[int, str] | None = None
        self.failure: RemoteProtocolError | None = None
        self.failure_code = 0
        self._max_message_size = max_message_size
        self._expected_mask = MASK if peer_masks else 0
        self._data = b""  # What has been fed, and where...
        self._position = 0  # ...that begins which has not been looked at.
        self._stuck = False  # What is left is the beginning of a header.
        self._first = 0  # The first byte of a frame whose header has been read...
        self._key = b""  # ...the key that masks its next byte and those that follow...
        self._missing = 0  # ...and how much of it is still to come.
        self._control = bytearray()  # What there is of a control frame.
        self._message = bytearray()  # What there is of a message...
        self._in_message = False  # ...of which one frame at least was whole, and not the last...
        self._empty_parts = 0  # ...and so many were empty.

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be read: the peer closed, or broke the rules."""
        return self.failure is not None or self.peer_close is not None

    @property
    def has_more(self) -> bool:
        """Whether there is more to read without more bytes: feed it with none."""
        return not self._stuck and self._position < len(self._data)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take what the stream brought, cut anywhere, and read on.

        Returns:
            The messages that are whole now, of the next `FRAMES_AT_ONCE` frames. After them, look
            at `has_more`, `is_over` and `ping`.
        """
        if data:
            rest = self._data[self._position :]
            self._data = rest + data if rest else bytes(data)
            self._position = 0
            self._stuck = False
        data, position = self._data, self._position
        end = len(data)
        messages: list[bytes] = []
        left = FRAMES_AT_ONCE
        while left > 0 and position < end and not self.is_over:
            if self._missing:
                position = self._take(data, position, messages)
                continue
            if not self._in_message:
                before = len(messages)
                position = self._take_short_way(data, position, messages, left)
                left -= len(messages) - before
                if left <= 0 or position == end:
                    break
            begin = position
            position = self._begin_frame(data, position)
            if position == begin:
                self._stuck = True
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

    def _take_short_way(
        self, data: bytes, position: int, messages: list[bytes], at_most: int
    ) -> int:
        """Read binary messages as long as each is one frame, below 64 KiB and all there.

        Returns:
            Where the first other frame begins.
        """
        expected_mask = self._expected_mask
        key_size = 4 if expected_mask else 0
        limit = self._max_message_size
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
        """Read the header of a frame; where its payload begins, or ``position`` without all of it.

        The checks are those of section 5.2, and our own limits.
        """
        if len(data) - position < 2:
            return position
        first, second = data[position], data[position + 1]
        opcode = first & 0x0F
        size = second & 0x7F
        if objection := self._objection(first, opcode, second):
            self._fail(objection, CloseReason.PROTOCOL_ERROR)
            return position + 2
        if opcode == _TEXT:
            self._fail("a text message; frames are binary", CloseReason.UNSUPPORTED_DATA)
            return position + 2
        start = position + 2 + _LENGTH_SIZES.get(size, 0)
        stop = start + (4 if self._expected_mask else 0)
        if stop > len(data):
            return position
        if size >= 126:
            smallest = 126 if size == 126 else 0x10000
            size = int.from_bytes(data[position + 2 : start], "big")
            if not smallest <= size < _TOO_LARGE:
                self._fail("a length in a form it must not have", CloseReason.PROTOCOL_ERROR)
        if opcode < _CONTROL and len(self._message) + size > self._max_message_size:
            self._fail_too_long(len(self._message) + size)
        self._first = first
        self._key = data[start:stop]
        self._missing = size
        return stop

    def _objection(self, first: int, opcode: int, second: int) -> str:
        """What is wrong with the first two bytes of a frame."""
        if first & _RESERVED:
            return "a reserved bit is set"
        if second & MASK != self._expected_mask:
            return "a masked frame of a server" if second & MASK else "an unmasked frame"
        if opcode >= _CONTROL:
            if opcode > _PONG:
                return f"an unknown opcode, {opcode:#x}"
            if not first & _FIN or second & 0x7F > _MAX_CONTROL:
                return "a control frame in parts, or too long"
        elif opcode == _CONTINUATION:
            if not self._in_message:
                return "a continuation of nothing"
        elif self._in_message:
            return "a message within a message"
        elif opcode > _BINARY:
            return f"an unknown opcode, {opcode:#x}"
        return ""

    def _take(self, data: bytes, position: int, messages: list[bytes]) -> int:
        """Take what there is of the frame whose header has been read; where that ends."""
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
        """A close frame (sections 5.5.1 and 7.4)."""
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
            self._fail("a close frame with a reason that is no UTF-8", _NO_TEXT)
            return
        self.peer_close = (_CLOSE_CODES.get(code, code), reason)

    def _fail_too_long(self, size: int) -> None:
        self._fail(
            f"a message of {size} bytes is longer than the limit of {self._max_message_size}"
            " (max_frame_size)",
            CloseReason.MESSAGE_TOO_BIG,
        )

    def _fail(self, why: str, code: int) -> None:
        if self.failure is None:
            self.failure = RemoteProtocolError(f"WebSocket: {why}")
            self.failure_code = int(code)
        # Nothing of it is looked at any more.
        self._message = bytearray()
