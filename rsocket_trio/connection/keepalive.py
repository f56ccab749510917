"""The task that watches the peer, and shows it that we live: `watch`.

It drives the pure `rsocket_trio.protocol.keepalive_clock`. A client sends KEEPALIVEs; both ends
close a connection whose peer was silent for the max lifetime, really close it. It never waits for
anything but the time, so it shares no fate with a full outbox: a peer that does not *read* for a
whole lifetime is found dead too.

What counts as life is bytes, not frames: a peer that is in the middle of a large frame is alive,
and so is one that takes a large batch of ours bit by bit (`Pulse`). And nobody is called dead
before what the kernel holds of it has been read: after a loop that stood still, this task may run
first.
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
"""Turns of the loop before a peer is called dead: one for the task that reads to be woken by what
has arrived, the others in case the reading is just being handed on."""


class Pulse:
    """The signs of life of one peer.

    Args:
        clock: When the peer was heard last, and what follows from it.
        transport: Knows of bytes that are no whole frame yet.
    """

    def __init__(self, clock: KeepaliveClock, transport: FrameTransport) -> None:
        self.clock = clock
        self.transport = transport
        self._batch = -1
        self._looks = 0
        self._progress = clock.last_received

    def look(self, now: float, *, sending: bool, batch: int, since: float | None = None) -> None:
        """Note what has happened.

        Args:
            now: The time, in seconds.
            sending: Something has been given to the transport and has not left yet.
            batch: Its number.
            since: When it was given, where that is known; else when it was seen first.
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
        """Why the peer counts as dead; ``None`` while it lives."""
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
    If cancelled: nobody watches any more.
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
            lifecycle.give_up(reason)
            return
        if clock.due(now):
            outbox.put_urgent(encode_keepalive(True, 0, b""))
            clock.sent(now)
        await trio.sleep_until(pulse.next_look())
