"""A target that fails is left alone for a while: `Circuit`, `Outlier`.

    well     -- so many failures in a row -->  out, for a time that doubles
    out      -- the time has passed       -->  tested, by one request
    tested   -- it succeeds               -->  well
             -- it fails                  -->  out, for twice the time
             -- nobody knows              -->  tested, by another one

It is pure: the caller passes the time. A client with one target fails at once meanwhile; a pool
sends its requests to another target.
"""

from __future__ import annotations

from math import inf
from typing import Final

import attrs

from ..field_checks import COUNT, check_order, number

__all__ = ["PATIENCE", "Circuit", "Outlier"]


PATIENCE: Final = 0.25
"""Seconds. A caller with less time than this has left, whatever the target does."""


@attrs.frozen(kw_only=True)
class Circuit:
    """When a target that fails is left alone, and for how long.

    Attributes:
        failures: After so many failures in a row.
        shortest: The first time, in seconds. It doubles each time that the target fails again.
        longest: The longest time, in seconds. A target that has been well for as long begins with
            the shortest one again.
    """

    failures: int = attrs.field(default=5, validator=COUNT)
    shortest: float = attrs.field(default=5.0, validator=number(above=0, finite=True))
    longest: float = attrs.field(default=60.0, validator=number(above=0, finite=True))

    def __attrs_post_init__(self) -> None:
        check_order(self, "shortest", "longest", "no time would be as long as the first")


class Outlier:
    """One target: whether requests may go there.

    Each request that may has a ticket, with which its end is told. Those that began before the
    target was left alone say nothing about it afterwards.

    Args:
        circuit: The settings.

    Attributes:
        until: The time until which no request may go there; ``-inf`` while it is well.
    """

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        self.until = -inf
        self._failures = 0
        self._out_for = 0.0
        self._well_since = -inf
        self._heard = -inf
        self._ticket = 0
        self._testing = False

    @property
    def well(self) -> bool:
        """Whether all requests may go there."""
        return self.until == -inf

    def admit(self, now: float) -> int | None:
        """Return the ticket of a request; ``None`` if it may not go there now.

        A target that was left alone gets one request, and another each time that nothing is heard
        of them for `Circuit.shortest`.
        """
        if self.until == -inf:
            return self._ticket
        if now < self.until:
            return None
        self._testing = True
        self.until = now + self._circuit.shortest
        return self._ticket

    def may_admit(self, now: float) -> bool:
        """Return whether `admit` would return a ticket."""
        return now >= self.until

    def succeeded(self, ticket: int, now: float) -> None:
        """The target has answered a request."""
        self._heard = now
        if ticket != self._ticket:
            return
        self._failures = 0
        if self._testing:
            self._testing = False
            self.until = -inf
            self._well_since = now

    def failed(self, ticket: int, now: float) -> bool:
        """The target has failed a request; return whether it is left alone from now on."""
        if ticket != self._ticket:
            return False
        self._failures += 1
        if not self._testing and self._failures < self._circuit.failures:
            return False
        circuit = self._circuit
        if not self._testing and now - self._well_since >= circuit.longest:
            self._out_for = 0.0
        self._out_for = min(max(2 * self._out_for, circuit.shortest), circuit.longest)
        self.until = now + self._out_for
        self._failures = 0
        self._testing = False
        self._ticket += 1
        return True

    def silent(self, began: float, now: float, patience: float = PATIENCE) -> bool:
        """Return whether a deadline that has passed says that the target does not answer.

        A target that has answered others meanwhile is well: only this request takes long. So one
        caller with short deadlines, or one slow route, does not close it for all.

        Args:
            began: When the request began.
            now: The time.
            patience: A caller with less time than this has left, whatever the target does.
        """
        return self._heard < began and now - began >= patience

    def late(self, ticket: int, began: float, now: float) -> bool:
        """The deadline of a request that began then has passed; return as `failed`."""
        if self.silent(began, now):
            return self.failed(ticket, now)
        self.left(ticket, now)
        return False

    def left(self, ticket: int, now: float) -> None:
        """A request has ended, and says nothing about the target: another one may test it."""
        if ticket == self._ticket and self._testing:
            self.until = now
