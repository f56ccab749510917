"""The pytest plugin of the conformance kit `rsocket_trio.reactive_streams.tck`.

It registers the kit's markers, adds a summary by rule after the tests, and ``--rs-report=FILE``,
which writes the same as JSON. pytest loads it in every run where this package is installed, so it
imports neither trio nor the package. It finds the tests of the kit by their marker ``rs_rule``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

__all__: list[str] = []

MARKERS: Final = (
    "rs_rule(number): the rule of Reactive Streams that the test checks, such as 3.9, or set-up",
    "rs_required: what is verified has to pass this test",
    "rs_optional: what is verified may fail this test: it is an expected failure then",
)
KIT: Final = "rsocket_trio.reactive_streams.tck"
FAILED, UNMET, PASSED = "failed", "optional unmet", "passed"
NOT_CHECKED, NOT_APPLICABLE = "not checked", "not applicable"
ORDER: Final = (FAILED, UNMET, PASSED, NOT_CHECKED, NOT_APPLICABLE)
"""The outcomes of tests, and of rules. Of several tests of a rule the first one here counts; but an
optional test that is not met does not hide a required one that has passed."""

Tests = dict[str, dict[str, Any]]
"""The outcome, the rule and the reason of each test of a class, by its name."""


class Report:
    """Collects the outcomes of the kit's tests, of this process or of those of pytest-xdist."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.classes: dict[str, Tests] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        """Attach the rule to the report, which may go to another process."""
        report = yield
        marker = item.get_closest_marker("rs_rule")
        if marker is not None:
            report.rs_rule = str(marker.args[0])
            report.rs_required = item.get_closest_marker("rs_required") is not None
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test: that of its call, or what went wrong before or after it."""
        rule = getattr(report, "rs_rule", None)
        if rule is None or (report.when != "call" and report.passed):
            return
        verified, _, test = report.nodeid.rpartition("::")
        outcome, reason = _outcome(report)
        self.classes.setdefault(verified, {})[test] = {
            "rule": rule,
            "required": report.rs_required,
            "outcome": outcome,
            "reason": reason,
        }

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Write the summary, and the file."""
        if self.file is not None:
            Path(self.file).write_text(json.dumps(self.as_json(), indent=2) + "\n", "utf-8")
        if not self.classes or config.get_verbosity() < 0:
            return
        verbose = config.get_verbosity() > 0
        failed = {name: tests for name, tests in self.classes.items() if _failed(tests)}
        if not verbose and not failed:
            terminalreporter.line(_in_one_line(self.classes))
            return
        terminalreporter.section("rules of Reactive Streams")
        for verified, tests in sorted((self.classes if verbose else failed).items()):
            for line in _lines(verified, tests, verbose=verbose):
                terminalreporter.line(line)
        if not verbose and len(failed) < len(self.classes):
            rest = {name: tests for name, tests in self.classes.items() if name not in failed}
            terminalreporter.line(_in_one_line(rest))

    def as_json(self) -> dict[str, Any]:
        """Return the report: for each class its rules and its tests."""
        return {
            "version": 1,
            "classes": {
                verified: {"rules": _by_rule(tests), "tests": tests}
                for verified, tests in sorted(self.classes.items())
            },
        }


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("Reactive Streams")
    group.addoption(
        "--rs-report",
        metavar="FILE",
        help="write the outcome of each rule, for each class that the kit verifies, as JSON",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and the report."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if KIT not in sys.modules:
        pytest.register_assert_rewrite(KIT)
    # A process of pytest-xdist sends its reports to the main one, which writes them.
    file = None if hasattr(config, "workerinput") else config.getoption("--rs-report")
    config.pluginmanager.register(Report(file), "rsocket_trio_tck_report")


def _outcome(report: pytest.TestReport) -> tuple[str, str]:
    if hasattr(report, "wasxfail"):
        return UNMET, report.wasxfail.removeprefix("reason: ")
    if report.passed:
        return PASSED, ""
    if report.skipped:
        skipped = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        reason = skipped.removeprefix("Skipped: ")
        return (NOT_APPLICABLE if reason.startswith(NOT_APPLICABLE) else NOT_CHECKED), reason
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr)
    return FAILED, text.removeprefix("rsocket_trio.reactive_streams.tck.verdicts.Violation: ")


def _by_rule(tests: Tests) -> dict[str, str]:
    """The outcome of each rule."""
    found: dict[str, list[dict[str, Any]]] = {}
    for test in tests.values():
        found.setdefault(test["rule"], []).append(test)
    return {rule: _of_rule(found[rule]) for rule in sorted(found, key=_place)}


def _of_rule(tests: list[dict[str, Any]]) -> str:
    outcomes = {test["outcome"] for test in tests}
    if any(test["required"] and test["outcome"] == PASSED for test in tests):
        outcomes.discard(UNMET)
    return next(outcome for outcome in ORDER if outcome in outcomes)


def _place(rule: str) -> tuple[int, ...]:
    """The place of a rule among the others; that of the set-up is the first."""
    return tuple(int(part) for part in rule.split(".") if part.isdecimal())


def _failed(tests: Tests) -> bool:
    return any(test["outcome"] == FAILED for test in tests.values())


def _in_one_line(classes: dict[str, Tests]) -> str:
    outcomes = [test["outcome"] for tests in classes.values() for test in tests.values()]
    counts = ", ".join(f"{outcomes.count(each)} {each}" for each in ORDER if each in outcomes)
    of = "1 class" if len(classes) == 1 else f"{len(classes)} classes"
    return f"rules of Reactive Streams: {of}, tests: {counts} (-v lists the rules)"


def _lines(verified: str, tests: Tests, *, verbose: bool) -> list[str]:
    rules = _by_rule(tests)
    groups = {
        outcome: [rule for rule, found in rules.items() if found == outcome] for outcome in ORDER
    }
    counts = ", ".join(f"{len(group)} {outcome}" for outcome, group in groups.items() if group)
    lines = [f"{verified}: {counts}"]
    if verbose or groups[FAILED]:
        lines += [f"    {outcome}: {' '.join(group)}" for outcome, group in groups.items() if group]
    for name, test in sorted(tests.items()):
        if test["outcome"] == FAILED or (verbose and test["outcome"] == UNMET):
            first, *_ = test["reason"].splitlines() or [""]
            lines.append(f"    {test['outcome']}: {name}: {first}")
    return lines
