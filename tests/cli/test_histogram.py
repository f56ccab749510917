"""Latencies in bounded memory."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.cli.histogram import Histogram


def test_an_empty_histogram() -> None:
    """Its count and its percentiles are 0."""
    histogram = Histogram()
    assert (histogram.count, histogram.maximum, histogram.percentile(50)) == (0, 0, 0)


def test_small_values_are_exact() -> None:
    """Values below 128 have a bucket each."""
    histogram = Histogram()
    for value in range(100):
        histogram.record(value)
    assert [histogram.percentile(p) for p in (1, 50, 90, 99, 100)] == [0, 49, 89, 98, 99]


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 2**50), min_size=1, max_size=60),
    st.floats(0, 100, allow_nan=False),
)
def test_percentile_is_close(values: list[int], percent: float) -> None:
    """A percentile is never below the exact one, and less than 1/64 above it."""
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    exact = sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]
    assert exact <= histogram.percentile(percent) <= min(exact * (1 + 1 / 64), max(values))
    assert histogram.count == len(values)
    assert histogram.maximum == max(values)


def test_memory_is_bounded() -> None:
    """A hundred thousand different values share a few hundred buckets."""
    histogram = Histogram()
    for value in range(1_000_000, 100_000_000, 1000):
        histogram.record(value)
    assert len(histogram._buckets) < 500
