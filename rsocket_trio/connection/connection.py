"""A connection is a nursery: `Connection` puts its parts together.

    Connection.run
    ├─ writer                  the only caller of send_frames; outlives the others to flush
    └─ nursery
       ├─ crew                 reads, and runs the handlers of the peer's requests
       ├─ keepalive            sends KEEPALIVEs, and finds out that the peer is dead
       └─ leases               asks for the next lease, if leases are in use

State changes are synchronous and come first: `Lifecycle.end` fails every stream before it awaits
anything. `rsocket_trio.protocol` decides what is legal; this package decides when things happen.
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
from ..protocol.receive_account import ReceiveAccount
from .admission import LeasedAdmission, OpenAdmission
from .closing import close_politely
from .crew import Crew
from .dispatch import Dispatcher
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
from .stream_sender import StreamSender
from .stream_table import StreamTable
from .stream_zero import StreamZero
from .workload import Workload

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..interactions.operation import Handlers
    from ..lease import LeaseOptions
    from ..transports.base import FrameTransport
    from .admission import Admission

__all__ = ["Connection"]

_WOKEN_PER_TURN: Final = 64
"""The number of tasks that one turn of the loop wakes when the connection is over."""

_NOT_ACCEPTED: Final = "the connection is not accepted yet; use the requester after accept()"


class Connection:
    """One connection. It begins when the server accepts SETUP, or the client queues it.

    Attributes:
        transport: Carries the frames. Its owner closes it, after `run`.
        config: The settings.
        lifecycle: Whether it is accepted, draining or over, and how to end it.
        outbox: The queue of frames to send.
        admission: Lets requests of ours through, or says why none may be sent: the connection is
            not accepted yet, is being closed, or is over.
        table: The open streams.
        account: Counts the bytes that have arrived and that no task has taken yet.
        sender: Sends what the streams have to send.
        workload: The peer's requests that wait or run.
        crew: The tasks that read and run handlers.
        dropped: How many messages of the peer were dropped, by interaction; they have no answer.
        leases: The leases of both sides; ``None`` if leases are not in use (L in SETUP).
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
            limits.max_outbox_size, limits.max_control_size, limits.max_unsent_control_size
        )
        self.workload = workload = Workload(limits)
        self.crew = Crew(workload, outbox)
        self.leases = None if lease is None else Leases(lease, outbox, workload)
        self.admission: Admission = (
            OpenAdmission(outbox) if self.leases is None else LeasedAdmission(outbox, self.leases)
        )
        self.admission.refusal = LocalProtocolError(_NOT_ACCEPTED)
        self.table = table = StreamTable(client=client)
        self.account = ReceiveAccount(limits)
        whole_requests = not transport.capabilities.fragmented_requests
        self.sender = sender = StreamSender(
            config,
            table,
            outbox,
            self.admission,
            self.account,
            max_request=limits.max_frame_size if whole_requests else None,
        )
        self._first_steps = FirstSteps(table, sender, outbox, workload)
        self._requests = IncomingRequests(
            config, table, sender, workload, self._first_steps, self.leases, client=client
        )
        self._requests.uncredited = transport.capabilities.uncredited_requests
        zero = StreamZero(lifecycle, outbox, self._requests, self.leases, client=client)
        self._zero = zero
        self.dropped = self._requests.dropped
        self._dispatcher = Dispatcher(table.operations, self._requests, zero, client=client)
        lifecycle.on_end += [self._queue_last_words, self._requests.end, workload.end]
        lifecycle.on_end += [sender.end, table.end]
        lifecycle.on_drain += [self.admission.refuse, self._requests.drain, self._watch_drain]
        lifecycle.is_idle = lambda: not table.operations and not workload.active
        outbox.on_overrun = self._overrun

    def open(self, responder: Handlers) -> None:
        """Let requests through, in both directions; `run` comes next."""
        leases = self.leases
        if leases is not None:
            responder = Timed(responder, leases.latency)
        self._requests.responder = self._first_steps.responder = responder
        if self.lifecycle.draining is None and self.lifecycle.failure is None:
            self.admission.refusal = None

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
            frames: The frames behind the first one that the transport has delivered already.
            interval: The time between our KEEPALIVEs, in seconds; ``None`` on a server.
            max_lifetime: After this time of silence, in seconds, the peer counts as dead.
            task_status: Started once the tasks run.

        Checkpoint: always.
        If cancelled: every stream fails at once, handlers are cancelled, nothing more is sent.
        """
        lifecycle = self.lifecycle
        transport = self.transport
        outbox = self.outbox
        clock = KeepaliveClock(interval, max_lifetime, trio.current_time())
        reader = Reader(transport, self._dispatcher, self._zero, lifecycle, clock, frames)
        transport.wake_writer = outbox.wake_writer
        try:
            async with trio.open_nursery() as outer:
                outer.start_soon(self._write)
                with self._stuck_handlers():
                    async with trio.open_nursery() as nursery:
                        if self.leases is not None:
                            # Before the reading: the first lease leaves before any answer. So a
                            # client that knows that its SETUP was accepted has the lease.
                            await nursery.start(run_leases, self.leases, outbox, transport)
                        self.crew.start(nursery, reader, self._first_steps)
                        nursery.start_soon(watch, clock, transport, outbox, lifecycle)
                        task_status.started()
                        try:
                            await lifecycle.ended.wait()
                            await self._release_in_turns()
                        finally:
                            # Handlers may need some time to end; this does not wait for them.
                            lifecycle.close()
                            self._release_all()
                            nursery.cancel_scope.cancel(reason=str(lifecycle.failure))
                            if await self.crew.end():
                                await transport.aclose()
                await self._flush_and_close()
                outer.cancel_scope.cancel(reason="the connection is over")
        finally:
            lifecycle.close()
            outbox.room.fail_waiting()
            outbox.discard()
            reader.forget()
            self.workload.forget()

    def close_gracefully(self, reason: str = "") -> None:
        """Send CONNECTION_CLOSE, let the open streams finish, then end."""
        lifecycle = self.lifecycle
        if lifecycle.failure is None and lifecycle.draining is None:
            frame = encode_error(0, ErrorCode.CONNECTION_CLOSE, reason.encode())
            self.outbox.put_urgent(frame)
            lifecycle.drain(trio.ClosedResourceError("the connection was closed here"))

    # -- the writer -------------------------------------------------------------------------

    async def _write(self) -> None:
        """Send all queued frames in one call, again and again."""
        outbox = self.outbox
        send_frames = self.transport.send_frames
        try:
            with flushed_by_loop(outbox, self.transport):
                while True:
                    await send_frames(await outbox.take())
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            # ClosedResourceError: the owner has closed the transport while it was in use.
            self.lifecycle.lost(error)
            outbox.discard()

    async def _release_in_turns(self) -> None:
        """Cancel handlers that wait, and wake tasks that wait for room: some in each turn.

        With thousands of tasks, waking all at once would block the loop for seconds.
        """
        dismissed = self._dismiss()
        room = self.outbox.room
        while sum(1 for _ in islice(dismissed, _WOKEN_PER_TURN)) or room.waiting:
            room.fail_waiting(_WOKEN_PER_TURN)
            await checkpoint()

    def _dismiss(self) -> Iterator[None]:
        failure = self.lifecycle.failure
        assert failure is not None  # the connection is over
        return dismiss(self.crew.shifts, failure)

    def _release_all(self) -> None:
        """Cancel and wake all that are left, in this turn of the loop."""
        deque(self._dismiss(), maxlen=0)
        self.outbox.room.fail_waiting()

    async def _flush_and_close(self) -> None:
        """Send the queued frames, then close so that the peer can read them, within a timeout."""
        with trio.move_on_after(self.config.close_timeout):
            # If the transport is gone, or the peer sends malformed frames, waiting is useless.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError):
                await self.outbox.wait_idle()
                # From here on this task sends, not the writer.
                self.transport.wake_writer = None
                await close_politely(self.transport)

    # -- callbacks of the parts -------------------------------------------------------------

    def _queue_last_words(self, _error: Exception, last_words: bytes | None) -> None:
        if last_words is not None:
            self.outbox.put_urgent(last_words)

    def _watch_drain(self, _error: Exception) -> None:
        self.table.on_forgotten = self.workload.on_done = self.lifecycle.check_drained

    def _overrun(self, size: int) -> None:
        """Close the connection: the peer does not read our answers."""
        limit = self.config.limits.max_unsent_control_size
        peer = self.transport.info.peer
        logger.info("closing the connection to %s: the peer does not read", peer)
        reason = ConnectionClosed(
            f"{size} bytes of answers are unsent, as the peer does not read them "
            f"(Limits.max_unsent_control_size is {limit})"
        )
        words = f"{size} bytes of answers were not read"
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, words.encode())
        self.lifecycle.end(reason, last_words=last_words)

    @contextmanager
    def _stuck_handlers(self) -> Iterator[None]:
        """Absorb the errors that trio raises for nurseries that handlers have left open.

        This is a fault of one handler. It is logged already, and does no harm to other streams.
        """
        try:
            yield
        except* RuntimeError as group:
            if len(group.exceptions) > self.crew.stuck:
                raise
