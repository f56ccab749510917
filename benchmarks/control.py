"""The protocol between the harness and a client program: one JSON object per line.

The harness sends a command, ``{"operation": name, "seconds": s, ...}``, with the parameters of its
case. The client answers with an outcome: ``{"count": n, "elapsed": s}``, with ``"latencies": [p50,
p99]`` in seconds if it measured one request at a time, or ``{"error": text}``. If it completed more
than it measured, ``"handled"`` is the number of all completions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any

ITEM_SIZE = 128
"""Bytes of data in every message, except the large ones."""

COUNT = b"count"
"""Data of a request for the number of fire-and-forget messages the server has received."""

IDLE = b"idle"
"""Data of a request for a stream that never sends an item."""

TRACED = b"traced"
"""Data of a request for the size of the server's Python objects in bytes, if it counts them."""

BURST = 1000
"""Fire-and-forget messages between two requests for the count. The requests are flow control."""


def ready(uri: str) -> None:
    """Tell the harness the address of this server."""
    print(f"READY {uri}", flush=True)


def read_command() -> dict[str, Any] | None:
    """Wait for the next command and return it; ``None`` after the last one."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else None


def write_outcome(outcome: dict[str, Any]) -> None:
    """Send the outcome of a command."""
    print(json.dumps(outcome), flush=True)


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Return the value that is larger than ``fraction`` of the sorted values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


class Stopwatch:
    """Counts completions until a deadline.

    Attributes:
        count: Number of completions so far.
        deadline: No request begins after this time, on the clock of ``perf_counter``.
        latencies: Seconds per request, if requests are measured one by one.
    """

    def __init__(self, seconds: float) -> None:
        self.count = 0
        self.latencies: list[float] = []
        self.start = perf_counter()
        self.deadline = self.start + seconds

    def outcome(self) -> dict[str, Any]:
        """Return the outcome so far."""
        result: dict[str, Any] = {"count": self.count, "elapsed": perf_counter() - self.start}
        if self.latencies:
            ordered = sorted(self.latencies)
            result["latencies"] = [percentile(ordered, 0.5), percentile(ordered, 0.99)]
        return result
