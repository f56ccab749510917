"""The leases of one connection: `ConnectionLeases` for users, `Leases` for the connection.

The pure `rsocket_trio.protocol.lease_ledger` decides what a lease allows. This module has the
clock and the LEASE frames, and asks the source for the next lease when one has ended. Our own
requests wait in `rsocket_trio.connection.admission`;
`rsocket_trio.connection.incoming_requests` counts the peer's.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING, final

import trio

from ..frames.lease import LeaseFrame
from ..interactions.isolation import failure_of
from ..interactions.sending import close_iterator
from ..lease import (
    AnyLeaseSource,
    AskForLease,
    Lease,
    LeaseOptions,
    LeaseSource,
    LeaseStatistics,
    taken_from,
)
from ..log_policy import logger
from ..protocol.lease_ledger import GrantedLease, HeldLease
from ..sealed import Sealed, make
from .latency import Latency

if TYPE_CHECKING:
    from .crew import Crew
    from .outbox import Outbox

__all__ = ["ConnectionLeases", "Leases"]


@final
class ConnectionLeases(metaclass=Sealed, given="Requester.leases gives it"):
    """The leases of a connection that uses them; `rsocket_trio.Requester.leases`."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    def __repr__(self) -> str:
        leases = self._leases
        return f"<ConnectionLeases held={leases.held!r} granted={leases.granted!r}>"

    @property
    def source(self) -> AnyLeaseSource:
        """The source of the leases that we grant.

        An acceptor may set it for its connection; setting it later has no effect.
        """
        return self._leases.source

    @source.setter
    def source(self, source: AnyLeaseSource) -> None:
        self._leases.source = source

    @property
    def last_lease(self) -> Lease | None:
        """The newest lease from the peer, with its metadata; ``None`` before the first."""
        return self._leases.last_lease

    @property
    def waiting(self) -> int:
        """The number of our requests that wait for a lease or for their turn."""
        return self._leases.waiting

    @property
    def left(self) -> int:
        """The number of requests that the peer's lease allows us now."""
        return self._leases.left

    def grant(self, lease: Lease) -> None:
        """Grant a lease to the peer of this connection; it replaces the present one.

        The lease is sent at once, or as soon as the connection is accepted. When it has ended, the
        source is asked again.
        """
        self._leases.grant(lease)

    def statistics(self) -> LeaseStatistics:
        """Return numbers about the granted leases. This does not reset the mean latency."""
        return self._leases.statistics()


