"""The task that watches the peer, and shows it that we live: `watch`.

It drives the pure `rsocket_trio.protocol.keepalive_clock`. A client sends KEEPALIVEs; both ends
close a connection whose peer was silent for the max lifetime, really close it. It never waits for
anything but the time, so it shares no fate with a full outbox: a peer that does not *read* for a
whole lifetime is found dead too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..errors import ConnectionLost, ErrorCode
from ..frames.error import encode_error
from ..frames.keepalive import encode_keepalive

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["watch"]


async def watch(connection: Connection) -> None:
    """Send KEEPALIVEs when due, until the peer is found dead.

    Checkpoint: always.
    If cancelled: nobody watches any more.
    """
    clock = connection.clock
    outbox = connection.outbox
    lifetime = clock.max_lifetime
    batches = outbox.batches
    progress = trio.current_time()
    while True:
        now = trio.current_time()
        if clock.dead(now):
            _give_up(connection, f"the peer was silent for {lifetime:g} s")
            return
        if not outbox.writing or outbox.batches != batches:
            batches = outbox.batches
            progress = now
        elif now >= progress + lifetime:
            _give_up(connection, f"the peer read nothing for {lifetime:g} s")
            return
        if clock.due(now):
            outbox.put_urgent(encode_keepalive(True, 0, b""))
            clock.sent(now)
        await trio.sleep_until(min(clock.next_deadline(), progress + lifetime))


def _give_up(connection: Connection, reason: str) -> None:
    frame = encode_error(0, ErrorCode.CONNECTION_ERROR, reason.encode())
    connection.end(ConnectionLost(reason), last_words=frame)
