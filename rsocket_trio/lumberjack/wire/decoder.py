"""Cut bytes into frames, and give their events to a `BatchBuilder`.

Two ways lead through this module. Consecutive J frames of a window that has begun go through the
loop in `FrameDecoder._run`. It makes no object for an event except its bytes. The first frame at
which this loop stops goes through `FrameDecoder._frame`: it takes any frame, and it finds the
reason if a frame is refused.

An incomplete frame waits in a buffer until the number of bytes has arrived that its head, or its
next length, demands. So each byte is copied a fixed number of times, however the stream is cut.

A few bytes can become much work: a compressed frame of 16 KiB inflates to 16 MiB. So the work is
counted, and a call of `FrameDecoder.feed` ends after some milliseconds, also inside a compressed
frame: others can have their turn before the next call goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rsocket_trio.errors import MalformedFrame, RemoteProtocolError

from .batches import BatchBuilder
from .frames import (
    ACK,
    COMPRESSED,
    DATA,
    FIELD,
    JSON,
    LONG,
    SHORT,
    VERSIONS,
    WINDOW,
    json_code,
)
from .inflate import inflate
from .limits import LumberjackLimits

__all__ = ["STEP", "FrameDecoder"]

_unpack_short: Final = SHORT.unpack_from
_unpack_long: Final = LONG.unpack_from
_unpack_field: Final = FIELD.unpack_from

STEP: Final = 2**20
"""The work after which `FrameDecoder.feed` returns: a millisecond or two. A window of 2048 events
of usual size is less. The unit is a byte that is inflated."""

_FRAME_WORK: Final = 2048
_EVENT_WORK: Final = 64
_PAIR_WORK: Final = 256
"""The work of a frame, and of an event in a run, in this unit, as their times compare."""

_HTTP: Final = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"PRI ")
_TLS: Final = b"\x16\x03"


class _Opened:
    """A compressed frame of which a part is inflated.

    Args:
        payload: Its whole payload.
        parts: Inflates it.
        inner: Decodes the frames in it.
    """

    __slots__ = ("inner", "part", "parts", "payload", "position")

    def __init__(self, payload: bytes, parts: Iterator[bytes], inner: FrameDecoder) -> None:
        self.payload: Final = payload
        self.parts: Final = parts
        self.inner: Final = inner
        self.part = b""  # The newest part is decoded up to this position.
        self.position = 0


class FrameDecoder:
    """Decodes one stream of frames: that of a connection, or that in a compressed frame.

    Args:
        limits: The limits of the connection.
        builder: Gets the windows and events.
        inside: The version of the compressed frame that contains the stream, or 0.

    Attributes:
        work: The work of the last call of `feed`, about in bytes that are inflated.
    """

    __slots__ = (
        "_builder",
        "_frames",
        "_inside",
        "_limits",
        "_need",
        "_opened",
        "_partial",
        "_step",
        "_walked",
        "work",
    )

    def __init__(self, limits: LumberjackLimits, builder: BatchBuilder, inside: int = 0) -> None:
        self._limits: Final = limits
        self._builder: Final = builder
        self._inside: Final = inside
        self.work = 0
        self._step = STEP
        self._frames = 0  # How many there were; counted only inside a compressed frame.
        self._opened: _Opened | None = None  # Nothing behind it is decoded before its end.
        self._partial = bytearray()  # The first bytes of a frame that is not complete.
        self._need = 0  # How many bytes of this frame to wait for.
        self._walked: tuple[int, int] | None = None  # In a D frame: position, fields to come.

    @property
    def partial(self) -> bool:
        """Whether a part of a frame has arrived, or is decoded."""
        return bool(self._partial) or self._opened is not None

    @property
    def opened(self) -> bool:
        """Whether a part of a compressed frame is decoded, so that `feed` can go on with it."""
        return self._opened is not None

    @property
    def held(self) -> int:
        """The memory of this part, in bytes."""
        opened = self._opened
        if opened is None:
            return len(self._partial)
        return len(opened.payload) + len(opened.part) + opened.inner.held

    def drop(self) -> None:
        """Forget the part of a frame."""
        self._partial = bytearray()
        self._opened = None

    def feed(self, data: bytes, position: int = 0, step: int = STEP) -> int:
        """Take bytes of the stream; return the position behind the last byte that was taken.

        Once its work is enough, this call returns, before the next frame or inside a compressed
        one. Then `opened` is true, or bytes are left; give them to the next call.

        Args:
            data: Bytes of the stream.
            position: Where to begin.
            step: How much work is enough.

        Raises:
            RemoteProtocolError: A frame is malformed, not allowed here, or above a limit. The
                frames before it have been given to the builder.
        """
        end = len(data)
        builder = self._builder
        self.work = 0
        self._step = step
        if self._opened is not None:
            self._unpack(self._opened)
        elif self._partial:
            position = self._complete(data, position)
        while position < end and self.work < self._step and self._opened is None:
            if builder.room:
                position = self._run(data, position, end)
                if position == end:
                    break
            behind = self._frame(data, position, end)
            if not behind:
                self._partial += data[position:]
                return end
            position = behind
        return position

    def _run(self, data: bytes, position: int, end: int) -> int:
        """Take consecutive J frames; return the position behind them."""
        builder = self._builder
        events = builder.events
        append = events.append
        before = len(events)
        begin = position
        expected_code = json_code(builder.version)
        longest = self._limits.max_event_size
        last = end - LONG.size
        unpack = _unpack_long
        for expected in range(builder.expected, builder.expected + builder.room):
            if position > last:
                break
            code, sequence, length = unpack(data, position)
            start = position + 10
            stop = start + length
            if code != expected_code or sequence != expected or stop > end:
                break
            if not 0 < length <= longest:
                break
            append(data[start:stop])
            position = stop
        count = len(events) - before
        if count:
            self._count(count)
            self.work += _EVENT_WORK * count
            builder.ran(count, position - begin)
        return position

    def _complete(self, data: bytes, position: int) -> int:
        """Complete the frame in the buffer; return the position in ``data`` behind it."""
        partial = self._partial
        while True:
            missing = self._need - len(partial)
            piece = data[position : position + missing]
            partial += piece
            position += len(piece)
            if len(piece) < missing:
                return position
            if self._frame(partial, 0, len(partial)):
                self._partial = bytearray()
                return position

    def _frame(self, data: bytes | bytearray, position: int, end: int) -> int:
        """Take one frame; return the position behind it.

        If the frame is not complete, return 0, and note in ``_need`` how many bytes of it must be
        there before the next attempt.
        """
        version = VERSIONS.get(data[position])
        if version is None:
            raise MalformedFrame(_stranger(bytes(data[position : position + 8])))
        available = end - position
        if available < 2:
            return self._wait_for(2)
        if self._inside and version != self._inside:
            raise RemoteProtocolError(
                f"a compressed frame of version {self._inside} contains version {version}"
            )
        kind = data[position + 1]
        if kind == JSON:
            size = self._json(data, position, available, version)
        elif kind == DATA:
            size = self._data(data, position, available, version)
        elif kind == WINDOW:
            size = self._window(data, position, available, version)
        elif kind == COMPRESSED:
            size = self._compressed(data, position, available, version)
        elif kind == ACK:
            raise RemoteProtocolError("the peer sent an ACK frame, but it receives no events")
        else:
            raise MalformedFrame(f"there is no frame type 0x{kind:02x}")
        if not size:
            return 0
        self._count(1)
        self.work += _FRAME_WORK + size // 4  # A large one is copied.
        return position + size

    # Each of these takes a frame of one type, and returns its size, or 0 if it is not complete.

    def _json(self, data: bytes | bytearray, position: int, available: int, version: int) -> int:
        if available < LONG.size:
            return self._wait_for(LONG.size)
        _, sequence, length = _unpack_long(data, position)
        if not length:
            raise MalformedFrame(f"the JSON text of sequence {sequence} is empty")
        if length > self._limits.max_event_size:
            raise self._too_long(sequence, length)
        size: int = LONG.size + length
        self._builder.check(version, size, is_json=True)
        if available < size:
            return self._wait_for(size)
        event = _cut(data, position + LONG.size, position + size)
        self._builder.add(version, sequence, event, size, is_json=True)
        return size

    def _data(self, data: bytes | bytearray, position: int, available: int, version: int) -> int:
        if version != 1:
            raise RemoteProtocolError("a D frame has version 2; only version 1 has D frames")
        if available < LONG.size:
            return self._wait_for(LONG.size)
        _, sequence, count = _unpack_long(data, position)
        if count > self._limits.max_pairs:
            raise RemoteProtocolError(
                f"an event of {count} key-value pairs is above the limit of"
                f" {self._limits.max_pairs} (max_pairs)"
            )
        # The event begins with the number of pairs, behind the six bytes of the head.
        longest = self._limits.max_event_size + SHORT.size
        size, fields = self._walked or (LONG.size, 2 * count)
        while fields and size + 4 <= available:
            size += 4 + _unpack_field(data, position + size)[0]
            fields -= 1
            if size > longest:
                raise self._too_long(sequence, size - SHORT.size)
        self._builder.check(version, size, is_json=False)
        if fields or available < size:
            self._walked = size, fields
            return self._wait_for(size + 4 if fields else size)
        self._walked = None
        self.work += _PAIR_WORK * count
        self._builder.count_pairs(count, inside=bool(self._inside))
        event = _cut(data, position + SHORT.size, position + size)
        self._builder.add(version, sequence, event, size, is_json=False)
        return size

    def _window(self, data: bytes | bytearray, position: int, available: int, version: int) -> int:
        if available < SHORT.size:
            return self._wait_for(SHORT.size)
        self._builder.announce(version, _unpack_short(data, position)[2])
        return SHORT.size

    def _compressed(
        self, data: bytes | bytearray, position: int, available: int, version: int
    ) -> int:
        if self._inside:
            raise RemoteProtocolError("a compressed frame contains another compressed frame")
        if available < SHORT.size:
            return self._wait_for(SHORT.size)
        length = _unpack_short(data, position)[2]
        limit = self._limits.max_compressed_size
        if length > limit:
            raise RemoteProtocolError(
                f"a compressed frame of {length} bytes is above the limit of {limit}"
                " (max_compressed_size)"
            )
        self._builder.check_version(version)
        size: int = SHORT.size + length
        if available < size:
            return self._wait_for(size)
        payload = _cut(data, position + SHORT.size, position + size)
        inner = FrameDecoder(self._limits, self._builder, version)
        parts = inflate(payload, self._limits.max_inflated_size)
        self._opened = _Opened(payload, parts, inner)
        self._builder.begin_compressed()
        self._unpack(self._opened)
        return size

    def _unpack(self, opened: _Opened) -> None:
        """Go on with a compressed frame, to its end or until the work is enough."""
        inner = opened.inner
        # Its checksum comes last: if it is wrong, the reader drops the batches out of it.
        while self.work < self._step:
            if opened.position == len(opened.part):
                part = next(opened.parts, None)
                if part is None:
                    break
                opened.part, opened.position = part, 0
                self.work += len(part)
            opened.position = inner.feed(opened.part, opened.position, self._step)
            self.work += inner.work
        else:
            return
        if inner.partial:
            raise MalformedFrame("the last frame in a compressed frame is cut off")
        self._opened = None
        self._builder.end_compressed(opened.payload)

    def _wait_for(self, need: int) -> int:
        self._need = need
        return 0

    def _too_long(self, sequence: int, size: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"the event of sequence {sequence} has at least {size} bytes, above the limit of"
            f" {self._limits.max_event_size} (max_event_size)"
        )

    def _count(self, frames: int) -> None:
        self._frames += frames
        if self._inside and self._frames > self._limits.max_compressed_frames:
            raise RemoteProtocolError(
                "a compressed frame contains more frames than the limit of"
                f" {self._limits.max_compressed_frames} (max_compressed_frames)"
            )


def _cut(data: bytes | bytearray, start: int, stop: int) -> bytes:
    if isinstance(data, bytes):
        return data[start:stop]
    return bytes(memoryview(data)[start:stop])  # One copy, and not two.


def _stranger(first: bytes) -> str:
    """Return the error text for bytes that are no frame; it names protocols that are likely.

    It shows one byte only. The text goes to the log, and behind a wrong length, or from a program
    that speaks another protocol, these bytes may be the contents of an event, or a password.
    """
    text = f"no frame begins with the byte 0x{first[0]:02x}: the version must be '1' or '2'"
    if _TLS.startswith(first[:2]):
        return f"{text}; TLS begins with 16 03, and this connection is not encrypted"
    if any(word.startswith(first[: len(word)]) for word in _HTTP):
        return f"{text}; an HTTP request begins like this"
    return text