class Leases:
    """The leases of a connection.

    Attributes:
        options: The settings.
        source: See `ConnectionLeases.source`.
        last_lease: See `ConnectionLeases.last_lease`.
        waiting: See `ConnectionLeases.waiting`.
        held: The peer's lease; our requests count against it.
        granted: Our lease; the peer's requests count against it.
        latency: How long handlers take.
        on_lease: Called when the peer has granted a lease.
        view: The object that the user gets.
    """

    def __init__(self, options: LeaseOptions, outbox: Outbox, crew: Crew) -> None:
        self.options = options
        self.source: AnyLeaseSource = options.source
        self.last_lease: Lease | None = None
        self.waiting = 0
        self.held = HeldLease()
        self.granted = GrantedLease()
        self.latency = Latency()
        self.on_lease: Callable[[], None] = _nothing
        self.view = make(ConnectionLeases, self)
        self._outbox = outbox
        self._crew = crew
        self._running = False
        self._queued: Lease | None = None
        self._changed = trio.Event()
        self._started: Callable[[], None] = _nothing

    @property
    def left(self) -> int:
        """See `ConnectionLeases.left`."""
        return self.held.left(trio.current_time())

    def grant(self, lease: Lease) -> None:
        """See `ConnectionLeases.grant`."""
        frame = LeaseFrame(lease.time_to_live_ms, lease.requests, lease.metadata).encode()
        if not self._running:
            self._queued = lease
            return
        self.granted.replace(lease.requests, lease.time_to_live_ms / 1000, trio.current_time())
        self._outbox.put_urgent(frame)
        self._changed.set()

    def statistics(self) -> LeaseStatistics:
        """See `ConnectionLeases.statistics`."""
        now = trio.current_time()
        granted = self.granted
        return LeaseStatistics(
            expires_in=max(0.0, granted.expires - now),
            left=granted.left(now),
            active_streams=self._crew.active,
            rejected=granted.rejected,
            mean_latency=self.latency.mean,
        )

    def receive(self, frame: LeaseFrame) -> None:
        """Receive a LEASE frame; its time begins now."""
        seconds = frame.time_to_live_ms / 1000
        self.last_lease = Lease(frame.number_of_requests, seconds, frame.metadata)
        self.held.replace(frame.number_of_requests, seconds, trio.current_time())
        self.on_lease()

    def spend(self) -> bool:
        """Count a request of the peer; return False if it is beyond the lease."""
        now = trio.current_time()
        if not self.granted.take(now):
            return False
        if not self.granted.left(now):
            self._changed.set()
        return True

    def restart(self) -> None:
        """Restart the leases: the session goes on over another connection.

        Leases do not carry over (Protocol.md, "Resume Operation"). The caller cancels `run` before
        this call, and runs it again after it.
        """
        self._running = False
        self.held.clear()
        self.granted.clear()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Grant the leases of the source, until cancelled.

        Args:
            task_status: Started once the first lease is queued, or the source makes us wait.

        Checkpoint: always.
        If cancelled: only `grant` grants leases from then on.
        """
        self._running = True
        self._started = task_status.started
        source = self.source
        first, self._queued = self._queued, None
        try:
            if isinstance(source, LeaseSource):
                with taken_from(source, self.grant):
                    await self._run(first or source.last, source.otherwise)
            else:
                await self._run(first, source)
        finally:
            self._running = False

    async def _run(
        self, first: Lease | None, source: Lease | AskForLease | AsyncIterable[Lease] | None
    ) -> None:
        if first is not None:
            self.grant(first)
        if source is not None:
            await self._run_source(source, begun=first is not None)
        self._report_started()
        await trio.sleep_forever()

    def _report_started(self) -> None:
        started, self._started = self._started, _nothing
        started()

    async def _run_source(
        self, source: Lease | AskForLease | AsyncIterable[Lease], *, begun: bool
    ) -> None:
        try:
            # Contains the cancellation of a scope that the source leaves open.
            with trio.CancelScope():
                if isinstance(source, AsyncIterable):
                    await self._grant_from_iterable(aiter(source))
                    return
                if begun:
                    await self._wait_until_ended(no_answer=False)
                if isinstance(source, Lease):
                    await self._grant_by_asking(lambda now: None if now.expires_in else source)
                else:
                    await self._grant_by_asking(source)
        except BaseException as error:
            # A failure of the source must not harm requests and other connections. `failure_of`
            # raises `error` again if it is no such failure, for example a cancellation.
            logger.error(
                "the source of leases failed; it grants no more on this connection",
                exc_info=failure_of(error),
            )

    async def _grant_from_iterable(self, leases: AsyncIterator[Lease]) -> None:
        self._report_started()
        try:
            async for lease in leases:
                self.grant(lease)
                # A source that never waits must not block other tasks, nor flood the peer.
                await trio.lowlevel.checkpoint()
                await self._outbox.wait_unclogged()
        finally:
            await close_iterator(leases)

    async def _grant_by_asking(self, source: AskForLease) -> None:
        while True:
            question = self.statistics()
            self.latency.begin_anew()
            answer = source(question)
            if isinstance(answer, Awaitable):
                self._report_started()
                answer = await answer
            if answer is not None:
                self.grant(answer)
            await self._wait_until_ended(no_answer=answer is None)

    async def _wait_until_ended(self, *, no_answer: bool) -> None:
        """Wait until there is a reason to ask the source.

        The reason is a lease that is used up or has expired. If the lease never allowed any
        request, or the source gave no lease when it was asked last (``no_answer``), only expiry
        counts.
        """
        self._report_started()
        granted = self.granted
        version = granted.version
        done = no_answer and trio.current_time() >= granted.expires
        while True:
            if granted.version != version:
                version = granted.version
                no_answer = done = False
            now = trio.current_time()
            if granted.stopped or done:
                deadline = inf
            elif now >= granted.expires:
                return
            elif granted.left(now) or no_answer or not granted.requests:
                deadline = granted.expires
            else:
                return
            with trio.move_on_at(deadline):
                await self._changed.wait()
            self._changed = trio.Event()


def _nothing() -> None:
    """Do nothing: no callback is set."""
