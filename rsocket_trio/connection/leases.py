"""The leases of one connection: `ConnectionLeases` for users, `Leases` for the connection.

The pure `rsocket_trio.protocol.lease_ledger` decides what a lease allows. This module has the
clock and the LEASE frames. `rsocket_trio.connection.granting` asks the application's source for
the next lease. Our own requests wait in `rsocket_trio.connection.admission`;
`rsocket_trio.connection.incoming_requests` counts the peer's.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, final

import trio

from ..entrance import Home
from ..frames.lease import LeaseFrame
from ..lease import Lease, LeaseOptions, LeaseSource, LeaseStatistics
from ..protocol.lease_ledger import GrantedLease, HeldLease
from ..sealed import Sealed, make
from .latency import Latency

if TYPE_CHECKING:
    from .outbox import Outbox
    from .workload import Workload

__all__ = ["ConnectionLeases", "Leases"]

_NO_LIMIT: Final = 2**31 - 1


@final
class ConnectionLeases(metaclass=Sealed, given="Requester.leases gives it"):
    """The leases of a connection that uses or enforces them; `rsocket_trio.Requester.leases`."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    def __repr__(self) -> str:
        leases = self._leases
        return f"<ConnectionLeases held={leases.held!r} granted={leases.granted!r}>"

    @property
    def source(self) -> LeaseSource:
        """The source of the leases that we grant.

        An acceptor may set it for its connection; setting it later has no effect.
        """
        return self._leases.source

    @source.setter
    def source(self, source: LeaseSource) -> None:
        self._leases.source = source

    @property
    def received_lease(self) -> Lease | None:
        """The newest lease from the peer, with its metadata; ``None`` before the first."""
        return self._leases.received_lease

    @property
    def waiting_requests(self) -> int:
        """The number of our requests that wait for a lease or for their turn."""
        return self._leases.waiting_requests

    @property
    def sendable_requests(self) -> int:
        """The number of requests that the peer's lease allows us now.

        It is 2**31 - 1 if the peer has not asked for leases (`LeaseOptions.enforced`).

        Raises:
            RuntimeError: The caller is in another thread than the connection, with another clock.
        """
        self._leases.home.check("this object of leases")
        return self._leases.sendable_requests

    def grant(self, lease: Lease) -> None:
        """Grant a lease to the peer of this connection; it replaces the present one.

        The lease is sent at once, or as soon as the connection is accepted; it is only counted if
        the peer has not asked for leases (`LeaseOptions.enforced`). When it has ended, the
        source is asked again.

        Raises:
            RuntimeError: The caller is in another thread than the connection.
        """
        self._leases.home.check("this object of leases")
        self._leases.grant(lease)

    def statistics(self) -> LeaseStatistics:
        """Return numbers about the granted leases. This does not reset the mean latency.

        Raises:
            RuntimeError: The caller is in another thread than the connection, with another clock.
        """
        self._leases.home.check("this object of leases")
        return self._leases.statistics()


class Leases:
    """The leases of a connection.

    Attributes:
        options: The settings.
        announced: The peer honours leases (L in SETUP). If not, it gets no LEASE frames, its
            requests are counted all the same, and ours need no lease (`LeaseOptions.enforced`).
        source: See `ConnectionLeases.source`.
        received_lease: See `ConnectionLeases.received_lease`.
        waiting_requests: See `ConnectionLeases.waiting_requests`.
        held: The peer's lease; our requests count against it.
        granted: Our lease; the peer's requests count against it.
        latency: How long handlers take.
        on_lease: Called when a request of ours may leave that might not before: the peer has
            granted a lease, or one that had waited has left or was given up.
        changed: Set when we have granted a lease, or the one granted is used up. The task that
            waits for it replaces it.
        view: The object that the user gets.
        home: The thread of the connection.
    """

    def __init__(
        self, options: LeaseOptions, outbox: Outbox, workload: Workload, *, announced: bool
    ) -> None:
        self.options = options
        self.announced = announced
        self.source: LeaseSource = options.source
        self.received_lease: Lease | None = None
        self.waiting_requests = 0
        self.held = HeldLease()
        self.granted = GrantedLease()
        self.latency = Latency()
        self.on_lease: list[Callable[[], None]] = []
        self.changed = trio.Event()
        self.view = make(ConnectionLeases, self)
        self.home = Home()
        self._outbox = outbox
        self._workload = workload
        self._running = False
        self._queued: Lease | None = None

    @property
    def sendable_requests(self) -> int:
        """See `ConnectionLeases.sendable_requests`."""
        return self.held.left(trio.current_time())

    def grant(self, lease: Lease) -> None:
        """See `ConnectionLeases.grant`."""
        frame = LeaseFrame(lease.time_to_live_ms, lease.requests, lease.metadata).encode()
        if not self._running:
            self._queued = lease
            return
        self.granted.replace(lease.requests, lease.time_to_live_ms / 1000, trio.current_time())
        if self.announced:
            self._outbox.put_urgent(frame)
        self.changed.set()

    def statistics(self) -> LeaseStatistics:
        """See `ConnectionLeases.statistics`."""
        now = trio.current_time()
        granted = self.granted
        return LeaseStatistics(
            expires_in=max(0.0, granted.expires - now),
            requests_left=granted.left(now),
            active_requests=self._workload.active,
            rejected=granted.rejected,
            mean_latency=self.latency.mean,
        )

    def receive(self, frame: LeaseFrame) -> None:
        """Receive a LEASE frame; its time begins now."""
        seconds = frame.time_to_live_ms / 1000
        self.received_lease = Lease(frame.number_of_requests, seconds, frame.metadata)
        self.held.replace(frame.number_of_requests, seconds, trio.current_time())
        self.tell()

    def tell(self) -> None:
        """See ``on_lease``."""
        for each in self.on_lease:
            each()

    def spend(self) -> bool:
        """Count a request of the peer; return False if it is beyond the lease."""
        now = trio.current_time()
        if not self.granted.take(now):
            return False
        if not self.granted.left(now):
            self.changed.set()
        return True

    def begin(self) -> Lease | None:
        """From now on leases leave at once. Return the one that was granted before, if any."""
        self._running = True
        if not self.announced:
            self.held.replace(_NO_LIMIT, inf, trio.current_time())
        first, self._queued = self._queued, None
        return first

    def pause(self) -> None:
        """Until `begin`, keep the last lease that is granted, instead of sending it."""
        self._running = False

    def restart(self) -> None:
        """Restart the leases: the session goes on over another connection.

        Leases do not carry over (Protocol.md, "Resume Operation"). The caller cancels the granting
        before this call, and runs it again after it.
        """
        self.pause()
        self.held.clear()
        self.granted.clear()
