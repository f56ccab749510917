"""Frames over your own trio-websocket connection: `TrioWebSocketTransport`.

Use it for one path among others on your own trio-websocket server, or for a client with your own
settings. ``ws://`` addresses use `wsproto_stream`, which is much faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio
import trio_websocket
from wsproto.frame_protocol import CloseReason

from ..config import MAX_FRAME_SIZE
from ..entrance import over
from ..errors import RemoteProtocolError
from ..frames.length import too_long
from .base import FrameTransport, TransportInfo
from .wsproto_stream import CLEAN_CLOSES, describe_close

__all__ = ["TrioWebSocketTransport"]

_CLOSE_GRACE: Final = 0.5
"""How long the closing handshake may take, in seconds."""


class TrioWebSocketTransport(FrameTransport):
    """Carries frames over a `trio_websocket.WebSocketConnection`.

    It owns the connection; do not read or write its messages yourself. trio-websocket answers
    pings, and refuses messages longer than its ``max_message_size``, 1 MiB by default. The largest
    frames need 16 MiB; a small `ConnectionConfig.fragment_size` on the other side keeps frames
    below the limit.

    Args:
        ws: The connection, after its handshake.
        info: Facts for acceptors and logs; by default those that the connection knows. On a server
            it does not know the headers of the request: take them from its WebSocketRequest.
        max_frame_size: The peer's messages may be this long, in bytes.
    """

    def __init__(
        self,
        ws: trio_websocket.WebSocketConnection,
        *,
        info: TransportInfo | None = None,
        max_frame_size: int = MAX_FRAME_SIZE,
    ) -> None:
        self.info = _info(ws) if info is None else info
        self._ws = ws
        self._max_frame_size = self._at_most = max_frame_size
        self._failure: RemoteProtocolError | None = None
        self._failure_code = 0
        self._closed = False

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`: one write per frame, as trio-websocket does it.

        Raises:
            trio.BrokenResourceError: The peer is gone, or has closed.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: frames may have been sent in part; you can only close the transport then.
        """
        if self._closed:
            await over(trio.ClosedResourceError("this transport is closed"))
        try:
            for frame in frames:
                await self._ws.send_message(bytes(frame))
        except trio_websocket.ConnectionClosed as error:
            if self._closed:
                raise trio.ClosedResourceError("this transport is closed") from None
            raise trio.BrokenResourceError(_describe(error)) from error
        if not frames:
            await trio.lowlevel.checkpoint()

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`: one message at a time.

        Raises:
            RemoteProtocolError: The peer sent a text message, or one that is too long; `aclose`
                tells the peer.
            trio.BrokenResourceError: The connection broke, or ended without a close frame, or
                was closed with the code of an error.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        if self._closed:
            await over(trio.ClosedResourceError("this transport is closed"))
        if self._failure is not None:
            await trio.lowlevel.checkpoint()
            raise self._failure
        try:
            message = await self._ws.get_message()
        except trio_websocket.ConnectionClosed as error:
            if self._closed:
                raise trio.ClosedResourceError("this transport is closed") from None
            if error.reason is not None and error.reason.code in CLEAN_CLOSES:
                return []
            raise trio.BrokenResourceError(_describe(error)) from error
        if isinstance(message, str):
            text = RemoteProtocolError("WebSocket: a text message; frames must be binary")
            raise self._fail(text, CloseReason.UNSUPPORTED_DATA)
        size = len(message)
        if size > self._at_most:
            failure = too_long(
                "WebSocket: a message",
                size,
                at_most=self._at_most,
                max_frame_size=self._max_frame_size,
            )
            raise self._fail(failure, CloseReason.MESSAGE_TOO_BIG)
        return [message]

    def _fail(self, failure: RemoteProtocolError, code: int) -> RemoteProtocolError:
        self._failure = failure
        self._failure_code = int(code)
        return failure

    def limit_frames(self, at_most: int | None) -> None:
        """See `FrameTransport.limit_frames`.

        trio-websocket has a message in memory before this can see its length: its own
        ``max_message_size`` is the bound of what a stranger may send.
        """
        self._at_most = self._max_frame_size
        if at_most is not None:
            self._at_most = min(at_most, self._at_most)

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`: do the closing handshake of trio-websocket.

        Checkpoint: always.
        If cancelled: the peer may or may not have been told; close the transport.
        """
        await trio.lowlevel.checkpoint()  # `ws.aclose` has no checkpoint if the peer has closed
        if self._closed or self._failure is not None:
            return False
        await self._ws.aclose()
        return True

    async def aclose(self) -> None:
        """Close with the closing handshake, or without it if the peer does not answer in 0.5 s.

        Checkpoint: always.
        If cancelled: closed nevertheless, forcefully.
        """
        self._closed = True
        try:
            with trio.move_on_after(_CLOSE_GRACE):
                if self._failure is None:
                    await self._ws.aclose()
                else:
                    await self._ws.aclose(self._failure_code, str(self._failure)[:100])
        finally:
            # After an incomplete closing handshake trio-websocket's reader would wait for room
            # without end, and a client that the server closed first would keep its socket open.
            self._ws._recv_channel.close()  # noqa: SLF001 - trio-websocket has no public way
            await trio.aclose_forcefully(self._ws._stream)  # noqa: SLF001 - the same


def _describe(error: trio_websocket.ConnectionClosed) -> str:
    if error.reason is None:
        return "the WebSocket was closed"
    return describe_close(error.reason.code, error.reason.reason or "")


def _info(ws: trio_websocket.WebSocketConnection) -> TransportInfo:
    remote = ws.remote
    secure = not isinstance(remote, str) and remote.is_ssl
    return TransportInfo(
        scheme="wss" if secure else "ws",
        peer=_address(remote),
        local=_address(ws.local),
        path=ws.path or "",
    )


def _address(endpoint: trio_websocket.Endpoint | str) -> str:
    if isinstance(endpoint, str):
        return ""
    return endpoint.url.partition("://")[2]
