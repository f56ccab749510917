"""Decide whether a request of ours may leave now: `OpenAdmission`, `LeasedAdmission`.

Without leases a request needs only room in the outbox. With leases (Protocol.md, "Lease
Semantics") a request that may not leave yet waits in its caller's task, in a queue. The first
request in the queue waits for a lease, then for room, and only then counts against the lease: a
request that waits for room must not use up, or outlive, a lease that other requests could use.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..entrance import over
from ..errors import MissingLease

if TYPE_CHECKING:
    from .leases import Leases
    from .outbox import Outbox

__all__ = ["Admission", "LeasedAdmission", "OpenAdmission"]


class Admission(Protocol):
    """Decides when requests of ours may leave.

    Attributes:
        refusal: The error of every new request; ``None`` while new requests may be sent.
    """

    refusal: Exception | None

    @property
    def open(self) -> bool:
        """Whether requests are not counted: `ready` and `take` need not be called."""

    def ready(self) -> bool:
        """Whether a request may leave at once; if it does, `take` follows."""

    def take(self) -> None:
        """Count a request that leaves, right after `ready` has allowed it."""

    async def wait(self, size: int) -> None:
        """Wait until a request may leave, and for room for its first ``size`` bytes.

        Checkpoint: if it may not leave yet, or there is no room.
        If cancelled: nothing is taken.
        """

    def refuse(self, error: Exception) -> None:
        """Let every new request fail with ``error`` from now on."""


async def _reserve_alive(outbox: Outbox, size: int) -> None:
    """Wait for room; a task that is cancelled when the room comes does not keep it.

    Checkpoint: a cancellation point always; other tasks run if there is no room.
    If cancelled: nothing is taken.
    """
    await outbox.reserve(size)
    while trio.current_effective_deadline() == -inf:
        # A cancelled task sends nothing. It gives the room back before other tasks run, since
        # reserved room must be used without a checkpoint.
        outbox.release(size)
        await checkpoint()
        await outbox.reserve(size)


class OpenAdmission:
    """The admission without leases: a request needs only room."""

    open: Final = True

    def __init__(self, outbox: Outbox) -> None:
        self.refusal: Exception | None = None
        self._outbox = outbox

    def ready(self) -> bool:
        """Return True."""
        return True

    def take(self) -> None:
        """Do nothing: requests are not counted."""

    async def wait(self, size: int) -> None:
        """Wait for room.

        Checkpoint: a cancellation point always; other tasks run if there is no room.
        If cancelled: nothing is taken.
        """
        await _reserve_alive(self._outbox, size)

    def refuse(self, error: Exception) -> None:
        """See `Admission.refuse`. Tasks that wait for room get the error once they have room."""
        self.refusal = error


class _WaitingRequest:
    """A request in the queue."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = trio.Event()


class LeasedAdmission:
    """The admission with leases: each request of ours counts against the peer's lease."""

    open: Final = False

    def __init__(self, outbox: Outbox, leases: Leases) -> None:
        self.refusal: Exception | None = None
        self._outbox = outbox
        self._leases = leases
        self._queue: OrderedDict[_WaitingRequest, None] = OrderedDict()
        leases.on_lease.append(self._wake_first)

    def ready(self) -> bool:
        """Whether a lease allows it, no request waits for one, and the caller is not cancelled.

        A request is never given back to a lease, because another lease may have replaced it.
        """
        if self._queue or trio.current_effective_deadline() == -inf:
            return False
        return self._leases.sendable_requests > 0

    def take(self) -> None:
        """Count a request against the lease."""
        self._leases.held.take(trio.current_time())

    async def wait(self, size: int) -> None:
        """Wait for a lease, in the queue, and for room.

        Raises:
            MissingLease: There is no lease, and this request may not wait for one.

        Checkpoint: a cancellation point always; other tasks run if there is no lease or no room.
        If cancelled: nothing is taken.
        """
        await checkpoint_if_cancelled()  # before a refusal for want of a lease
        leases = self._leases
        request = self._enqueue()
        try:
            while True:
                await self._wait_for_lease(request)
                await _reserve_alive(self._outbox, size)
                if self.refusal is not None or leases.held.take(trio.current_time()):
                    return
                # The lease expired, or was replaced, while there was no room.
                self._outbox.release(size)
        finally:
            del self._queue[request]
            leases.waiting_requests -= 1
            leases.tell()

    def refuse(self, error: Exception) -> None:
        """See `Admission.refuse`; the requests in the queue fail too."""
        self.refusal = error
        for request in self._queue:
            request.event.set()

    def _enqueue(self) -> _WaitingRequest:
        leases = self._leases
        options = leases.options
        # The lease covers the first requests of the queue: they wait for room only.
        without_lease = len(self._queue) - leases.sendable_requests
        if without_lease >= 0 and not options.wait:
            raise MissingLease(
                "the peer's lease allows no request now, and this request may not wait for "
                "another lease (LeaseOptions.wait)"
            )
        if without_lease >= options.max_waiting:
            raise MissingLease(
                f"{without_lease} requests wait for a lease, which is the limit "
                "(LeaseOptions.max_waiting)"
            )
        request = _WaitingRequest()
        self._queue[request] = None
        leases.waiting_requests += 1
        return request

    async def _wait_for_lease(self, request: _WaitingRequest) -> None:
        while True:
            if self.refusal is not None:
                await over(self.refusal)
            if next(iter(self._queue)) is request:
                if self._leases.sendable_requests:
                    return
                if not self._leases.options.wait:
                    raise MissingLease(
                        "the peer's lease expired before the request could leave, and the request "
                        "may not wait for another lease (LeaseOptions.wait)"
                    )
            request.event = trio.Event()
            await request.event.wait()

    def _wake_first(self) -> None:
        for request in self._queue:
            request.event.set()
            return
