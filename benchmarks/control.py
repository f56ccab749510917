"""How the harness talks to a client program: a JSON object per line, a command and its outcome.

A command is ``{"operation": name, "seconds": s, ...}`` with the parameters of its case. Its
outcome is ``{"count": n, "elapsed": s}``, with ``"latencies": [p50, p99]`` in seconds where one
request at a time was measured, or ``{"error": text}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any

ITEM_SIZE = 128
"""Bytes of data in every message but the large ones."""

COUNT = b"count"
"""The request that is answered with how many fire-and-forget messages the server has seen."""

IDLE = b"idle"
"""The request for a stream that never gives an item."""

TRACED = b"traced"
"""The request for how many bytes the server's Python objects take, where it counts them."""

BURST = 1000
"""Fire-and-forget messages between two requests for the count, which are the flow control."""


def ready(uri: str) -> None:
    """Tell the harness where this server listens."""
    print(f"READY {uri}", flush=True)


def read_command() -> dict[str, Any] | None:
    """Wait for the next command; ``None`` when there will be no more."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else None


def write_outcome(outcome: dict[str, Any]) -> None:
    """Answer the command."""
    print(json.dumps(outcome), flush=True)


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The value below which that fraction of sorted values lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


class Stopwatch:
    """Counts what completes until a deadline, and gives the outcome.

    Attributes:
        count: What has completed so far.
        deadline: When to begin nothing more, on the clock of ``perf_counter``.
        latencies: Seconds per request, where they are measured one by one.
    """

    def __init__(self, seconds: float) -> None:
        self.count = 0
        self.latencies: list[float] = []
        self.start = perf_counter()
        self.deadline = self.start + seconds

    def outcome(self) -> dict[str, Any]:
        """The outcome as of now."""
        result: dict[str, Any] = {"count": self.count, "elapsed": perf_counter() - self.start}
        if self.latencies:
            ordered = sorted(self.latencies)
            result["latencies"] = [percentile(ordered, 0.5), percentile(ordered, 0.99)]
        return result
