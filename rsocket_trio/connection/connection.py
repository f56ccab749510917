"""A connection is a nursery: `Connection` puts its parts together.

    Connection.run
    └─ Engine.run
       ├─ writer               the only caller of send_frames; outlives the others to flush
       └─ nursery
          ├─ crew              reads, and runs the handlers of the peer's requests
          ├─ keepalive         sends KEEPALIVEs, and finds out that the peer is dead
          └─ leases            asks for the next lease, if leases are in use

State changes are synchronous and come first: `Lifecycle.end` fails every stream before it awaits
anything. `rsocket_trio.protocol` decides what is legal; this package decides when things happen.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import trio

from ..errors import ConnectionClosed, ErrorCode, LocalProtocolError
from ..frames.error import encode_error, encode_fitting_error
from ..log_policy import logger
from ..protocol.keepalive_clock import KeepaliveClock
from ..protocol.memory import ConnectionMemory
from ..sockets.farewell import LINGER
from .admission import LeasedAdmission, OpenAdmission
from .crew import Crew
from .dispatch import Dispatcher
from .engine import Engine
from .first_steps import FirstSteps
from .incoming_requests import IncomingRequests
from .keepalive import watch
from .latency import Timed
from .leases import Leases
from .lifecycle import Lifecycle, Phase
from .outbox import Outbox
from .reader import Reader
from .resumed_leases import run_leases
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

_CLOSED: Final = "the connection was closed here"
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
        memory: The accounts of all that is held for the peer.
        sender: Sends what the streams have to send.
        workload: The peer's requests that wait or run.
        crew: The tasks that read and run handlers.
        dropped: How many messages of the peer were dropped, by interaction; they have no answer.
        leases: The leases of both sides; ``None`` if leases are not in use (L in SETUP), nor
            enforced.
    """

    def __init__(
        self,
        transport: FrameTransport,
        config: ConnectionConfig,
        *,
        client: bool,
        lease: LeaseOptions | None = None,
        announced: bool = True,
    ) -> None:
        config = transport.capabilities.limit_config(config)
        limits = config.limits
        self.transport = transport
        self.config = config
        self.lifecycle = lifecycle = Lifecycle(
            established=not client, peer=lambda: transport.info.peer
        )
        self.outbox = outbox = Outbox(
            limits.max_outbox_size,
            limits.max_control_size,
            limits.max_unsent_control_size,
        )
        self.memory = memory = ConnectionMemory(limits)
        self.workload = workload = Workload(limits.max_active_requests, memory.requests)
        self.crew = Crew(workload, outbox)
        self.leases = leases = (
            None if lease is None else Leases(lease, outbox, workload, announced=announced)
        )
        agreed = leases if announced else None  # the peer's leases are in use too
        self.admission: Admission = (
            OpenAdmission(outbox) if agreed is None else LeasedAdmission(outbox, agreed)
        )
        self.admission.refusal = LocalProtocolError(_NOT_ACCEPTED)
        self.table = table = StreamTable(client=client)
        whole_requests = not transport.capabilities.fragmented_requests
        self.sender = sender = StreamSender(
            config,
            table,
            outbox,
            self.admission,
            memory,
            max_request=limits.max_frame_size if whole_requests else None,
        )
        self._engine = Engine(
            transport, lifecycle, outbox, workload, self.crew, config.close_timeout
        )
        self._first_steps = FirstSteps(table, sender, outbox, workload)
        self._requests = IncomingRequests(
            config, table, sender, workload, self._first_steps, leases, client=client
        )
        self._requests.uncredited = transport.capabilities.uncredited_requests
        zero = StreamZero(lifecycle, outbox, self._requests, agreed, client=client)
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
        if self.lifecycle.phase is Phase.OPEN:
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
        reader = Reader(
            transport, self._dispatcher, self._zero, lifecycle, clock, self.workload, frames
        )

        async def begin(nursery: trio.Nursery) -> None:
            if self.leases is not None:
                # Before the reading: the first lease leaves before any answer. So a client that
                # knows that its SETUP was accepted has the lease.
                await nursery.start(run_leases, self.leases, outbox, transport)
            self.crew.start(nursery, reader, self._first_steps)
            nursery.start_soon(watch, clock, transport, outbox, lifecycle)
            task_status.started()

        await self._engine.run(reader, begin)

    async def run_as_client(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """`run` with the times that the SETUP names.

        Checkpoint: always.
        If cancelled: as `run`.
        """
        config = self.config
        await self.run(
            [],
            interval=config.keepalive_interval,
            max_lifetime=config.max_lifetime,
            task_status=task_status,
        )

    def close_gracefully(
        self, reason: str = "", deadline: float = inf, *, error: Exception | None = None
    ) -> None:
        """Send CONNECTION_CLOSE, let the open streams finish, then end with the peer.

        Args:
            reason: For the peer.
            deadline: What is open then is cancelled, by trio's clock.
            error: Of what does not finish; by default the connection was closed here.
        """
        lifecycle = self.lifecycle
        if lifecycle.phase is Phase.OPEN:
            limit = self.config.limits.max_frame_size
            words = reason.encode("utf-8", "replace")
            # Behind the requests that are queued: a peer that has none open does not wait for more.
            self.outbox.put_control(
                encode_fitting_error(0, ErrorCode.CONNECTION_CLOSE, words, limit)
            )
        if lifecycle.phase is Phase.OPEN or lifecycle.draining:
            if error is None:
                error = trio.ClosedResourceError(_CLOSED)
            lifecycle.drain(error, linger=LINGER, deadline=deadline)

    def abandon(self, reason: str) -> None:
        """End at once at our own wish, and tell the peer why, as the application has failed."""
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, reason.encode())
        self.lifecycle.end(trio.ClosedResourceError(_CLOSED), last_words=last_words)

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
