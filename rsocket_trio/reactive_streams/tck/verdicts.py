"""What a test of the kit can find, and the decorators that make tests out of coroutines.

A test is a coroutine function of two arguments, the verification and a `Trial`. The decorators give
it the markers of its rule, check the capabilities that it needs before it starts, and make it a
plain function, so that it does not matter which plugins for async tests pytest has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import pytest

from .rules import RULES

if TYPE_CHECKING:
    from .trials import Trial

__all__ = [
    "NOT_APPLICABLE",
    "NOT_DECIDED",
    "NOT_DECLARED",
    "REPORT_ONLY",
    "Violation",
    "not_applicable",
    "not_decided",
    "not_declared",
    "optional",
    "report_only",
    "required",
    "violated",
]

Body: TypeAlias = "Callable[[Any, Trial], Awaitable[None]]"
Test: TypeAlias = "Callable[[Any], None]"

# The plugin reads these words in the reasons of skipped tests, as it does not import the kit.
NOT_APPLICABLE: Final = "not applicable"
NOT_DECIDED: Final = "not decided"
NOT_DECLARED: Final = "not declared"
REPORT_ONLY: Final = "report only"


class Violation(AssertionError):
    """What was verified breaks a rule. The text names the rule, the cause, and what the rule says.

    Attributes:
        rule: The number of the rule, or ``"set-up"`` if what was given to the kit is wrong.
        cause: What happened.
    """

    def __init__(self, rule: str, cause: str) -> None:
        says = f"\n(rule {rule}: {RULES[rule].text})" if rule in RULES else ""
        super().__init__(f"rule {rule}: {cause}{says}" if says else f"{rule}: {cause}")
        self.rule = rule
        self.cause = cause


def violated(rule: str, cause: str) -> NoReturn:
    """Fail the test.

    Raises:
        Violation: Always.
    """
    raise Violation(rule, cause)


def not_declared(capability: str, meaning: str) -> NoReturn:
    """Skip the test, because the class lacks a capability."""
    pytest.skip(f"{NOT_DECLARED}: {capability}: {meaning}")


def not_decided(reason: str, judged_by: str | None) -> NoReturn:
    """Skip the test: what it judges did not happen.

    Args:
        reason: What happened in its place.
        judged_by: The rule whose tests judge that: if it is a fault, they fail. None: it is none.
    """
    fault = "which no rule forbids" if judged_by is None else f"which tests of {judged_by} judge"
    pytest.skip(f"{NOT_DECIDED}: {reason}, {fault}")


def required(rule: str, **needs: Any) -> Callable[[Body], Test]:
    """Make a test of a rule that everybody has to keep.

    Args:
        rule: The number of the rule, or ``"set-up"``.
        needs: Capabilities that the test needs: see `Verification.check_needs`.
    """

    def decorate(body: Body) -> Test:
        def test(self: Any) -> None:
            self.check_needs(**needs)
            self.run_trial(body)

        return _named(test, body, rule, pytest.mark.rs_required)

    return decorate


def optional(rule: str, **needs: Any) -> Callable[[Body], Test]:
    """Make a test of something that is recommended or permitted: a violation is an xfail.

    Args:
        rule: The number of the rule.
        needs: As for `required`.
    """

    def decorate(body: Body) -> Test:
        def test(self: Any) -> None:
            self.check_needs(**needs)
            try:
                self.run_trial(body)
            except Violation as unmet:
                if unmet.rule == "set-up":  # what the user gave is wrong, and the test is not done
                    raise
                reason = str(unmet)
            else:
                return
            pytest.xfail(f"optional: {reason}")

        return _named(test, body, rule, pytest.mark.rs_optional)

    return decorate


def report_only(rule: str, **needs: Any) -> Callable[[Callable[[Any, Trial], Any]], Test]:
    """Make a test that only measures: it is skipped, and the reason is what the body returns."""

    def decorate(body: Callable[[Any, Trial], Any]) -> Test:
        def test(self: Any) -> None:
            self.check_needs(**needs)
            pytest.skip(f"{REPORT_ONLY}: {self.run_trial(body)}")

        return _named(test, body, rule, pytest.mark.rs_optional)

    return decorate


def not_applicable(rule: str) -> Test:
    """Make a test that says why a rule cannot be checked."""
    entry = RULES[rule]

    def test(self: Any) -> None:
        pytest.skip(f"{NOT_APPLICABLE}: {entry.why} (rule {rule}: {entry.text})")

    test.__doc__ = f"Not applicable: {entry.why}."
    return _marked(test, rule, pytest.mark.rs_optional)


def _named(test: Test, body: Callable[..., object], rule: str, kind: pytest.MarkDecorator) -> Test:
    # Not functools.wraps: pytest would take the arguments of the body for fixtures.
    test.__name__ = body.__name__
    test.__qualname__ = body.__qualname__
    test.__module__ = body.__module__
    test.__doc__ = body.__doc__
    test.__annotations__ = {}  # they would be looked up in the module of the body
    return _marked(test, rule, kind)


def _marked(test: Test, rule: str, kind: pytest.MarkDecorator) -> Test:
    marked: Test = pytest.mark.rs_rule(rule)(kind(test))
    return marked
