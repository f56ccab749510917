"""When to send the next KEEPALIVE, and when the peer counts as dead.

Protocol.md, "KEEPALIVE Frame": the client sends them periodically with R set; a KEEPALIVE proves
that the sender is alive, and silence for the max lifetime that it is not. Here *any* frame proves
it: a peer busy sending a large payload is not dead because its KEEPALIVE waits behind that.

No clock is read: time comes in as ``now``, in seconds on any clock that never goes back. A client
has an interval; a server only watches, with the lifetime its client named in SETUP.
"""

from __future__ import annotations

from math import inf

__all__ = ["KeepaliveClock"]


class KeepaliveClock:
    """The two deadlines of one connection.

    Attributes:
        interval: Between the KEEPALIVEs we send, in seconds; ``None`` for one that only watches.
        max_lifetime: The silence that means death, in seconds.
        last_received: When the last frame arrived, or the clock was started.
        next_send: When our next KEEPALIVE is due; infinity for one that only watches.
    """

    __slots__ = ("interval", "last_received", "max_lifetime", "next_send")

    def __init__(self, interval: float | None, max_lifetime: float, now: float) -> None:
        """Start the clock; both times begin to run now."""
        self.interval = interval
        self.max_lifetime = max_lifetime
        self.last_received = now
        self.next_send = inf if interval is None else now + interval

    def __repr__(self) -> str:
        return f"<KeepaliveClock next_send={self.next_send} dead_at={self._dies()}>"

    def received(self, now: float) -> None:
        """Note that something arrived from the peer, whatever frame it was."""
        self.last_received = now

    def due(self, now: float) -> bool:
        """Whether a KEEPALIVE is to be sent now."""
        return now >= self.next_send

    def sent(self, now: float) -> None:
        """Note that a KEEPALIVE was sent, and set the time of the next.

        The period is kept when this comes a little late; what was missed altogether is not made
        up for, so a process that slept does not send a burst.
        """
        if self.interval is None:
            return
        self.next_send += self.interval
        if self.next_send <= now:
            self.next_send = now + self.interval

    def dead(self, now: float) -> bool:
        """Whether nothing has arrived for the whole max lifetime."""
        return now >= self._dies()

    def next_deadline(self) -> float:
        """When to look again: `due` or `dead` may have become true then, and not before."""
        return min(self.next_send, self._dies())

    def _dies(self) -> float:
        return self.last_received + self.max_lifetime
