"""docs/conformance.md names every rule once, with code and tests that exist, or with the reason."""

from __future__ import annotations

import re
import runpy
from collections.abc import Container
from pathlib import Path

from tests.rules.sources import none_of

TESTS = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(TESTS.parent / "scripts/conformance.py"))
IDS = Path(__file__).with_name("conformance_ids.txt").read_text().split()
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in SCRIPT["PAGE"].read_text().splitlines()
    if re.match(r"\| (R|V0)-", line)
]


def test_the_page_is_current():
    """The page is what scripts/conformance.py writes: run that after naming a rule in a test."""
    assert SCRIPT["PAGE"].read_text() == SCRIPT["page"]()


def test_every_rule_is_named_once():
    """No rule is left out, invented or named twice."""
    assert [rule for rule, _, _, _ in ROWS] == IDS
    assert len(set(IDS)) == len(IDS)


def test_only_existing_rules_are_named():
    """Docstrings, vectors and the table of tests name only rules that exist."""
    table = SCRIPT["rules"]()
    assert {*SCRIPT["tests"](), *table["tests"]} <= set(IDS)
    assert set(table["reasons"]) <= {*IDS, "R", "V0"}


def test_every_rule_has_a_statement():
    """A statement is one sentence, and no two rules of one family say the same."""
    for family in SCRIPT["rules"]()["family"]:
        statements = list(family["rules"].values())
        assert all(re.fullmatch(r"[^|\n]{10,110}\.", statement) for statement in statements)
        assert len(set(statements)) == len(statements)


def wrong_evidence(rule: str, evidence: str, functions: Container[str]):
    names = re.findall(r"`([^`]+)`", evidence)
    for name in names:
        if name.partition("[")[0] not in functions:
            yield f"{rule} names {name}, which is no test"
    if bool(names) is bool(re.fullmatch(r"\*[^*]{10,}\*", evidence)):
        yield f"{rule} needs either tests or a reason, and has {evidence}"


def test_each_rule_has_tests_or_a_reason():
    """Each test that is named exists, and a rule without a test has a reason."""
    functions = SCRIPT["test_functions"]()
    none_of(
        fault for rule, *_, evidence in ROWS for fault in wrong_evidence(rule, evidence, functions)
    )


def wrong_code(rule: str, where: str):
    names = re.findall(r"`([^`]+)`", where)
    for name in names:
        file, _, function = name.partition("::")
        if not (SCRIPT["PACKAGE"] / file).is_file():
            yield f"{rule} names {file}, which is no module"
        elif function not in SCRIPT["names_in"](file):
            yield f"{rule} names {name}, which is not in its module"
    reason = SCRIPT["rules"]()["reasons"].get(rule, "")
    if bool(names) is reason.startswith("cannot apply"):
        yield f"{rule} has code {where}, and as the reason for having no test: {reason}"
    if bool(names) is (where == "-"):
        yield f"{rule} has code {where}"


def test_each_rule_has_code():
    """Each function that is named exists; a rule without code cannot apply, and says so."""
    none_of(fault for rule, _, where, _ in ROWS for fault in wrong_code(rule, where))


def test_code_is_named_for_existing_rules_only():
    """No rule is invented, and no function is named twice for one rule."""
    table = SCRIPT["code"]()
    assert set(table) <= set(IDS)
    assert all(names and len(set(names)) == len(names) for names in table.values())


def test_the_definitions_of_a_module_are_found(tmp_path, monkeypatch):
    """Functions, methods and tables with a type are found; nested functions are not."""
    (tmp_path / "m.py").write_text(
        "TABLE: int = 1\ndef f():\n    def g(): pass\n"
        "class C:\n    x: int\n    async def m(self): pass\n"
    )
    monkeypatch.setitem(SCRIPT["names_in"].__globals__, "PACKAGE", tmp_path)
    assert SCRIPT["names_in"]("m.py") == {"TABLE", "f", "C.m"}


def test_a_rule_with_a_test_has_no_reason():
    """A rule, or a whole wire, that has a test needs no reason for having none."""
    reasons = set(SCRIPT["rules"]()["reasons"])
    assert not any({rule, rule.partition("-")[0]} & reasons for rule in SCRIPT["tests"]())


def test_short_forms_of_rule_ids():
    """Ids in a docstring may leave out their family, or be a range."""
    text = "R-FRAG-01, -02, R-UNX-08a, -09, 16 of them: one. V0-UNX-02 to 04, 13: of B.20, -07."
    assert list(SCRIPT["named_rules"](text)) == [
        "R-FRAG-01",
        "R-FRAG-02",
        "R-UNX-08a",
        "R-UNX-09",
        "V0-UNX-02",
        "V0-UNX-03",
        "V0-UNX-04",
        "V0-UNX-13",
    ]


def test_tests_in_classes_and_parametrised_ones_are_found(tmp_path, monkeypatch):
    """Names are those that pytest gives, without parameter ids; helpers are not tests."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/test_it.py").write_text(
        "def helper(): '''R-SID-01'''\n"
        "@parametrize('x', [1])\nasync def test_a(x): '''R-SID-02'''\n"
        "class TestB:\n    def test_c(self):\n        def test_d(): pass\n"
    )
    monkeypatch.setitem(SCRIPT["test_functions"].__globals__, "TESTS", tmp_path)
    assert SCRIPT["test_functions"]() == {
        "sub/test_it.py::test_a": "R-SID-02",
        "sub/test_it.py::TestB::test_c": "",
    }
