"""A connection is a nursery: `Connection`.

    Connection.run
    ├─ writer                  the only caller of send_frames; outlives the others to flush
    └─ nursery
       ├─ reader               the only caller of receive_frames
       ├─ keepalive            when to send, when the peer is dead
       ├─ leases               asks for the next one, where leases are in use
       └─ workers              the handlers of the peer's requests

State changes are synchronous and come first: `end` fails every stream before anything is awaited.
What is legal is decided in `rsocket_trio.protocol`; this package decides when.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from ..errors import (
    ConnectionClosed,
    ConnectionLost,
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
)
from ..frames.error import encode_error
from ..protocol.keepalive_clock import KeepaliveClock
from ..reactivesocket.transport import ReactiveSocketTransport, fitted
from .establish import close_politely
from .flushing import flushed_by_loop
from .keepalive import watch
from .latency import Timed
from .leased_streams import LeasedStreams
from .leases import Leases
from .outbox import Outbox
from .reader import Reader
from .requests import Requests
from .resumed_leases import run_leases
from .stream_zero import StreamZero
from .streams import Streams
from .workers import Workers

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..interactions.operation import Handlers
    from ..lease import LeaseOptions
    from ..transports.base import FrameTransport

__all__ = ["Connection"]

logger = logging.getLogger("rsocket_trio")

_NOT_ACCEPTED: Final = "the connection is not accepted yet; use the requester after accept()"


class Connection:
    """One connection, from the acceptance of its SETUP (server) or its sending (client) on.

    Attributes:
        transport: What carries the frames. Its owner closes it, after `run`.
        client: Whether we dialled.
        established: Client: something has arrived that only an accepted SETUP can cause.
        ended: Set when the connection is over.
        acceptance: Set when `established` becomes true, or the connection is over.
        leases: Where leases are in use (L in SETUP), both sides'; else ``None``.
    """

    nursery: trio.Nursery
    clock: KeepaliveClock

    def __init__(
        self,
        transport: FrameTransport,
        config: ConnectionConfig,
        *,
        client: bool,
        lease: LeaseOptions | None = None,
    ) -> None:
        translated = isinstance(transport, ReactiveSocketTransport)
        if translated:
            config = fitted(config)
        self.transport = transport
        self.config = config
        self.client = client
        self.established = not client
        self.ended = trio.Event()
        self.acceptance = trio.Event()
        self.outbox = Outbox(config.limits.outbox_size, config.limits.max_control_size)
        self.workers = Workers(config.limits, self.outbox)
        self.leases: Leases | None = None
        self.streams: Streams
        if lease is None:
            self.streams = Streams(config, self.outbox, client=client)
        else:
            self.leases = Leases(lease, self.outbox, self.workers)
            self.streams = LeasedStreams(config, self.outbox, self.leases, client=client)
        self.requests = Requests(config, self.streams, self.workers, self.leases, client=client)
        self.streams.refusal = LocalProtocolError(_NOT_ACCEPTED)
        if translated:
            self.streams.max_request = config.limits.max_frame_size
        self.zero = StreamZero(self)
        self._drained_with: Exception | None = None

    def open(self, responder: Handlers) -> None:
        """Let requests through, in both directions; `run` comes next."""
        leases = self.leases
        self.requests.responder = responder if leases is None else Timed(responder, leases.latency)
        if self._drained_with is None:
            self.streams.refusal = None

    async def run(
        self,
        frames: list[bytes],
        *,
        interval: float | None,
        max_lifetime: float,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Drive the connection until it is over; then `failure` says why.

        Args:
            frames: What the transport has delivered already, behind the first frame.
            interval: Between our KEEPALIVEs, in seconds; ``None`` on a server.
            max_lifetime: The peer's silence that means death, in seconds.
            task_status: Started once the tasks run.

        Checkpoint: always.
        If cancelled: every stream fails at once, handlers are cancelled, nothing more is sent.
        """
        self.clock = KeepaliveClock(interval, max_lifetime, trio.current_time())
        self.transport.wake_writer = self.outbox.wake_writer
        try:
            async with trio.open_nursery() as outer:
                outer.start_soon(self._write)
                async with trio.open_nursery() as self.nursery:
                    if self.leases is not None:
                        # Before the reader: the first lease leaves before any answer, so that a
                        # client which knows its SETUP to be accepted has it.
                        await self.nursery.start(run_leases, self.leases, self.transport)
                    self.nursery.start_soon(Reader(self).run, frames)
                    self.nursery.start_soon(watch, self)
                    task_status.started()
                    await self.ended.wait()
                    self.nursery.cancel_scope.cancel(reason=str(self.failure))
                await self._say_goodbye()
                outer.cancel_scope.cancel(reason="the connection is over")
        finally:
            self.close()

    async def _write(self) -> None:
        """The writer: all that is queued, in one go, again and again."""
        outbox = self.outbox
        send_frames = self.transport.send_frames
        try:
            with flushed_by_loop(outbox, self.transport):
                while True:
                    await send_frames(await outbox.take())
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            # Closed: its owner has closed a transport that was in use.
            self.lost(error)
            outbox.discard()

    async def _say_goodbye(self) -> None:
        """Send what is queued, then close so that the peer can read it, all within bounds."""
        with trio.move_on_after(self.config.close_timeout):
            # A transport that is gone, or a peer that talks nonsense: nothing to wait for.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError):
                await self.outbox.wait_idle()
                # From here on this task is the one that sends.
                self.transport.wake_writer = None
                await close_politely(self.transport)

    # -- the end ----------------------------------------------------------------------------

    @property
    def failure(self) -> Exception | None:
        """Why the connection is over; ``None`` while it is not."""
        return self.streams.failure

    def end(self, error: Exception, *, last_words: bytes | None = None) -> None:
        """The connection is over: fail every stream now. The first call counts.

        Args:
            error: What every stream and every later request gets. `trio.ClosedResourceError`
                where it was our own wish.
            last_words: An ERROR frame for the peer.
        """
        if self.streams.failure is not None:
            return
        if last_words is not None:
            self.outbox.put_urgent(last_words)
        self.requests.refused = "the connection is over"  # what the last read still brought
        self.streams.fail_all(error)
        self.ended.set()
        self.acceptance.set()

    def close(self) -> None:
        """End the connection because we want to; what is queued is still sent."""
        self.end(trio.ClosedResourceError("the connection was closed here"))

    def lost(self, cause: Exception) -> None:
        """The transport broke."""
        error = ConnectionLost(f"the connection broke: {cause}")
        error.__cause__ = cause
        self.end(error)

    def protocol_error(self, error: RemoteProtocolError) -> None:
        """The peer broke the rules of the connection: tell it, and close."""
        logger.info("closing the connection to %s: %s", self.transport.info.peer, error)
        reason = ConnectionClosed(f"the peer broke the protocol: {error}")
        reason.__cause__ = error
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, str(error).encode())
        self.end(reason, last_words=last_words)

    def accepted(self) -> None:
        """Client: the SETUP is accepted."""
        self.established = True
        self.acceptance.set()

    # -- draining ---------------------------------------------------------------------------

    def close_gracefully(self, reason: str = "") -> None:
        """Tell the peer CONNECTION_CLOSE, let the open streams finish, then end."""
        if self.failure is None and self._drained_with is None:
            frame = encode_error(0, ErrorCode.CONNECTION_CLOSE, reason.encode())
            self.outbox.put_urgent(frame)
            self.drain(trio.ClosedResourceError("the connection was closed here"))

    def drain(self, error: Exception) -> None:
        """No new streams; once the open ones have finished the connection ends with ``error``.

        (Protocol.md, "Error Codes", CONNECTION_CLOSE: both sides wait for outstanding streams.)
        """
        if self.failure is not None or self._drained_with is not None:
            return
        self._drained_with = error
        self.streams.refuse(error)
        self.requests.refused = "the connection is being closed"
        self.streams.on_forgotten = self.workers.on_done = self._check_drained
        self._check_drained()

    def _check_drained(self) -> None:
        if not self.streams.table and not self.workers.active and self._drained_with is not None:
            self.end(self._drained_with)
