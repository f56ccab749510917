"""Frames as WebSocket messages over any byte stream: `WsprotoTransport`.

Protocol.md, "Transport Protocol": each frame is one binary WebSocket message without length prefix.
The handshake is in `websocket_handshake`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio
from wsproto.connection import Connection
from wsproto.events import CloseConnection, Pong
from wsproto.frame_protocol import CloseReason

from ..config import MAX_FRAME_SIZE
from ..entrance import over
from ..errors import RemoteProtocolError
from ..escapes import printable
from ..sockets.direct import DirectStream, close_stream
from ..sockets.farewell import drop_bytes
from .base import FrameTransport, TransportInfo
from .byte_stream import RECEIVE_SIZE
from .progress import note_progress, send_in_parts
from .websocket_frames import encode_messages
from .websocket_reader import MessageReader

__all__ = ["CLEAN_CLOSES", "WsprotoTransport", "describe_close"]

CLEAN_CLOSES: Final = frozenset({1000, 1001, 1005})
"""Close codes that are not errors: normal, going away, and a close frame without a code."""

_CLOSE_GRACE: Final = 0.5
"""How long sending a close frame may take, in seconds. It waits only if the peer does not read."""


class WsprotoTransport(FrameTransport):
    """Carries frames as WebSocket messages over a byte stream.

    It owns the stream. Pongs are sent with the next frames, or by `send_frames` without frames,
    which ``wake_writer`` asks for.

    Args:
        stream: The stream that carries the bytes, after the handshake.
        connection: wsproto's state after the handshake; it makes our pongs and close frames.
        info: Facts for acceptors and logs.
        max_frame_size: The peer's messages may be this long, in bytes.
        trailing_data: Bytes that were already read behind the handshake.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        connection: Connection,
        *,
        info: TransportInfo,
        max_frame_size: int = MAX_FRAME_SIZE,
        trailing_data: bytes = b"",
    ) -> None:
        self.info = info
        self.stream = stream
        self.sends_nowait = isinstance(stream, DirectStream)
        note_progress(self, stream)
        self._connection = connection
        self._reader = MessageReader(max_frame_size, peer_masks=not connection.client)
        self._trailing = trailing_data
        self._sending = False
        self._close_sent = False
        self._ended = False
        self._closed = False

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`: one write, with a pong in front if one is due.

        Raises:
            trio.BrokenResourceError: The peer is gone, or has closed.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as the stream's ``send_all``; a cancellation point always.
        If cancelled: frames may have been sent in part; you can only close the transport then.
        """
        if self._closed:
            await over(trio.ClosedResourceError("this transport is closed"))
        try:
            data = self._encode(frames)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()
            raise
        # Stays set after a cancellation: behind part of a frame even a close frame is not allowed.
        self._sending = True
        await send_in_parts(self, self.stream, data)
        self._sending = False

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`: one write."""
        assert isinstance(self.stream, DirectStream)
        done = self.stream.send_nowait(self._encode(frames))
        self._sending = not done
        return done

    def _encode(self, frames: Sequence[bytes]) -> bytes:
        if self._closed:
            raise trio.ClosedResourceError("this transport is closed")
        reader = self._reader
        if reader.peer_close is not None:
            raise trio.BrokenResourceError(describe_close(*reader.peer_close))
        pieces = encode_messages(frames, mask=self._connection.client)
        if reader.ping is not None:
            pieces.insert(0, self._connection.send(Pong(payload=reader.ping)))
            reader.ping = None
        return b"".join(pieces)

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`: all the messages that one read completes.

        Raises:
            RemoteProtocolError: The peer sent a text message, one that is too long, or broke
                RFC 6455. Messages before it are returned first, and `aclose` tells the peer.
            trio.BrokenResourceError: The connection broke, or ended without a close frame, or
                the peer closed with the code of an error.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        if self._closed:
            await over(trio.ClosedResourceError("this transport is closed"))
        reader = self._reader
        if reader.is_over or self._ended:
            await trio.lowlevel.checkpoint()
        messages: list[bytes] = []
        while not messages:
            if self._trailing:
                await trio.lowlevel.checkpoint()
                messages = reader.feed(self._trailing)
                self._trailing = b""
            elif reader.has_more:
                # A read may bring tens of thousands of frames: let other tasks run in between.
                await trio.lowlevel.checkpoint()
                messages = reader.feed(b"")
            elif reader.is_over or self._ended:
                return self._outcome()
            else:
                data = await self.stream.receive_some(RECEIVE_SIZE)
                if self._closed:
                    raise trio.ClosedResourceError("this transport is closed")
                self.received_at = trio.current_time()
                self._ended = not data
                messages = reader.feed(data)
            if reader.ping is not None and self.wake_writer is not None:
                self.wake_writer()
        return messages

    def limit_frames(self, at_most: int | None) -> None:
        """See `FrameTransport.limit_frames`: headers of messages, and their parts, are checked."""
        self._reader.limit_messages(at_most)

    async def drop_received(self) -> None:
        """See `FrameTransport.drop_received`.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing changes; call again, or close the transport.
        """
        try:
            await super().drop_received()
        except RemoteProtocolError:  # a message that is too long, or no message any more
            await drop_bytes(self.stream)

    def _outcome(self) -> list[bytes]:
        """Return or raise the result of every call after the end."""
        reader = self._reader
        if reader.failure is not None:
            raise reader.failure
        code, reason = reader.peer_close or (
            CloseReason.ABNORMAL_CLOSURE,
            "the connection ended without a close frame",
        )
        if code not in CLEAN_CLOSES:
            raise trio.BrokenResourceError(describe_close(code, reason))
        return []

    async def close_sending(self) -> bool:
        """Send a close frame; see `FrameTransport.close_sending`.

        Checkpoint: always, if it has not been sent already.
        If cancelled: the peer may or may not have been told; close the transport.
        """
        if self._closed or self._close_sent or self._sending or self._ended:
            return False
        await self._send_close()
        return True

    async def aclose(self) -> None:
        """Send a close frame, if that is possible within 0.5 s, and close the stream.

        This does not wait for the peer's close frame.

        Checkpoint: always.
        If cancelled: closed nevertheless, forcefully.
        """
        already, self._closed = self._closed, True
        try:
            if not (already or self._close_sent or self._sending or self._ended):
                await self._send_close()
        finally:
            # See `ByteStreamTransport.aclose`.
            self._trailing = b""
            self._reader.forget()
            await close_stream(self.stream)

    async def _send_close(self) -> None:
        self._close_sent = True
        reader = self._reader
        if reader.failure is not None:
            event = CloseConnection(code=reader.failure_code, reason=str(reader.failure))
        elif reader.peer_close is not None:
            # RFC 6455, section 5.5.1: the answer typically echoes the code.
            event = CloseConnection(code=reader.peer_close[0])
        else:
            event = CloseConnection(code=CloseReason.NORMAL_CLOSURE)
        with trio.move_on_after(_CLOSE_GRACE):
            # The peer may be gone already.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.stream.send_all(self._connection.send(event))


def describe_close(code: int, reason: str) -> str:
    """Return a close code and its reason in words."""
    try:
        name = f" {CloseReason(code).name}"
    except ValueError:
        name = ""
    return f"the WebSocket was closed: {int(code)}{name}" + (
        f": {printable(reason)}" if reason else ""
    )
