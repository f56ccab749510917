"""The schedule of attempts."""

from __future__ import annotations

from itertools import islice

import pytest

from rsocket_trio.protocol.retry import Attempts, Retry


def test_waits_grow_up_to_the_maximum():
    """Without jitter each wait is the factor times the last, until the cap."""
    retry = Retry(initial_delay=1, factor=3, max_delay=20, jitter=0)
    assert list(islice(retry.delays(lambda: 0.7), 5)) == [1, 3, 9, 20, 20]


def test_jitter_takes_a_random_part_away():
    """The random part is between nothing and all of the jitter's share."""
    retry = Retry(initial_delay=8, factor=1, jitter=0.5)
    assert next(retry.delays(lambda: 0.0)) == 8
    assert next(retry.delays(lambda: 0.5)) == 6


def test_a_schedule_ends_after_its_attempts():
    """There are as many waits as attempts."""
    assert len(list(Retry(max_attempts=4).delays(lambda: 0.0))) == 4


def test_a_schedule_has_no_end_by_default():
    """The number of attempts has no limit, and no wait overflows."""
    assert list(islice(Retry().delays(lambda: 0.0), 5000))[-1] == 10.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_delay": 0},
        {"initial_delay": float("nan")},
        {"factor": 0.5},
        {"max_delay": -1},
        {"max_delay": float("inf")},
        {"jitter": 1.5},
        {"max_attempts": 0},
    ],
)
def test_invalid_schedules_are_refused(wrong):
    """Times above 0, a factor of 1 or more, jitter 0 to 1, one attempt at least."""
    with pytest.raises(ValueError):
        Retry(**wrong)


def test_short_connections_do_not_reset_the_waits():
    """The waits grow until a connection lasts longer than the wait before it."""
    attempts = Attempts(Retry(initial_delay=1, factor=2, max_delay=100, jitter=0), lambda: 0.0)
    waits = []
    for lasted in [0.0, 1.9, 4.0, 8.1, 1.1, 0.5, 2.5]:
        waits.append(next(attempts.within(1000)))
        attempts.lost(lasted)
    assert waits == [1, 2, 4, 8, 1, 1, 2]
    assert list(islice(attempts.within(1000), 3)) == [1, 2, 4]


def test_a_moment_never_resets_the_waits():
    """A tenth of a second does not reset them, however short the wait is."""
    attempts = Attempts(Retry(initial_delay=0.01, jitter=0), lambda: 0.0)
    assert next(attempts.within(1000)) == 0.01
    attempts.lost(0.1)
    assert next(attempts.within(1000)) == 0.02


def test_there_is_one_attempt_in_time():
    """If the waits exceed the time left, the first takes half of it."""
    attempts = Attempts(Retry(initial_delay=8, factor=2, max_delay=100, jitter=0), lambda: 0.0)
    assert list(islice(attempts.within(10), 3)) == [5, 16, 32]


def test_short_connections_count_as_failed_attempts():
    """They count until one lasts."""
    attempts = Attempts(Retry(max_attempts=3), lambda: 0.0)
    for _ in range(3):
        assert len(list(islice(attempts.within(60), 1))) == 1
        attempts.lost(0)
    assert list(attempts.within(60)) == []
