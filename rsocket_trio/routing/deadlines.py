"""Deadlines that travel with requests: `send_deadline`, `Deadlines`.

A requester knows how long it will wait: its cancel scopes say so. `send_deadline` writes the time
that is left into the metadata, and `Deadlines` runs the handler in a cancel scope that ends then. A
handler that sends requests in turn passes on what is left to it. No times of clocks travel.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import inf
from typing import Final

import attrs
import trio

from ..errors import Canceled, Invalid
from ..field_checks import SECONDS, argument
from ..metadata.composite import MetadataEntry
from .call import Call
from .outgoing import OutgoingCall

__all__ = ["DEADLINE_TYPE", "DeadlineStatistics", "Deadlines", "send_deadline"]

DEADLINE_TYPE: Final = "message/x.rsocket-trio.deadline.v0"
"""The MIME type of the entry: four bytes, the milliseconds that are left, the highest first."""

_MOST: Final = 2**32 - 1
_OVER: Final = "the deadline of the request is over"


async def send_deadline(call: OutgoingCall) -> AsyncIterator[None]:
    """Middleware around requests: send how long the caller will wait, if that is limited.

    It is the time of the innermost cancel scope around the request with a deadline; of a stream,
    of one around its whole block.

    Checkpoint: as the request does.
    If cancelled: as the request is.
    """
    left = trio.current_effective_deadline() - trio.current_time()
    if left < inf:
        content = min(_MOST, max(0, int(left * 1000))).to_bytes(4, "big")
        extra = (*call.metadata.extra, MetadataEntry(DEADLINE_TYPE, content))
        call.metadata = attrs.evolve(call.metadata, extra=extra)
    yield


@attrs.frozen(kw_only=True)
class DeadlineStatistics:
    """Numbers about deadlines.

    Attributes:
        expired: Calls whose time was over before their turn; their handlers were not asked.
        canceled: Calls whose handlers were cancelled.
    """

    expired: int
    canceled: int


class Deadlines:
    """Middleware of a router: a handler is cancelled when its requester waits no longer.

    The call ends with `Canceled`. If its time is over when its turn comes, its handler is not
    asked; this is no `Rejected`, which would tell the requester to try again. The time begins when
    the request arrives (`Call.arrived`), so that the wait in the queue of a busy connection counts.

    Args:
        at_most: The longest time for a call, in seconds, also for those that name none. By default
            only the requester limits it.

    Raises:
        TypeError: ``at_most`` is no number.
        ValueError: It is not above 0.
    """

    def __init__(self, at_most: float = inf) -> None:
        argument("at_most", at_most, SECONDS)
        self._at_most = at_most
        self._expired = 0
        self._canceled = 0

    def statistics(self) -> DeadlineStatistics:
        """Return numbers about the calls so far."""
        return DeadlineStatistics(expired=self._expired, canceled=self._canceled)

    async def __call__(self, call: Call) -> AsyncIterator[None]:
        """See `Middleware`.

        Raises:
            Canceled: The time is over.
            Invalid: The entry cannot be read.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        content = call.entry(DEADLINE_TYPE)
        left = self._at_most if content is None else min(self._at_most, _seconds(content))
        if left == inf:
            yield
            return
        now = trio.current_time()
        deadline = left + (now if call.arrived is None else call.arrived)
        if deadline <= now:
            self._expired += 1
            raise Canceled(_OVER)
        with trio.move_on_at(deadline) as scope:
            yield
        if scope.cancelled_caught:
            self._canceled += 1
            raise Canceled(_OVER)


def _seconds(content: bytes) -> float:
    if len(content) != 4:
        raise Invalid(f"{DEADLINE_TYPE} has {len(content)} bytes and not 4")
    return int.from_bytes(content, "big") / 1000
