"""A connection is a nursery: `Connection` puts its parts together.

    Connection.run
    ├─ writer                  the only caller of send_frames; outlives the others to flush
    └─ nursery
       ├─ crew                 read, and run the handlers of the peer's requests
       ├─ keepalive            when to send, when the peer is dead
       └─ leases               asks for the next one, where leases are in use

State changes are synchronous and come first: `Lifecycle.end` fails every stream before anything is
awaited. What is legal is decided in `rsocket_trio.protocol`; this package decides when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint

from ..errors import ConnectionClosed, ErrorCode, LocalProtocolError, RemoteProtocolError
from ..frames.error import encode_error
from ..log_policy import logger
from ..protocol.keepalive_clock import KeepaliveClock
from .admission import LeasedAdmission, OpenAdmission
from .crew import Crew
from .dispatch import Dispatcher
from .establish import close_politely
from .first_steps import FirstSteps
from .flushing import flushed_by_loop
from .incoming_requests import IncomingRequests
from .keepalive import watch
from .latency import Timed
from .leases import Leases
from .lifecycle import Lifecycle
from .outbox import Outbox
from .reader import Reader
from .resumed_leases import run_leases
from .shift import dismiss
from .stream_zero import StreamZero
from .streams import Streams

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..interactions.operation import Handlers
    from ..lease import LeaseOptions
    from ..transports.base import FrameTransport

__all__ = ["Connection"]

_AT_ONCE: Final = 64
"""Tasks that are woken in one turn when the connection is over."""

_NOT_ACCEPTED: Final = "the connection is not accepted yet; use the requester after accept()"


class Connection:
    """One connection, from the acceptance of its SETUP (server) or its sending (client) on.

    Attributes:
        transport: What carries the frames. Its owner closes it, after `run`.
        config: Its settings.
        lifecycle: Whether it is accepted, draining or over, and how to end it.
        outbox: What waits to be sent.
        streams: The open streams, and the way out for what they send.
        crew: The tasks that read and run handlers.
        leases: Where leases are in use (L in SETUP), both sides'; else ``None``.
    """

    def __init__(
        self,
        transport: FrameTransport,
        config: ConnectionConfig,
        *,
        client: bool,
        lease: LeaseOptions | None = None,
    ) -> None:
        config = transport.capabilities.limit_config(config)
        limits = config.limits
        self.transport = transport
        self.config = config
        self.lifecycle = lifecycle = Lifecycle(
            established=not client, peer=lambda: transport.info.peer
        )
        self.outbox = outbox = Outbox(
            limits.outbox_size, limits.max_control_size, limits.max_unsent_size
        )
        self.crew = crew = Crew(limits, outbox)
        self.leases = None if lease is None else Leases(lease, outbox, crew)
        self.streams = streams = Streams(
            config,
            outbox,
            OpenAdmission(outbox) if self.leases is None else LeasedAdmission(outbox, self.leases),
            client=client,
        )
        streams.admission.refusal = LocalProtocolError(_NOT_ACCEPTED)
        if not transport.capabilities.fragmented_requests:
            streams.max_request = limits.max_frame_size
        self._first_steps = FirstSteps(streams, outbox, crew)
        self._requests = IncomingRequests(
            config, streams, crew, self._first_steps, self.leases, client=client
        )
        self._requests.uncredited = transport.capabilities.uncredited_requests
        zero = StreamZero(lifecycle, outbox, self._requests, self.leases, client=client)
        self._zero = zero
        self._dispatcher = Dispatcher(streams.table, self._requests, zero, client=client)
        lifecycle.on_end += [self._say_last_words, self._requests.end, crew.end, streams.fail_all]
        lifecycle.on_drain += [streams.admission.refuse, self._requests.drain, self._watch_drain]
        lifecycle.is_idle = lambda: not streams.table and not crew.active
        outbox.on_overrun = self._overrun

    def open(self, responder: Handlers) -> None:
        """Let requests through, in both directions; `run` comes next."""
        leases = self.leases
        if leases is not None:
            responder = Timed(responder, leases.latency)
        self._requests.responder = self._first_steps.responder = responder
        if self.lifecycle.draining is None and self.lifecycle.failure is None:
            self.streams.admission.refusal = None

    async def run(
        self,
        frames: list[bytes],
        *,
        interval: float | None,
        max_lifetime: float,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Drive the connection until it is over; then `Lifecycle.failure` says why.

        Args:
            frames: What the transport has delivered already, behind the first frame.
            interval: Between our KEEPALIVEs, in seconds; ``None`` on a server.
            max_lifetime: The peer's silence that means death, in seconds.
            task_status: Started once the tasks run.

        Checkpoint: always.
        If cancelled: every stream fails at once, handlers are cancelled, nothing more is sent.
        """
        lifecycle = self.lifecycle
        transport = self.transport
        outbox = self.outbox
        crew = self.crew
        clock = KeepaliveClock(interval, max_lifetime, trio.current_time())
        reader = Reader(transport, self._dispatcher, self._zero, lifecycle, clock, frames)
        transport.wake_writer = outbox.wake_writer
        try:
            async with trio.open_nursery() as outer:
                outer.start_soon(self._write)
                with self._stuck_handlers():
                    async with trio.open_nursery() as nursery:
                        if self.leases is not None:
                            # Before the reading: the first lease leaves before any answer, so that
                            # a client which knows its SETUP to be accepted has it.
                            await nursery.start(run_leases, self.leases, transport)
                        crew.start(nursery, reader, self._first_steps)
                        nursery.start_soon(watch, clock, transport, outbox, lifecycle)
                        task_status.started()
                        try:
                            await lifecycle.ended.wait()
                            await self._let_go()
                        finally:
                            # Before the handlers have ended, which may take its time.
                            lifecycle.close()
                            self._let_go_all()
                        nursery.cancel_scope.cancel(reason=str(lifecycle.failure))
                await self._say_goodbye()
                outer.cancel_scope.cancel(reason="the connection is over")
        finally:
            lifecycle.close()
            outbox.room.let_go()
            outbox.discard()
            reader.forget()
            crew.forget()

    def close_gracefully(self, reason: str = "") -> None:
        """Tell the peer CONNECTION_CLOSE, let the open streams finish, then end."""
        lifecycle = self.lifecycle
        if lifecycle.failure is None and lifecycle.draining is None:
            frame = encode_error(0, ErrorCode.CONNECTION_CLOSE, reason.encode())
            self.outbox.put_urgent(frame)
            lifecycle.drain(trio.ClosedResourceError("the connection was closed here"))

    # -- the writer -------------------------------------------------------------------------

    async def _write(self) -> None:
        """Send all that is queued, in one go, again and again."""
        outbox = self.outbox
        send_frames = self.transport.send_frames
        try:
            with flushed_by_loop(outbox, self.transport):
                while True:
                    await send_frames(await outbox.take())
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            # Closed: its owner has closed a transport that was in use.
            self.lifecycle.lost(error)
            outbox.discard()

    async def _let_go(self) -> None:
        """Cancel the handlers that wait, and wake those who wait for room: some in each turn.

        All at once they would be one turn of the loop, of seconds if there are thousands.
        """
        dismissed = self._dismiss()
        room = self.outbox.room
        while sum(1 for _ in islice(dismissed, _AT_ONCE)) or room.waiting:
            room.let_go(_AT_ONCE)
            await checkpoint()

    def _dismiss(self) -> Iterator[None]:
        failure = self.lifecycle.failure
        assert failure is not None  # the connection is over
        return dismiss(self.crew.shifts, failure)

    def _let_go_all(self) -> None:
        """Likewise, those who are left and all at once: there is no time for turns."""
        deque(self._dismiss(), maxlen=0)
        self.outbox.room.let_go()

    async def _say_goodbye(self) -> None:
        """Send what is queued, then close so that the peer can read it, all within bounds."""
        with trio.move_on_after(self.config.close_timeout):
            # A transport that is gone, or a peer that talks nonsense: nothing to wait for.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError):
                await self.outbox.wait_idle()
                # From here on this task is the one that sends.
                self.transport.wake_writer = None
                await close_politely(self.transport)

    # -- what follows from what -------------------------------------------------------------

    def _say_last_words(self, _error: Exception, last_words: bytes | None) -> None:
        if last_words is not None:
            self.outbox.put_urgent(last_words)

    def _watch_drain(self, _error: Exception) -> None:
        self.streams.on_forgotten = self.crew.on_done = self.lifecycle.check_drained

    def _overrun(self, size: int) -> None:
        limit = self.config.limits.max_unsent_size
        logger.info("closing the connection to %s: it does not read", self.transport.info.peer)
        reason = ConnectionClosed(
            f"{size} bytes of answers are unsent, as the peer does not read them "
            f"(Limits.max_unsent_size is {limit})"
        )
        words = f"{size} bytes of answers were not read"
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, words.encode())
        self.lifecycle.end(reason, last_words=last_words)

    @contextmanager
    def _stuck_handlers(self) -> Iterator[None]:
        """Around the tasks of handlers: trio complains of a nursery that one has left open.

        That is the fault of one handler, has been logged, and harms nobody else.
        """
        try:
            yield
        except* RuntimeError as group:
            if len(group.exceptions) > self.crew.stuck:
                raise
