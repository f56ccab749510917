"""Requests of ours on a connection with leases: `LeasedStreams`.

A request that may not leave yet waits in its caller's task, in line. Whoever is first in line waits
for a lease, then for room in the outbox, and only then takes from the lease: what waits for room
must not use up, or outlive, a lease that others could use.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from ..errors import MissingLease
from .failure import again
from .streams import Streams

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..interactions.operation import Operation
    from ..streamed import AnyPayload
    from .leases import Leases
    from .outbox import Outbox

__all__ = ["LeasedStreams"]


class _Turn:
    """A request in line."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = trio.Event()


class LeasedStreams(Streams):
    """As `Streams`; each request of ours is counted against the peer's lease."""

    def __init__(
        self, config: ConnectionConfig, outbox: Outbox, leases: Leases, *, client: bool
    ) -> None:
        super().__init__(config, outbox, client=client)
        self._leases = leases
        self._line: OrderedDict[_Turn, None] = OrderedDict()
        leases.on_lease = self._wake_first

    def try_open(
        self,
        operation: Operation,
        frame_type: int,
        flags: int,
        initial_n: int | None,
        payload: AnyPayload,
    ) -> bool:
        """Send a request at once, if a lease allows it and nobody waits for one."""
        if self.refusal is not None:
            raise again(self.refusal)
        held = self._leases.held
        now = trio.current_time()
        if self._line or not held.left(now):
            return False  # `open` knows whether it may wait
        if not super().try_open(operation, frame_type, flags, initial_n, payload):
            return False
        held.take(now)
        return True

    async def admit(self, size: int) -> None:
        """Wait for a lease, in line, and for room; see `Streams.admit`.

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
                await super().admit(size)
                if self.refusal is not None or leases.held.take(trio.current_time()):
                    return
                # It expired, or was replaced, while there was no room.
                self._outbox.release(size)
        finally:
            del self._line[turn]
            leases.waiting -= 1
            self._wake_first()

    def refuse(self, error: Exception) -> None:
        """No new requests: those in line learn it too."""
        super().refuse(error)
        self._wake_all()

    def fail_all(self, error: Exception) -> None:
        """The connection is over: so is the waiting."""
        super().fail_all(error)
        self._wake_all()

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
                raise again(self.refusal)
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

    def _wake_all(self) -> None:
        for turn in self._line:
            turn.event.set()
