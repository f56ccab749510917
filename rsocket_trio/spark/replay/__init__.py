"""Elements by offset over RSocket, so that Spark can read the same ones again.

This is the responder's side of ``format("rsocket")`` with ``delivery=replay``. It needs neither
PySpark nor pyarrow: `replay_router` serves a `ReplaySource`.

- ``messages``: what Spark asks for, and what a responder answers
- ``source``: the interface of elements by offset, `ReplaySource`
- ``lists``: elements in memory
- ``lines``: the lines of files
- ``router``: the handlers of a route
"""

from __future__ import annotations

from .lines import ReplayLines
from .lists import ReplayList
from .messages import OFFSETS, NotReplayable, Offsets, RangeRequest, ReplayOffsets
from .router import replay_router
from .source import ReplaySource

__all__ = [
    "OFFSETS",
    "NotReplayable",
    "Offsets",
    "RangeRequest",
    "ReplayLines",
    "ReplayList",
    "ReplayOffsets",
    "ReplaySource",
    "replay_router",
]
