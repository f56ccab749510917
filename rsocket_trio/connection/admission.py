"""Whether a request of ours may leave now: `OpenAdmission`, `LeasedAdmission`.

Without leases it needs room in the outbox and nothing else. With leases (Protocol.md, "Lease
Semantics") a request that may not leave yet waits in its caller's task, in line. Whoever is first
in line waits for a lease, then for room, and only then takes from the lease: what waits for room
must not use up, or outlive, a lease that others could use.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

import trio
from trio.lowlevel import checkpoint

from ..errors import MissingLease, fresh_copy

if TYPE_CHECKING:
    from .leases import Leases
    from .outbox import Outbox

__all__ = ["Admission", "LeasedAdmission", "OpenAdmission"]


class Admission(Protocol):
    """Lets requests of ours through.

    Attributes:
        refusal: Why no new request may be sent, while none may.
    """

    refusal: Exception | None

    @property
    def open(self) -> bool:
        """There is nothing to ask for: `ready` and `take` need not be called."""

    def ready(self) -> bool:
        """Whether a request may leave at once; `take` follows where it does."""

    def take(self) -> None:
        """A request leaves, of which `ready` has just said that it may."""

    async def wait(self, size: int) -> None:
        """Wait until a request may leave, and for room for its first ``size`` bytes.

        Checkpoint: where it may not, or there is no room.
        If cancelled: nothing is taken.
        """

    def refuse(self, error: Exception) -> None:
        """No new request may be sent from now on, because of ``error``."""


async def _reserve_alive(outbox: Outbox, size: int) -> None:
    """Wait for room; whoever was cancelled when room had come already gets none.

    Checkpoint: a cancellation point always; other tasks run where there is no room.
    If cancelled: nothing is taken.
    """
    await outbox.reserve(size)
    while trio.current_effective_deadline() == -inf:
        # Nothing is sent. The room is given back before anybody else runs, as who has reserved some
        # must use it at once.
        outbox.release(size)
        await checkpoint()
        await outbox.reserve(size)


class OpenAdmission:
    """No leases are in use: room is all that is needed."""

    open: Final = True

    def __init__(self, outbox: Outbox) -> None:
        self.refusal: Exception | None = None
        self._outbox = outbox

    def ready(self) -> bool:
        """Yes."""
        return True

    def take(self) -> None:
        """There is nothing to count."""

    async def wait(self, size: int) -> None:
        """Wait for room.

        Checkpoint: a cancellation point always; other tasks run where there is no room.
        If cancelled: nothing is taken.
        """
        await _reserve_alive(self._outbox, size)

    def refuse(self, error: Exception) -> None:
        """See `Admission.refuse`. Those who wait for room learn it when they have some."""
        self.refusal = error


class _Turn:
    """A request in line."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = trio.Event()


class LeasedAdmission:
    """Each request of ours is counted against the peer's lease."""

    open: Final = False

    def __init__(self, outbox: Outbox, leases: Leases) -> None:
        self.refusal: Exception | None = None
        self._outbox = outbox
        self._leases = leases
        self._line: OrderedDict[_Turn, None] = OrderedDict()
        leases.on_lease = self._wake_first

    def ready(self) -> bool:
        """Whether a lease allows it, nobody waits for one, and the caller is not cancelled.

        (What has been taken from a lease is not given back: it may be another one by then.)
        """
        if self._line or trio.current_effective_deadline() == -inf:
            return False
        return self._leases.left > 0

    def take(self) -> None:
        """Count a request that leaves at once."""
        self._leases.held.take(trio.current_time())

    async def wait(self, size: int) -> None:
        """Wait for a lease, in line, and for room.

        Raises:
            MissingLease: There is no lease, and this may not wait for one.

        Checkpoint: where there is no lease or no room.
        If cancelled: nothing is taken.
        """
        leases = self._leases
        turn = self._join()
        try:
            while True:
                await self._first_with_a_lease(turn)
                await _reserve_alive(self._outbox, size)
                if self.refusal is not None or leases.held.take(trio.current_time()):
                    return
                # It expired, or was replaced, while there was no room.
                self._outbox.release(size)
        finally:
            del self._line[turn]
            leases.waiting -= 1
            self._wake_first()

    def refuse(self, error: Exception) -> None:
        """See `Admission.refuse`; those in line learn it too."""
        self.refusal = error
        for turn in self._line:
            turn.event.set()

    def _join(self) -> _Turn:
        leases = self._leases
        options = leases.options
        # Those whom the lease has enough for wait for room only.
        without = len(self._line) - leases.left
        if without >= 0 and not options.wait:
            raise MissingLease(
                "the peer's lease allows no request now, and this one may not wait for another "
                "(LeaseOptions.wait)"
            )
        if without >= options.max_waiting:
            raise MissingLease(
                f"{without} requests wait for a lease, and no more may (LeaseOptions.max_waiting)"
            )
        turn = _Turn()
        self._line[turn] = None
        leases.waiting += 1
        return turn

    async def _first_with_a_lease(self, turn: _Turn) -> None:
        while True:
            if self.refusal is not None:
                raise fresh_copy(self.refusal)
            if next(iter(self._line)) is turn:
                if self._leases.left:
                    return
                if not self._leases.options.wait:
                    raise MissingLease(
                        "the peer's lease expired before the request could leave, and it may not "
                        "wait for another (LeaseOptions.wait)"
                    )
            turn.event = trio.Event()
            await turn.event.wait()

    def _wake_first(self) -> None:
        for turn in self._line:
            turn.event.set()
            return
