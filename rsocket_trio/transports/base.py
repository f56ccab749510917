"""What carries frames: `FrameTransport`, and what is known about it: `TransportInfo`.

A transport carries whole frames and never looks inside one. Its two halves are used by one task
each (`send_frames` by the connection's writer, `receive_frames` by its reader), so no transport
needs a lock.

What one can do and another cannot it says itself (`Capabilities`): nobody asks for its class, so a
transport of yours, or a wrapper around one, is as good as ours.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Final

import attrs
import trio

from ..config import MAX_FRAME_SIZE, MIN_FRAGMENT_SIZE, ConnectionConfig
from ..frames.header import NEXT

__all__ = ["SUBSCRIPTION", "Capabilities", "FrameTransport", "TransportInfo"]

SUBSCRIPTION: Final = NEXT
"""A flag that RSocket 1.0 does not define for REQUEST_STREAM. It says that the stream has no end of
its own, to transports that carry `Capabilities.subscriptions`, and to no others."""


@attrs.frozen(kw_only=True)
class TransportInfo:
    """Facts about a transport, for acceptors and logs.

    Attributes:
        scheme: ``tcp``, ``tls``, ``unix``, ``ws``, ``wss`` or ``memory``.
        peer: The peer's address as text (``host:port``), empty where there is none.
        local: Our own address, likewise.
        listener: On a server: the address it listens on there, as `serve` was given it (with the
            port it really has); empty for a transport that was brought.
        path: WebSocket: the path of the request, with its query; else empty.
        headers: WebSocket: the headers of the handshake request, names in lower case, in order.
        extra: What else a transport knows, e.g. ``peer_certificate``.
    """

    scheme: str
    peer: str = ""
    local: str = ""
    listener: str = ""
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    extra: Mapping[str, object] = attrs.field(factory=dict)

    def header(self, name: str) -> str | None:
        """The first header of that name (any case), or ``None``."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


@attrs.frozen(kw_only=True)
class Capabilities:
    """What a transport can and cannot do, beside carrying frames of RSocket 1.0 as they are.

    The defaults are right for transports that only carry them. A wrapper has those of what it
    wraps: `TransportWrapper` sees to that.

    Attributes:
        max_frame_size: The longest frame it carries, in bytes.
        frame_overhead: A frame may become longer by so many bytes on its way. What fits the
            connection's limits must fit them there too.
        fragmented_requests: Requests but REQUEST_CHANNEL may leave in fragments. If not, each is
            one frame, however long.
        uncredited_requests: The peer may open a stream with an initial n of 0, and grant the first
            item with REQUEST_N.
        subscriptions: It tells a subscription from a stream, by a flag (``SUBSCRIPTION``).
        resumable: It outlives what carries it, and may be without anything below it for a while:
            there are `FrameTransport.wait_carried` and `FrameTransport.on_lost`.
        byte_stream: It puts the length of RSocket 1.0 before each frame. Another protocol has
            another length, so it cannot be spoken over this.
        translates: The peer speaks another protocol; there is nothing to find out about it.
    """

    max_frame_size: int = MAX_FRAME_SIZE
    frame_overhead: int = 0
    fragmented_requests: bool = True
    uncredited_requests: bool = False
    subscriptions: bool = False
    resumable: bool = False
    byte_stream: bool = False
    translates: bool = False

    def limit_config(self, config: ConnectionConfig) -> ConnectionConfig:
        """The settings of a connection over such a transport: its frames fit what carries them."""
        allowed = config.limits.max_frame_size - self.frame_overhead
        largest = max(min(allowed, self.max_frame_size), MIN_FRAGMENT_SIZE)
        if largest == config.limits.max_frame_size:
            return config
        return attrs.evolve(
            config,
            fragment_size=min(config.fragment_size, largest),
            limits=attrs.evolve(config.limits, max_frame_size=largest),
        )


class FrameTransport(trio.abc.AsyncResource):
    """Carries whole frames over some connection, in order and reliably.

    Attributes:
        info: Facts about the transport.
        capabilities: What it can do. It does not change once the connection has begun.
        immediate: Whether there is `send_frames_nowait`.
        receives_nowait: Whether there are `wait_received` and `receive_frames_nowait`.
        wake_writer: Set by the connection. A transport that has something of its own to send (a
            WebSocket pong) calls it; the writer then calls ``send_frames([])``.
        received_at: When bytes of the peer arrived last, whole frames or not, by the clock of trio
            in seconds; minus infinity where it was never, or the transport cannot tell.
        sent_at: When the peer's side last took bytes of what is being sent, likewise.
        on_lost: Set by the connection. A transport that is ``resumable`` calls it, synchronously,
            when it loses what carries it.
    """

    info: TransportInfo
    capabilities: Capabilities = Capabilities()
    immediate: bool = False
    receives_nowait: bool = False
    received_at: float = -inf
    sent_at: float = -inf
    wake_writer: Callable[[], None] | None = None
    on_lost: Callable[[], None] | None = None

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

        For transports that are ``immediate``. It may be called outside of any task. The sequence
        must not be kept: its owner uses it again.

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

    def wait_received(self) -> Awaitable[None]:
        """Wait until `receive_frames_nowait` is worth calling. To be awaited at once.

        For transports that have ``receives_nowait``: `receive_frames` in two steps, which spares
        each read the coroutines that are nested in it (docs/performance.md).

        Raises:
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as `receive_frames`.
        If cancelled: nothing is lost; call again.
        """
        raise NotImplementedError

    def receive_frames_nowait(self) -> list[bytes] | None:
        """Receive what has arrived, right after `wait_received`.

        Returns:
            As `receive_frames`; ``None`` where no frame is whole yet.

        Raises:
            Exception: As `receive_frames`.
        """
        raise NotImplementedError

    async def wait_carried(self) -> trio.Event:
        """Wait until something carries this. For transports that are ``resumable``.

        Returns:
            Set once what carries it is lost.

        Raises:
            trio.BrokenResourceError: Nothing ever will again.

        Checkpoint: only if there is nothing now.
        If cancelled: nothing changes.
        """
        raise NotImplementedError

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
