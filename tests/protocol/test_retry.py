"""The schedule of attempts."""

from __future__ import annotations

from itertools import islice

import pytest

from rsocket_trio.protocol.retry import Retry


def test_waits_grow_up_to_the_maximum():
    """Without jitter each wait is the factor times the last, until the cap."""
    retry = Retry(initial=1, factor=3, maximum=20, jitter=0)
    assert list(islice(retry.delays(lambda: 0.7), 5)) == [1, 3, 9, 20, 20]


def test_jitter_takes_a_random_part_away():
    """The random part is between nothing and all of the jitter's share."""
    retry = Retry(initial=8, factor=1, jitter=0.5)
    assert next(retry.delays(lambda: 0.0)) == 8
    assert next(retry.delays(lambda: 0.5)) == 6


def test_it_gives_up_after_the_attempts():
    """So many waits as attempts, then no more."""
    assert len(list(Retry(attempts=4).delays(lambda: 0.0))) == 4


def test_it_goes_on_for_ever_by_default():
    """No number of attempts is too many, and no wait overflows."""
    assert list(islice(Retry().delays(lambda: 0.0), 5000))[-1] == 10.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial": 0},
        {"initial": float("nan")},
        {"factor": 0.5},
        {"maximum": -1},
        {"maximum": float("inf")},
        {"jitter": 1.5},
        {"attempts": 0},
    ],
)
def test_what_makes_no_schedule_is_refused(wrong):
    """Times above 0, a factor of 1 or more, jitter 0 to 1, one attempt at least."""
    with pytest.raises(ValueError):
        Retry(**wrong)
