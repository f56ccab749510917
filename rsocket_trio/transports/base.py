"""What carries frames: `FrameTransport`, and what is known about it: `TransportInfo`.

A transport carries whole frames and never looks inside one. Its two halves are used by one task
each (`send_frames` by the connection's writer, `receive_frames` by its reader), so no transport
needs a lock.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import attrs
import trio

__all__ = ["FrameTransport", "TransportInfo"]


@attrs.frozen(kw_only=True)
class TransportInfo:
    """Facts about a transport, for acceptors and logs.

    Attributes:
        scheme: ``tcp``, ``tls``, ``unix``, ``ws``, ``wss`` or ``memory``.
        peer: The peer's address as text (``host:port``), empty where there is none.
        local: Our own address, likewise.
        path: WebSocket: the path of the request, with its query; else empty.
        headers: WebSocket: the headers of the handshake request, names in lower case, in order.
        extra: What else a transport knows, e.g. ``peer_certificate``.
    """

    scheme: str
    peer: str = ""
    local: str = ""
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    extra: Mapping[str, object] = attrs.field(factory=dict)

    def header(self, name: str) -> str | None:
        """The first header of that name (any case), or ``None``."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


class FrameTransport(trio.abc.AsyncResource):
    """Carries whole frames over some connection, in order and reliably.

    Attributes:
        info: Facts about the transport.
        wake_writer: Set by the connection. A transport that has something of its own to send (a
            WebSocket pong) calls it; the writer then calls ``send_frames([])``.
        immediate: Whether there is `send_frames_nowait`.
    """

    info: TransportInfo
    wake_writer: Callable[[], None] | None = None
    immediate: bool = False

    @abstractmethod
    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames, in order, in as few writes as possible.

        Args:
            frames: Whole frames without length prefix; may be empty (see ``wake_writer``).

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: a cancellation point always; other tasks run where it has to wait.
        If cancelled: frames may have been sent in part; the transport is good only for closing.
        """

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """Send frames as far as that takes no waiting; only while `send_frames` does not run.

        For transports that are ``immediate``. It may be called outside of any task.

        Returns:
            Whether all has left. If not, the transport keeps the rest, and the next `send_frames`
            (with no frames, say) sends it first, and raises what there is to raise.

        Raises:
            Exception: Nothing was sent and nothing kept; `send_frames` would raise it too.
        """
        raise NotImplementedError

    @abstractmethod
    async def receive_frames(self) -> list[bytes]:
        """Receive what has arrived: one frame at least, usually all that one read brought.

        Returns:
            Whole frames without length prefix. The empty list means that the peer has closed
            cleanly, between two frames; from then on every call returns it.

        Raises:
            RemoteProtocolError: What arrives is no frame (too long, a text message, ...). Frames
                received before it are returned first.
            trio.BrokenResourceError: The connection broke, or ended inside a frame.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """

    async def close_sending(self) -> bool:
        """Say that nothing more will be sent, while receiving goes on.

        TCP shuts down its sending half, WebSocket sends its close frame. Only while no other task
        is sending.

        Returns:
            Whether it was said; False where the transport has no way to, e.g. TLS.

        Raises:
            trio.BrokenResourceError: The peer is gone.

        Checkpoint: not necessarily.
        If cancelled: it may or may not have been said; close the transport.
        """
        return False

    @abstractmethod
    async def aclose(self) -> None:
        """Close, politely where the transport has a way to be polite and it takes no waiting.

        Checkpoint: always.
        If cancelled: closed all the same, forcefully.
        """
