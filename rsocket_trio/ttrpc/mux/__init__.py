"""Several streams over one: `multiplexed`. So containerd's NRI is client and server on one socket.

A `Trunk` has two tasks. One reads and hands the bytes to the streams; one writes, so that a
cancelled `send_all` cannot tear a piece (`rsocket_trio.ttrpc.wire.trunk` has the format).

Nothing in the format holds a sender back. So a stream that is not read would stall the others, or
fill the memory. It may hold `MAX_UNREAD` bytes. Then the trunk waits for its reader, `PATIENCE`
seconds at most, and ends this stream alone.

- ``trunk``: `multiplexed` and the reading task
- ``stream``: one of the streams
- ``branch``: what a stream and the tasks of its trunk know together
- ``writer``: the writing task
"""

from __future__ import annotations

from .stream import MultiplexedStream
from .trunk import (
    MAX_UNREAD,
    PATIENCE,
    PLUGIN_SERVICE,
    RUNTIME_SERVICE,
    Trunk,
    multiplexed,
)

__all__ = [
    "MAX_UNREAD",
    "PATIENCE",
    "PLUGIN_SERVICE",
    "RUNTIME_SERVICE",
    "MultiplexedStream",
    "Trunk",
    "multiplexed",
]
