"""The interface of transports: `FrameTransport`, and the facts about one: `TransportInfo`.

A transport carries whole frames and does not read their contents. One task uses each half (the
connection's writer calls `send_frames`, its reader `receive_frames`), so transports need no locks.

`Capabilities` say what a transport can do. The connection never asks for the class of a transport,
so your own transport, or a wrapper around one, can do as much as ours.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final

import attrs
import trio

from ..config import MAX_FRAME_SIZE, MIN_FRAGMENT_SIZE, ConnectionConfig
from ..frames.header import NEXT
from ..sockets.byte_stream import TransportInfo
from ..sockets.farewell import LINGER

__all__ = ["SUBSCRIPTION", "Capabilities", "FrameTransport", "TransportInfo", "close_politely"]

SUBSCRIPTION: Final = NEXT
"""A flag that RSocket 1.0 does not define for REQUEST_STREAM. It marks a subscription (a stream
that the responder does not end), only on transports with `Capabilities.subscriptions`."""


@attrs.frozen(kw_only=True)
class Capabilities:
    """The abilities of a transport, besides carrying frames of RSocket 1.0 unchanged.

    The defaults suit transports that only carry frames. A `TransportWrapper` has the capabilities
    of the transport that it wraps.

    Attributes:
        max_frame_size: The longest frame it carries, in bytes.
        frame_overhead: A frame may become longer by this many bytes on its way, and must still fit
            the connection's limits then.
        fragmented_requests: Requests other than REQUEST_CHANNEL may be sent in fragments. If not,
            each is one frame of any length.
        uncredited_requests: The peer may open a stream with an initial n of 0, and grant the first
            item with REQUEST_N.
        subscriptions: It distinguishes subscriptions from streams, by a flag (``SUBSCRIPTION``).
        resumable: It survives the loss of the connection below it, and may be without one for a
            while: it has `FrameTransport.wait_connected` and `FrameTransport.on_lost`.
        byte_stream: It puts the length of RSocket 1.0 before each frame. The ReactiveSocket draft
            has another length, so the draft cannot be spoken over this transport.
        translates_frames: It translates the frames of another protocol, so the peer's protocol is
            known: do not look for it.
    """

    max_frame_size: int = MAX_FRAME_SIZE
    frame_overhead: int = 0
    fragmented_requests: bool = True
    uncredited_requests: bool = False
    subscriptions: bool = False
    resumable: bool = False
    byte_stream: bool = False
    translates_frames: bool = False

    def limit_config(self, config: ConnectionConfig) -> ConnectionConfig:
        """Return the settings for a connection over this transport, with frames that fit."""
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
        capabilities: Its abilities. They do not change after the connection has begun.
        sends_nowait: Whether it has `send_frames_nowait`.
        receives_nowait: Whether it has `wait_received` and `receive_frames_nowait`.
        wake_writer: Set by the connection. A transport that has to send something besides frames
            (a WebSocket pong) calls it; the writer then calls ``send_frames([])``.
        received_at: The time, by trio's clock in seconds, at which bytes of the peer last arrived,
            also of a frame that is not whole. Minus infinity if bytes never arrived or the
            transport does not know.
        sent_at: The time at which the socket or stream last accepted bytes from us, in the same
            way.
        on_lost: Set by the connection. A transport that is ``resumable`` calls it, synchronously,
            when it loses the connection below it.
    """

    info: TransportInfo
    capabilities: Capabilities = Capabilities()
    sends_nowait: bool = False
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

        Checkpoint: a cancellation point always; other tasks run if it has to wait.
        If cancelled: frames may have been sent in part; you can only close the transport then.
        """

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """Send frames as far as possible without waiting.

        For transports with ``sends_nowait``. Call it only while `send_frames` does not run; the
        call may come from outside of any task. Do not keep the sequence: the caller uses it again.

        Returns:
            Whether all was sent. If not, the transport keeps the rest. The next `send_frames`
            (possibly without frames) sends the rest first, or raises the error of this call.

        Raises:
            Exception: The errors of `send_frames`; nothing was sent, and nothing is kept.
        """
        raise NotImplementedError

    @abstractmethod
    async def receive_frames(self) -> list[bytes]:
        """Receive one frame at least, usually all the frames of one read.

        Returns:
            Whole frames without length prefix. The empty list means that the peer has closed
            cleanly, between two frames; every later call returns it too.

        Raises:
            RemoteProtocolError: The peer sent something else than a frame (too long, a text
                message, ...). Frames received before it are returned first.
            trio.BrokenResourceError: The connection broke, or ended inside a frame.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """

    def wait_received(self) -> Awaitable[None]:
        """Wait until `receive_frames_nowait` may return frames. Await the result at once.

        For transports with ``receives_nowait``: `receive_frames` in two steps, which saves the
        nested coroutines of each read (docs/performance.md).

        Raises:
            OSError: The descriptor of the socket was closed elsewhere.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as `receive_frames`.
        If cancelled: nothing is lost; call again.
        """
        raise NotImplementedError

    def receive_frames_nowait(self) -> list[bytes] | None:
        """Receive the frames that have arrived, right after `wait_received`.

        Returns:
            As `receive_frames`; ``None`` if no frame is whole yet.

        Raises:
            Exception: As `receive_frames`.
        """
        raise NotImplementedError

    def limit_frames(self, at_most: int | None) -> None:
        """Limit the first frame of a peer that is not accepted yet, and then lift the limit.

        While there is a limit, nothing behind the first frame is looked at. A transport that
        knows a length before it keeps the bytes checks it there. By default this does nothing: then
        the frame is compared with the limit when it has arrived.

        Args:
            at_most: The longest first frame, in bytes; a longer one is a `FrameTooLong` of
                `receive_frames`. ``None`` lifts the limit.
        """

    async def drop_received(self) -> None:
        """Receive and drop what the peer still sends, until its end, also after an error of its.

        A transport that carries bytes drops 64 MiB at most: a peer that goes on behind them does
        not wait for an answer.

        Raises:
            RemoteProtocolError: The peer sends malformed frames, and they cannot be passed over.
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing changes; call again, or close the transport.
        """
        while await self.receive_frames():
            pass

    async def wait_connected(self) -> trio.Event:
        """Wait until there is a connection below. For transports that are ``resumable``.

        Returns:
            An event that is set when this connection is lost.

        Raises:
            trio.BrokenResourceError: There will be no connection any more.

        Checkpoint: only if there is no connection now.
        If cancelled: nothing changes.
        """
        raise NotImplementedError

    async def close_sending(self) -> bool:
        """Tell the peer that nothing more will be sent, and go on receiving.

        TCP shuts down its sending half, TLS sends its close_notify before, WebSocket sends its
        close frame. Call it only while no other task is sending.

        Returns:
            Whether the peer was told; False if the transport cannot do so.

        Raises:
            trio.BrokenResourceError: The peer is gone.

        Checkpoint: not necessarily.
        If cancelled: the peer may or may not have been told; close the transport.
        """
        return False

    @abstractmethod
    async def aclose(self) -> None:
        """Close. Tell the peer, if the transport can do so without waiting long.

        Checkpoint: always.
        If cancelled: closed nevertheless, forcefully.
        """


async def close_politely(transport: FrameTransport) -> None:
    """Close the sending side, and give the peer a moment to read the last frames.

    Closing a socket with unread data resets the connection, and the peer may never read the last
    frames. So this receives and drops all frames until the peer closes too. The owner of the
    transport closes it then.

    Raises:
        trio.BrokenResourceError: The transport is gone.
        RemoteProtocolError: The peer sends malformed frames.

    Checkpoint: always.
    If cancelled: close the transport.
    """
    with trio.move_on_after(LINGER):
        if await transport.close_sending():
            await transport.drop_received()
