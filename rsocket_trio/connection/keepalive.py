"""The task that sends KEEPALIVEs and finds out if the peer is dead: `watch`.

It runs the pure `rsocket_trio.protocol.keepalive_clock`. A client sends KEEPALIVEs. Both ends close
a connection whose peer was silent for the max lifetime. The task waits only for time, so a full
outbox does not block it: a peer that does not *read* for a whole lifetime is found dead too.

Bytes count as a sign of life, not only frames: a peer in the middle of a large frame is alive, and
so is a peer that reads a large batch of ours slowly (`Pulse`). After the loop was blocked, this
task may run before the task that reads. So it gives that task time to read the bytes that the
kernel holds before it calls the peer dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint

from ..frames.keepalive import encode_keepalive

if TYPE_CHECKING:
    from ..protocol.keepalive_clock import KeepaliveClock
    from ..transports.base import FrameTransport
    from .lifecycle import Lifecycle
    from .outbox import Outbox

__all__ = ["Pulse", "watch"]

_LOOKS: Final = 4
"""Turns of the loop before a peer is called dead. In the first, bytes that have arrived wake the
task that reads; the others are for the case that the reading is just moving to another task."""


class Pulse:
    """The signs of life of one peer.

    Args:
        clock: Knows when the peer was last heard, and the deadlines that follow.
        transport: Knows when bytes arrived that are no whole frame yet.
    """

    def __init__(self, clock: KeepaliveClock, transport: FrameTransport) -> None:
        self.clock = clock
        self.transport = transport
        self._batch = -1
        self._looks = 0
        self._progress = clock.last_received

    def look(self, now: float, *, sending: bool, batch: int, since: float | None = None) -> None:
        """Record the signs of life since the last call.

        Args:
            now: The time, in seconds.
            sending: Whether the transport has a batch of frames that has not left yet.
            batch: The number of that batch.
            since: When the transport got the batch; ``None`` if that is not known.
        """
        clock = self.clock
        transport = self.transport
        if transport.received_at > clock.last_received:
            clock.received(transport.received_at)
        if not sending or batch != self._batch:
            self._batch = batch
            self._progress = now if since is None else since
        elif transport.sent_at > self._progress:
            self._progress = transport.sent_at

    def death(self, now: float) -> str | None:
        """Why the peer counts as dead; ``None`` while it is alive."""
        lifetime = self.clock.max_lifetime
        if self.clock.dead(now):
            return f"the peer was silent for {lifetime:g} s"
        if now >= self._progress + lifetime:
            return f"the peer read nothing for {lifetime:g} s"
        return None

    def is_uncertain(self, death: str | None) -> bool:
        """Whether to look again, a turn of the loop later, before ``death`` is believed."""
        self._looks = 0 if death is None else self._looks + 1
        return 0 < self._looks <= _LOOKS

    def next_look(self) -> float:
        """When to look again."""
        return min(self.clock.next_deadline(), self._progress + self.clock.max_lifetime)


async def watch(
    clock: KeepaliveClock, transport: FrameTransport, outbox: Outbox, lifecycle: Lifecycle
) -> None:
    """Send KEEPALIVEs when due, until the peer is found dead.

    Checkpoint: always.
    If cancelled: the peer is not watched any more.
    """
    pulse = Pulse(clock, transport)
    while True:
        now = trio.current_time()
        pulse.look(now, sending=outbox.writing, batch=outbox.batches)
        reason = pulse.death(now)
        if pulse.is_uncertain(reason):
            await checkpoint()
            continue
        if reason is not None:
            lifecycle.silent = True
            lifecycle.give_up(reason)
            return
        if clock.due(now):
            outbox.put_urgent(encode_keepalive(True, 0, b""))
            clock.sent(now)
        await trio.sleep_until(pulse.next_look())
