"""How long most requests take: `Percentile`."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio.protocol.percentile import Percentile


def test_a_few_times_say_nothing():
    """With fewer than 20 there is no percentile."""
    times = Percentile(0.95)
    for _ in range(19):
        times.add(1)
    assert times.value is None
    times.add(1)
    assert times.value == 1


@example([float(number % 50) for number in range(300)], 0.95)
@given(st.lists(st.floats(0, 100), min_size=20, max_size=400), st.sampled_from([0.5, 0.95, 1.0]))
def test_it_is_that_of_the_last_times(seconds, part):
    """Of exactly the last 128; equal times are several."""
    times = Percentile(part)
    for each in seconds:
        times.add(each)
    last = sorted(seconds[-128:])
    assert times.value == last[min(int(len(last) * part), len(last) - 1)]
