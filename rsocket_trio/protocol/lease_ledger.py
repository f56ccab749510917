"""Count how many requests a lease still allows: `HeldLease` and `GrantedLease`.

Protocol.md, "LEASE Frame" and "Lease Semantics": a new lease replaces the previous one, and an
expired lease allows no request. A requester counts the requests that it sends against the lease it
holds, a responder counts those that it receives against the lease it has granted. Each request of
the four types counts as one.

The two ends do not see a new lease at the same time: requests that were sent under the previous
lease may still be on their way when the responder grants the next. They do not count against the
new lease: for `ON_THE_WAY` seconds the responder accepts as many late requests as the peer had
left. If the new lease stops requests, late requests are refused too; their REJECTED says that the
peer may try again.

This module reads no clock: time comes in as ``now``, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

__all__ = ["GrantedLease", "HeldLease"]

ON_THE_WAY: Final = 1.0
"""How long, in seconds, a request may be on its way that was sent before a new lease was known."""


class HeldLease:
    """A lease from the peer; our requests count against it.

    Attributes:
        expires: When it expires; minus infinity if it never allowed any request.
    """

    __slots__ = ("_left", "expires")

    def __init__(self) -> None:
        """Begin without a lease (Protocol.md, "Connection Establishment": wait for the first)."""
        self._left = 0
        self.expires = -inf

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._left} until {self.expires}>"

    def replace(self, requests: int, time_to_live: float, now: float) -> None:
        """Replace this lease by a new one; 0 requests or a time of 0 stop requests."""
        self._left = requests
        self.expires = now + time_to_live if time_to_live else -inf

    def left(self, now: float) -> int:
        """The number of requests that are still allowed."""
        return self._left if now < self.expires else 0

    def take(self, now: float) -> bool:
        """Count one request; return False, and count nothing, if it is not allowed."""
        if not self._left or now >= self.expires:
            return False
        self._left -= 1
        return True

    def clear(self) -> None:
        """Drop the lease: it ends with its connection (Protocol.md, "Resume Operation")."""
        self.expires = -inf


class GrantedLease(HeldLease):
    """A lease that we granted; the peer's requests count against it.

    Attributes:
        requests: The number of requests that it allowed at first.
        version: The number of leases granted so far.
        rejected: The number of requests that were not allowed.
    """

    __slots__ = ("_late", "rejected", "requests", "version")

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.version = 0
        self.rejected = 0
        self._late: deque[list[float]] = deque()  # of each old lease: [deadline, requests left]

    @property
    def stopped(self) -> bool:
        """Whether no lease can expire: there is none, or the last one had a time of 0."""
        return self.expires == -inf

    def replace(self, requests: int, time_to_live: float, now: float) -> None:
        """Replace this lease by a new one; late requests under the old lease are still accepted."""
        if requests and time_to_live:
            self._drop_the_old(now)
            # Also if the old lease has just expired. It has not expired for the peer, because the
            # peer's time begins when it receives the lease.
            if self._left and now < self.expires + ON_THE_WAY:
                self._late.append([now + ON_THE_WAY, self._left])
        else:
            self._late.clear()
        self.requests = requests
        self.version += 1
        super().replace(requests, time_to_live, now)

    def take(self, now: float) -> bool:
        """Count one request; if it is not allowed, count it as rejected and return False."""
        if self._late:
            # The oldest lease first: it expires first, and its requests arrive first.
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
        """Drop the lease, and accept no late requests."""
        super().clear()
        self.requests = 0
        self._late.clear()

    def _drop_the_old(self, now: float) -> None:
        late = self._late
        while late and now >= late[0][0]:
            late.popleft()
