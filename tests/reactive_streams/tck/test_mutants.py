"""Each mutant is noticed by exactly the tests that are meant for it, which name rule and cause."""

from __future__ import annotations

import re

import pytest

from rsocket_trio.reactive_streams.tck import (
    RULES,
    ProcessorVerification,
    PublisherVerification,
    SubscriberVerification,
)
from tests.reactive_streams.tck.mutants import (
    cancelling,
    demand,
    processors,
    streams,
    subscribers,
    subscribing,
)
from tests.reactive_streams.tck.running import run

MUTANTS = [
    mutant
    for module in (streams, subscribing, demand, cancelling, subscribers, processors)
    for mutant in module.MUTANTS
]
VERIFICATIONS = (PublisherVerification, SubscriberVerification, ProcessorVerification)
OWN_TESTS = {
    f"{cls.__name__}.{name}": getattr(cls, name)
    for cls in VERIFICATIONS
    for name in dir(cls)
    if name.startswith("test_")
}


def names(outcomes: dict[str, str]) -> set[str]:
    return {name.removeprefix("test_") for name in outcomes}


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_mutant_is_noticed_by_its_tests_alone(mutant):
    """Exactly these tests fail, or are not met; the text names the rule and the cause."""
    outcomes = run(mutant.verification)
    noticed = {**outcomes.failed, **outcomes.unmet}
    assert (names(outcomes.failed), names(outcomes.unmet)) == (mutant.fails, mutant.unmet), noticed
    assert noticed
    assert len(noticed) == 1 or mutant.why
    assert all(mutant.says in text for text in noticed.values()), noticed
    for name, text in noticed.items():
        assert re.search(r"\brule \d\.\d+: |set-up: ", text), name


def marks(test: object) -> dict[str, tuple[object, ...]]:
    return {mark.name: mark.args for mark in getattr(test, "pytestmark", [])}


def test_each_required_test_has_a_mutant():
    """A required test that no mutant breaks might never fail."""
    required = {
        name.partition(".test_")[2]
        for name, test in OWN_TESTS.items()
        if "rs_required" in marks(test)
    }
    broken = {name for mutant in MUTANTS for name in mutant.fails}
    assert required - broken == set()
    assert len(MUTANTS) >= 45


def test_each_optional_test_has_a_mutant():
    """So might an optional one, unless it only reports, or is not applicable."""
    only_told = {"2.2", "2.7", "2.11", "3.1", "3.14"}
    optional = {
        name.partition(".test_")[2]
        for name, test in OWN_TESTS.items()
        if "rs_optional" in marks(test) and marks(test)["rs_rule"][0] not in only_told
    }
    assert optional - {name for mutant in MUTANTS for name in mutant.unmet} == set()


def test_each_rule_has_a_test_of_its_kind():
    """A required rule has a required test, an optional one an optional test, and so on."""
    kinds: dict[str, set[str]] = {}
    for test in OWN_TESTS.values():
        found = marks(test)
        assert len(found.keys() & {"rs_required", "rs_optional"}) == 1
        kinds.setdefault(str(found["rs_rule"][0]), set()).update(found)
    assert kinds.keys() == {"set-up", *RULES}
    for number, rule in RULES.items():
        wanted = "rs_required" if rule.kind == "required" else "rs_optional"
        assert wanted in kinds[number], number


def test_the_numbers_of_rules():
    """31 of the 43 rules are required, 7 are optional, 1 is reported, and 4 are not applicable."""
    kinds = [rule.kind for rule in RULES.values()]
    assert [kinds.count(kind) for kind in ("required", "optional", "report", "not applicable")] == [
        31,
        7,
        1,
        4,
    ]


def test_names_and_markers_agree():
    """A test is named after its rule, so that ``-k r3_09`` selects it."""
    for name, test in OWN_TESTS.items():
        rule = str(marks(test)["rs_rule"][0])
        chapter, _, number = rule.partition(".")
        prefix = f"test_r{chapter}_{int(number):02}_" if number else "test_setup_"
        assert name.partition(".")[2].startswith(prefix), name
        assert test.__doc__, name
