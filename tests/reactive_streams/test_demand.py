"""`Demand`: exact up to 2**63-1, and without a limit from there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.reactive_streams.demand import MAX_DEMAND, Demand


@given(st.lists(st.tuples(st.integers(1, 2**64), st.integers(0, 2**64)), max_size=20))
def test_it_counts_exactly(steps):
    demand, model = Demand(), 0
    for n, used in steps:
        demand.add(n)
        model = min(model + n, MAX_DEMAND)
        k = min(used, model)
        demand.take(k)
        if model != MAX_DEMAND:
            model -= k
        assert demand.outstanding == model
        assert demand.unbounded == (model == MAX_DEMAND)
