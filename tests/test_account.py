"""`Account`: bytes are taken before they are held."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.account import Account


def test_what_the_limit_does_not_allow_is_not_taken():
    """The limit itself may be held, and a refusal names the limit and its setting."""
    account = Account(100, "Limits.max_example", "are unread")
    assert account.take(60)
    assert not account.take(41)
    assert account.take(40)
    assert repr(account) == "<Account Limits.max_example: 100 of 100>"
    assert account.refusal == "more than 100 bytes are unread (Limits.max_example)"
    account.give_back(60)
    assert account.held == 40


def test_the_first_may_have_any_size():
    """A single answer that is larger than the limit would never leave."""
    account = Account(100, "Limits.max_example", "wait")
    assert not account.take(1000)
    assert account.take_first(1000)
    assert not account.take_first(1)
    account.give_back(1000)
    assert account.take_first(60)
    assert account.take_first(40)
    assert not account.take_first(1)


@given(
    st.lists(st.tuples(st.sampled_from(["take", "take_first", "give_back"]), st.integers(0, 250)))
)
def test_nothing_leaks(steps):
    """What is held is the sum of what was given, and only a first take exceeds the limit."""
    account = Account(200, "setting", "wait")
    held = []
    for step, size in steps:
        if step != "give_back":
            if getattr(account, step)(size):
                held.append(size)
        elif held:
            account.give_back(held.pop())
        assert account.held == sum(held)
        assert account.held <= 200 or account.held == max(held)
