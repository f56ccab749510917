"""The counts and latencies of a bench: `Tally`."""

from __future__ import annotations

from collections import Counter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from .histogram import Histogram

if TYPE_CHECKING:
    from rsocket_trio.errors import StreamError

__all__ = ["Tally"]

_PERCENTILES: Final = (50, 90, 99, 99.9)


class Tally:
    """Counts requests, items, errors and latencies. `start` discards all earlier counts.

    Attributes:
        phase: ``warm-up`` or ``measuring``.
        requests: Number of answered requests. A stream counts at its first item or its end.
        items: Number of received items. A response is one item.
        errors: Number of requests answered with an error, by the class name of the error. The
            text of an error comes from the peer and may differ each time.
        first_error: The text of the first error.
    """

    def __init__(self) -> None:
        self._ended: int | None = None
        self._reset("warm-up")

    def start(self) -> None:
        """End the warm-up and begin to count from zero."""
        self._reset("measuring")

    def stop(self) -> None:
        """Stop the clock."""
        self._ended = perf_counter_ns()

    @property
    def stopped(self) -> bool:
        """Whether the clock was stopped."""
        return self._ended is not None

    def _reset(self, phase: str) -> None:
        self.phase = phase
        self.requests = 0
        self.items = 0
        self.errors: Counter[str] = Counter()
        self.first_error: str | None = None
        self._latencies = Histogram()
        self._ended = None
        self._began = perf_counter_ns()

    def answered(self, sent: int) -> None:
        """Count the answer to a request sent at ``sent``, a value of `perf_counter_ns`."""
        self.requests += 1
        self._latencies.record(perf_counter_ns() - sent)

    def error(self, error: StreamError) -> None:
        """Count a request that was answered with an error."""
        self.errors[type(error).__name__] += 1
        if self.first_error is None:
            self.first_error = str(error)

    @property
    def seconds(self) -> float:
        """The duration of the measurement, in seconds."""
        ended = perf_counter_ns() if self._ended is None else self._ended
        return (ended - self._began) / 1e9

    def per_second(self, count: int) -> float:
        """Return ``count`` per second of the measurement."""
        return count / max(self.seconds, 1e-9)

    def latencies_ms(self) -> dict[str, float | None]:
        """Return percentiles and maximum, in milliseconds; ``None`` if there was no answer."""
        latencies = self._latencies
        if latencies.count == 0:
            return dict.fromkeys([*(f"p{percent}" for percent in _PERCENTILES), "max"])
        shown = {f"p{percent}": latencies.percentile(percent) for percent in _PERCENTILES}
        shown["max"] = latencies.maximum
        return {name: round(value / 1e6, 4) for name, value in shown.items()}
