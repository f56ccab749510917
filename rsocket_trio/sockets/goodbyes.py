"""When the connections of a server are told that they end: `Goodbyes`, and `ConnectionAge`.

All of them at a stop, spread over some time, so that clients do not come back in one moment; and
each one when it is old. One task tells them, in the order of their times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final

import attrs
import trio

from ..field_checks import FUNCTION, argument, instance_of, number, optional
from ..log_policy import logger
from ..stopping import STOPPED
from .peer import Peer

__all__ = ["ConnectionAge", "Goodbyes", "check_age"]

_OLD: Final = "the connection has reached its age: connect again"

_JITTER: Final = 0.1
"""The part by which an age differs: connections that began in one moment do not end in one."""

_ROOM: Final = 64
"""Times of connections that are over are removed when they are half of all, and so many."""


@attrs.frozen
class ConnectionAge:
    """How old a connection of a server may be.

    A connection that is older gets the goodbye of its wire: it takes no new requests, and its
    client connects again, perhaps to another process. So connections spread over new processes
    behind a balancer that sees connections only, and a process is rid of them all in some time.

    Attributes:
        limit: The age in seconds. Each connection has its own, up to 10 % more or less.
        grace: How long requests and streams that are open then may go on, in seconds; by default
            without an end.
        exempt: Whether a peer keeps its connection; asked once, when it is old. By default none.
    """

    limit: float = attrs.field(validator=number(above=0))
    grace: float = attrs.field(default=inf, kw_only=True, validator=number(at_least=0))
    exempt: Callable[[Peer], bool] | None = attrs.field(
        default=None, kw_only=True, validator=optional(FUNCTION)
    )


def check_age(age: ConnectionAge | None) -> None:
    """Check the argument ``max_age`` of a server.

    Raises:
        TypeError: It is of a wrong type.
    """
    argument("max_age", age, instance_of(ConnectionAge, none=True))


class Goodbyes:
    """The connections of a server, and when each is told that it ends.

    Args:
        age: How old a connection may be.
        share: Of the grace of a stop, the part that a connection has to end by itself. Then it says
            its last words: for a wire whose goodbye is the last word. ``None``: nobody cuts it.

    Attributes:
        stopping: Whether the goodbyes of a stop have begun. A connection that comes then is told at
            once.
    """

    def __init__(self, age: ConnectionAge | None = None, share: float | None = None) -> None:
        self.stopping = False
        self._age: Final = age
        self._share: Final = share
        self._told_by = inf  # by trio's clock
        self._deadline = inf  # of connections that are told at the stop
        self._present: set[Peer] = set()
        self._due: list[tuple[float, int, Peer]] = []  # a heap
        self._numbers: Final = count()  # peers have no order
        self._alarm = trio.CancelScope()

    @contextmanager
    def entered(self, peer: Peer) -> Iterator[None]:
        """Tell a connection its end when the time has come, within the block."""
        self._present.add(peer)
        if self.stopping:
            self._tell(peer)
        elif self._age is not None:
            jitter = 1 + _JITTER * random.uniform(-1, 1)
            self._plan([(trio.current_time() + self._age.limit * jitter, peer)])
        try:
            yield
        finally:
            self._present.remove(peer)
            if len(self._due) > 2 * len(self._present) + _ROOM:
                self._due = [each for each in self._due if each[2] in self._present]
                heapify(self._due)

    def stop(self, spread: float = 0.0, grace: float = inf) -> None:
        """Begin to tell all connections that the server stops. A later call makes it quicker.

        Args:
            spread: Each is told at a random moment within so many seconds.
            grace: So many seconds they have after that.
        """
        now = trio.current_time()
        if self._share is not None:
            self._deadline = min(self._deadline, now + spread + self._share * grace)
        told: set[Peer] = set()
        if not self.stopping:
            self.stopping = True
            self._due = []
            self._plan([(now + spread * random.random(), each) for each in self._present])
        else:
            if self._share is not None:  # the deadline of those that were told may be sooner
                told = self._present.difference(each for _, _, each in self._due)
            left = self._told_by - now
            if spread < left:  # those that are left, in their order
                quicker = [
                    (now + (when - now) * spread / left, each) for when, _, each in self._due
                ]
                self._due = []
                self._plan(quicker)
        self._told_by = min(self._told_by, now + spread)
        for each in told:
            self._tell(each)
        self._tell_due()

    async def run(self) -> None:
        """Tell connections, until cancelled.

        Checkpoint: always.
        If cancelled: the others are not told.
        """
        while True:
            self._tell_due()
            self._alarm = trio.CancelScope(deadline=self._due[0][0] if self._due else inf)
            with self._alarm:
                await trio.sleep_forever()

    def _plan(self, times: Iterable[tuple[float, Peer]]) -> None:
        for when, peer in times:
            heappush(self._due, (when, next(self._numbers), peer))
        if self._due:
            self._alarm.deadline = min(self._alarm.deadline, self._due[0][0])

    def _tell_due(self) -> None:
        now = trio.current_time()
        while self._due and self._due[0][0] <= now:
            peer = heappop(self._due)[2]
            if peer in self._present:
                self._tell(peer)

    def _tell(self, peer: Peer) -> None:
        if self.stopping:
            peer.end(STOPPED, grace=max(0.0, self._deadline - trio.current_time()))
        elif self._age is not None and not _is_exempt(self._age, peer):
            peer.end(_OLD, grace=self._age.grace)


def _is_exempt(age: ConnectionAge, peer: Peer) -> bool:
    if age.exempt is None:
        return False
    try:
        return bool(age.exempt(peer))
    except Exception:  # of the application: the other connections are told too
        logger.exception("exempt of a ConnectionAge failed: the connection of %r ends", peer)
        return False
