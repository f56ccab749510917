"""How the window of a host grows and shrinks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.lumberjack.client.window_size import WindowSize


def test_slow_start():
    """Full windows double it, up to the maximum."""
    window = WindowSize(64, 2048)
    seen = []
    while window.size < 2048:
        seen.append(window.size)
        window.acknowledged(window.size)
    assert seen == [64, 128, 256, 512, 1024]
    window.acknowledged(2048)
    assert window.size == 2048


def test_small_windows_say_nothing():
    """A window that was not full shows nothing about larger ones."""
    window = WindowSize(64, 2048)
    window.acknowledged(63)
    assert window.size == 64


def test_trouble():
    """It is halved; then it doubles until there, and grows by an eighth from there on."""
    window = WindowSize(1024, 2048)
    window.trouble()
    window.trouble()
    assert window.size == 256
    seen = []
    for _ in range(4):
        window.acknowledged(window.size)
        seen.append(window.size)
    assert seen == [288, 324, 364, 409]
    for _ in range(20):
        window.trouble()
    assert window.size == 1
    window.acknowledged(1)
    assert window.size == 2


def test_growth_after_trouble_while_small():
    """Several troubles in a row lower the size of the next slow growth too."""
    window = WindowSize(2048, 2048)
    window.trouble()
    window.acknowledged(2048)  # Sent before the loss.
    assert window.size == 1152


@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.lists(st.one_of(st.none(), st.integers(1, 5000)), max_size=60),
)
def test_it_keeps_its_bounds(initial, maximum, events):
    """It is between 1 and the maximum, and never falls without trouble."""
    window = WindowSize(initial, maximum)
    for event in events:
        before = window.size
        if event is None:
            window.trouble()
            assert window.size == max(1, before // 2)
        else:
            window.acknowledged(event)
            assert before <= window.size <= max(2 * before, before + 1)
        assert 1 <= window.size <= maximum
