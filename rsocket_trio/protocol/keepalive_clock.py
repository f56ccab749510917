"""Know when to send the next KEEPALIVE, and when the peer counts as dead.

Protocol.md, "KEEPALIVE Frame": the client sends KEEPALIVEs periodically with R set. A KEEPALIVE
proves that the sender is alive; silence for the max lifetime proves that it is dead. Here *any*
frame proves that the sender is alive: a peer that sends a large payload is not dead because its
KEEPALIVE waits behind that payload.

This module reads no clock: time comes in as ``now``, in seconds on any clock that never goes back.
A client has an interval; a server only watches, with the lifetime from its client's SETUP.
"""

from __future__ import annotations

from math import inf

__all__ = ["KeepaliveClock"]


class KeepaliveClock:
    """The two deadlines of one connection.

    Attributes:
        interval: The time between our KEEPALIVEs, in seconds; ``None`` if we only watch.
        max_lifetime: After this time of silence, in seconds, the peer counts as dead.
        last_received: When the last frame arrived, or the clock was started.
        next_send: When our next KEEPALIVE is due; infinity if we only watch.
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
        """Record that a frame of any type arrived from the peer."""
        self.last_received = now

    def due(self, now: float) -> bool:
        """Whether a KEEPALIVE is to be sent now."""
        return now >= self.next_send

    def sent(self, now: float) -> None:
        """Record that a KEEPALIVE was sent, and set the time of the next.

        A small delay does not change the period. KEEPALIVEs that were missed completely are not
        sent later, so a process that slept does not send a burst.
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
        """When to check again: `due` and `dead` cannot become true before this time."""
        return min(self.next_send, self._dies())

    def _dies(self) -> float:
        return self.last_received + self.max_lifetime
