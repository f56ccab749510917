"""How a check ends: it returns, or raises one of these."""

from __future__ import annotations

__all__ = ["Breach", "Failed", "Skipped", "check"]


class Failed(Exception):
    """The peer breaks the rule under test."""


class Breach(Failed):
    """A message of the peer breaks a rule, which may be another one than that under test.

    Attributes:
        rule: The id of that rule.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class Skipped(Exception):
    """The rule cannot be tested here. The text says why."""


def check(condition: object, text: str) -> None:
    """Fail unless a condition holds.

    Raises:
        Failed: It does not.
    """
    if not condition:
        raise Failed(text)
