"""How many requests a lease still allows: `HeldLease` and `GrantedLease`.

Protocol.md, "LEASE Frame" and "Lease Semantics": the newest lease replaces the one before, and one
whose time is over allows nothing. A requester counts what it sends against the lease it holds, a
responder what it receives against the lease it has granted. All four kinds of requests count one.

The two ends do not learn of a new lease at the same time: requests that were sent under the one
before may still be on their way when the responder grants the next. These are not the next
lease's: for `ON_THE_WAY` seconds the responder lets as many pass as the peer had left. Not so
when the new lease stops requests: then none is wanted, and the REJECTED that a late one gets says
that it may be tried again.

No clock is read: time comes in as ``now``, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

__all__ = ["GrantedLease", "HeldLease"]

ON_THE_WAY: Final = 1.0
"""How long a request may be on its way that was sent before a new lease was known, in seconds."""


class HeldLease:
    """A lease from the peer: what our requests are counted against.

    Attributes:
        expires: When it is void; minus infinity where it never allowed anything.
    """

    __slots__ = ("_left", "expires")

    def __init__(self) -> None:
        """Begin without a lease (Protocol.md, "Connection Establishment": wait for the first)."""
        self._left = 0
        self.expires = -inf

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._left} until {self.expires}>"

    def replace(self, requests: int, time_to_live: float, now: float) -> None:
        """Put a new lease in place of this one; 0 of either stops requests."""
        self._left = requests
        self.expires = now + time_to_live if time_to_live else -inf

    def left(self, now: float) -> int:
        """How many requests are allowed."""
        return self._left if now < self.expires else 0

    def take(self, now: float) -> bool:
        """Count one request; False, and nothing is counted, if it is not allowed."""
        if not self._left or now >= self.expires:
            return False
        self._left -= 1
        return True

    def clear(self) -> None:
        """Forget the lease: none survives its connection (Protocol.md, "Resume Operation")."""
        self._left = 0
        self.expires = -inf


class GrantedLease(HeldLease):
    """A lease of ours: what the peer's requests are counted against.

    Attributes:
        requests: How many it allowed at first.
        version: Counts the leases granted.
        rejected: Counts the requests that were not allowed.
    """

    __slots__ = ("_late", "rejected", "requests", "version")

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.version = 0
        self.rejected = 0
        self._late: deque[list[float]] = deque()  # until when, and how many, of each old lease

    @property
    def stopped(self) -> bool:
        """Whether there is no lease that could end: none was granted, or one of no time."""
        return self.expires == -inf

    def replace(self, requests: int, time_to_live: float, now: float) -> None:
        """Put a new lease in place of this one; what is on its way may still come."""
        if requests and time_to_live:
            self._drop_the_old(now)
            # Also where it has just expired: for the peer, whose time runs from the reception, it
            # had not.
            if self._left and now < self.expires + ON_THE_WAY:
                self._late.append([now + ON_THE_WAY, self._left])
        else:
            self._late.clear()
        self.requests = requests
        self.version += 1
        super().replace(requests, time_to_live, now)

    def take(self, now: float) -> bool:
        """Count one request; False, and counted as rejected, if it is not allowed."""
        if self._late:
            # The oldest first: it is void first, and in that order they come.
            self._drop_the_old(now)
            if self._late:
                oldest = self._late[0]
                oldest[1] -= 1
                if not oldest[1]:
                    self._late.popleft()
                return True
        if super().take(now):
            return True
        self.rejected += 1
        return False

    def clear(self) -> None:
        """Forget the lease, and what is on its way."""
        super().clear()
        self.requests = 0
        self._late.clear()

    def _drop_the_old(self, now: float) -> None:
        late = self._late
        while late and now >= late[0][0]:
            late.popleft()
