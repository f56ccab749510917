"""Which host comes next, and when: `Host`, `Place`, `places_for`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import attrs

from ...protocol.retry import Attempts, Retry
from ...uri import Uri
from .window_size import WindowSize

__all__ = ["Host", "Place", "places_for"]


@attrs.frozen
class Host:
    """A server.

    Attributes:
        uri: Its address.
        window: The size of its windows; it is kept when the connection is lost.
    """

    uri: Uri
    window: WindowSize


class Place:
    """One connection at a time, to one of some hosts, with the waits between the attempts.

    Args:
        hosts: The hosts, of which the first is tried first. A failure leads to the next one.
        retry: The waits; the number of attempts is not limited here.
        random: See `Retry.delays`.

    Attributes:
        failures: Attempts in a row that have failed.
        not_before: The earliest time of the next attempt.
    """

    def __init__(self, hosts: Sequence[Host], retry: Retry, random: Callable[[], float]) -> None:
        self.failures = 0
        self.not_before = -inf
        self._hosts: Final = hosts
        self._current = 0
        self._attempts: Final = Attempts(attrs.evolve(retry, max_attempts=None), random)

    @property
    def host(self) -> Host:
        """The host to connect to."""
        return self._hosts[self._current]

    @property
    def hosts(self) -> Sequence[Host]:
        """All hosts of this place."""
        return self._hosts

    def failed(self, now: float) -> None:
        """Take note that no connection could be made, or that it was of no use."""
        self.failures += 1
        self._turn()
        self._wait(now)

    def lost(self, now: float, lasted: float, *, useful: bool, idle: bool) -> None:
        """Take note that a connection was lost.

        It was a success if it acknowledged events. If nothing was on the way, it was one if it
        lasted. So a server that accepts connections, and acknowledges nothing, is a failure.

        Args:
            now: The time.
            lasted: How long it lasted, in seconds.
            useful: Whether it acknowledged events.
            idle: Whether nothing was on the way. Servers close idle connections, so after a success
                the next attempt is at the same host.
        """
        if not (useful or idle) or not self._attempts.lost(inf if useful else lasted):
            self.failed(now)
            return
        self.failures = 0
        if not idle:
            self._turn()
        self._wait(now)

    def closed(self) -> None:
        """Take note that we closed a connection: connect to the same host again, at once."""
        self.failures = 0
        self.not_before = -inf

    def _turn(self) -> None:
        self._current = (self._current + 1) % len(self._hosts)

    def _wait(self, now: float) -> None:
        self.not_before = now + next(self._attempts.within(inf))


def places_for(
    hosts: Sequence[Host], retry: Retry, random: Callable[[], float], *, load_balance: bool
) -> list[Place]:
    """Return one place for each host with load balancing, else one place for all of them."""
    if load_balance:
        return [Place([host], retry, random) for host in hosts]
    return [Place(hosts, retry, random)]
