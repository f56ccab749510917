"""What may be sent once more: `Budget`, `Purse`."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.protocol.budget import Budget, Purse


def taken(purse, now):
    count = 0
    while purse.take(now):
        count += 1
    return count


def test_some_a_second_are_free():
    """Three at once, then one in each third of a second."""
    purse = Purse(Budget(), 0)
    assert taken(purse, 0) == 3
    assert taken(purse, 0.3) == 0
    assert taken(purse, 0.4) == 1
    assert taken(purse, 1000) == 3


def test_successes_earn():
    """Five pay for one more."""
    purse = Purse(Budget(per_second=0), 0)
    for _ in range(4):
        purse.earn(0)
    assert not purse.take(0)
    purse.earn(0)
    purse.earn(0)
    assert purse.take(0)
    assert not purse.take(0)


def test_what_was_earned_is_forgotten():
    """A year of successes is worth some ten seconds of them: it does not pay for a flood."""
    purse = Purse(Budget(per_second=0), 0)
    for second in range(1000):
        for _ in range(10):
            purse.earn(second)
    assert 15 < taken(purse, 999) <= 22


def test_a_low_rate_comes_to_one():
    """One in ten seconds."""
    purse = Purse(Budget(ratio=0, per_second=0.1), 0)
    assert taken(purse, 9.5) == 1
    assert taken(purse, 19) == 0
    assert taken(purse, 20) == 1


def test_nothing_is_allowed_with_nothing():
    """Zeros switch it off."""
    purse = Purse(Budget(ratio=0, per_second=0), 0)
    purse.earn(1)
    assert not purse.take(1000)


@pytest.mark.parametrize("wrong", [{"ratio": -1}, {"ratio": inf}, {"per_second": -1}])
def test_wrong_settings_are_refused(wrong):
    """Both are numbers from 0."""
    with pytest.raises(ValueError):
        Budget(**wrong)


@given(
    st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=200),
    st.floats(0, 1),
    st.floats(0, 10),
)
def test_no_more_than_was_earned_and_is_free(steps, ratio, rate):
    """Over any time: the free ones, and the ratio of the successes."""
    purse = Purse(Budget(ratio=ratio, per_second=rate), 0)
    now, earned, count = 0.0, 0, 0
    for passed, success in steps:
        now += passed
        if success:
            purse.earn(now)
            earned += 1
        elif purse.take(now):
            count += 1
    assert count <= rate + rate * now + ratio * earned + 1e-6
