"""One connection of a server: `ServerConnection` puts its parts together.

    ServerConnection
    ├─ Lifecycle          draining, over; uses no other part
    ├─ Outbox             the frames that wait to be sent
    ├─ Workload           the calls that wait or run, within their limits
    ├─ Crew               the tasks that read and run handlers      → Workload, Outbox
    ├─ Replies            sends the frames of calls                 → Outbox
    ├─ IncomingCalls      accepts calls, or refuses them            → Replies, Workload
    ├─ CallSteps          runs handlers up to their first wait      → IncomingCalls, Replies
    ├─ CallReader         reads, and dispatches the frames          → IncomingCalls, Lifecycle
    └─ Engine             the tasks, from the first to the end      → all of these

The peer may close its sending half: calls that run finish, and their answers leave. If the peer has
left altogether, their handlers are cancelled.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import trio

from ...account import Account
from ...connection.crew import Crew
from ...connection.engine import Engine
from ...connection.lifecycle import Lifecycle
from ...connection.outbox import Outbox
from ...connection.workload import Workload
from ...errors import ConnectionClosed, ConnectionLost
from ...log_policy import logger
from ...sockets.departure import wait_gone
from ..reader import CallReader
from .first_steps import CallSteps
from .incoming import IncomingCalls
from .replies import Replies

if TYPE_CHECKING:
    from ...sockets.peer import Peer
    from ...transports.byte_stream import ByteStreamTransport
    from ..config import TtrpcConfig
    from .bound import Methods

__all__ = ["ServerConnection"]

_ON_THE_WAY: Final = 0.25
"""How long calls may take to arrive that their client has sent before it could know of a stop, in
seconds; they are answered. The protocol cannot announce a stop, so a client without calls does not
close either, and this delays each stop."""


class ServerConnection:
    """One connection.

    Attributes:
        incoming: Its calls.
        lifecycle: Whether it is draining or over, and how to end it.
        workload: The calls that wait or run.
    """

    def __init__(
        self,
        transport: ByteStreamTransport,
        methods: Methods,
        config: TtrpcConfig,
        peer: Peer,
    ) -> None:
        limits = config.limits
        self._transport = transport
        self._config = config
        self.lifecycle = lifecycle = Lifecycle(
            established=True, peer=lambda: transport.info.peer or transport.info.scheme
        )
        self._outbox = outbox = Outbox(
            limits.max_outbox_size,
            limits.max_control_size,
            limits.max_unsent_control_size,
        )
        requests = Account(
            limits.max_requests_size,
            "TtrpcLimits.max_requests_size",
            "of requests are not answered yet",
        )
        self.workload = workload = Workload(limits.max_active_requests, requests)
        self._crew = Crew(workload, outbox)
        answers = Account(
            limits.max_answers_size, "TtrpcLimits.max_answers_size", "of answers wait for the peer"
        )
        replies = Replies(outbox, answers, limits.max_message_size)
        self.incoming = incoming = IncomingCalls(methods, replies, workload, limits, peer)
        self._steps = incoming.steps = CallSteps(incoming, replies, outbox, workload)
        self._reader = incoming.reader = CallReader(
            transport, incoming.dispatch_all, lifecycle, self._half_closed, config
        )
        self._engine = Engine(
            transport, lifecycle, outbox, workload, self._crew, config.close_timeout
        )
        self._nursery: trio.Nursery | None = None
        lifecycle.on_end += [self._close_outbox, incoming.end, workload.end]
        lifecycle.on_drain += [self._watch_drain]
        lifecycle.is_idle = lambda: not workload.active
        outbox.on_overrun = self._overrun

    async def run(self) -> None:
        """Serve until the connection is over.

        Checkpoint: always.
        If cancelled: handlers are cancelled, and nothing more is sent.
        """

        async def begin(nursery: trio.Nursery) -> None:
            self._nursery = nursery
            self._crew.start(nursery, self._reader, self._steps)

        await self._engine.run(self._reader, begin)
        failure = self.lifecycle.failure
        if isinstance(failure, ConnectionClosed):
            logger.debug("the connection to %s is over: %s", self.lifecycle.peer(), failure)

    def stop(self, reason: str = "", deadline: float = inf) -> None:
        """Accept no more calls, and end when the last one has ended.

        Args:
            reason: Why, for our side: the protocol has no words for it.
            deadline: Calls that run then are cancelled, by trio's clock.
        """
        error = trio.ClosedResourceError(reason or "the connection was closed here")
        self.lifecycle.drain(error, linger=_ON_THE_WAY, deadline=deadline)

    def _close_outbox(self, error: Exception, _last_words: bytes | None) -> None:
        """Give no more room; what is queued still leaves."""
        self._outbox.close(error)

    def _watch_drain(self, _error: Exception) -> None:
        self.incoming.draining = True
        self.workload.on_done = self.lifecycle.check_drained

    def _half_closed(self) -> None:
        """The peer sends nothing more: finish the calls that run."""
        for call in list(self.incoming.calls.values()):
            call.peer_ended()
        self.lifecycle.drain(ConnectionLost("the peer closed the connection"))
        if self.lifecycle.failure is None and self._nursery is not None:
            self._nursery.start_soon(self._watch_departure)

    async def _watch_departure(self) -> None:
        """End the connection if the peer is gone, or the calls take too long."""
        with trio.move_on_after(self._config.half_close_timeout):
            await wait_gone(self._transport.stream)
        self.lifecycle.peer_ended()

    def _overrun(self, size: int) -> None:
        """Close the connection: the peer does not read our answers."""
        logger.info("closing the connection to %s: the peer does not read", self.lifecycle.peer())
        limit = self._config.limits.max_unsent_control_size
        self.lifecycle.end(
            ConnectionClosed(
                f"{size} bytes of answers are unsent, as the peer does not read them "
                f"(TtrpcLimits.max_unsent_control_size is {limit})"
            )
        )
