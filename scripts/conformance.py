"""Write docs/conformance.md: each rule of the specifications, its code and its tests.

Run it after adding a test that names a rule. A test names rules at the beginning of a sentence of
its docstring: "R-SID-03, R-SID-04: ...", with short forms: "R-SID-03, -04", "R-SID-03 to 05, 13:".
The malformed golden vectors name rules too. conformance_rules.toml has the text of the rules, and
conformance_code.toml has the code that enforces them.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/conformance.md"
TESTS = ROOT / "tests"
RULES = ROOT / "scripts/conformance_rules.toml"
CODE = ROOT / "scripts/conformance_code.toml"
PACKAGE = ROOT / "rsocket_trio"

NAMED = re.compile(
    r"\b((?:R|V0)-[A-Z]+)-(\d\d[a-z]?\b)((?:(?:, -| to )\d\d[a-z]?\b|, \d\d(?=[,:]))*)"
)

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef

VECTORS = {
    "test_malformed_vectors.py": "rsocket.json",
    "reactivesocket/test_malformed_vectors.py": "reactivesocket.json",
}
"""The tests that run all malformed vectors, and the files of these vectors."""

MALFORMED = ("malformed", "v0-malformed")
"""The kinds of vectors that a test sends to a server or a client."""

HEADINGS = "| rule | text | enforced in | shown by |"

HEAD = """\
# Conformance

This page lists the rules of RSocket 1.0 and its extensions, and of the ReactiveSocket draft. Each
rule has the code that enforces it and the tests that show it. Rules are shortened here, and
numbered for reference; the text of the specification decides. If the specification leaves
something open, the rule says what this package does.

Code is named by its file in `rsocket_trio/` and its function. If several functions enforce a rule
together, the one that decides comes first. Tests are named by their files in `tests/`. A name in
square brackets is the name of a golden vector, which the test sends to a server or a client over a
socket.

Flags have the letters of the specification: I (ignore), M (metadata), F (follows), C (complete),
N (next), L (lease), S (strict), and R (resume in SETUP, respond in KEEPALIVE).
"""


def page() -> str:
    """Return the whole page."""
    table = rules()
    shown, enforced = tests(), code()
    total, without = 0, 0
    sections = []
    for family in table["family"]:
        lines = [f"## {family['title']}", "", HEADINGS, "|---|---|---|---|"]
        for number, statement in family["rules"].items():
            rule = f"{family['prefix']}-{number}"
            names = shown.get(rule, [])
            total += 1
            without += not names
            evidence = ", ".join(f"`{name}`" for name in names) or f"*{reason(rule)}*"
            where = ", ".join(f"`{name}`" for name in enforced.get(rule, [])) or "-"
            lines.append(f"| {rule} | {statement} | {where} | {evidence} |")
        sections.append("\n".join([*lines, ""]))
    summary = f"Of {total} rules, {total - without} have tests; the others give a reason.\n"
    return "\n".join([HEAD, summary, *sections])


def rules() -> dict[str, Any]:
    """Return the hand-written part: families of rules, tests and reasons."""
    return _toml(RULES)


def code() -> dict[str, list[str]]:
    """Return the code that enforces each rule."""
    return _toml(CODE)


@cache
def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def names_in(file: str) -> frozenset[str]:
    """Return the functions, methods and annotated tables of a module."""
    return _names_at(PACKAGE / file)


@cache
def _names_at(path: Path) -> frozenset[str]:
    return frozenset(_names(ast.parse(path.read_text())))


def _names(scope: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            yield from _names(node, f"{prefix}{node.name}.")
        elif isinstance(node, FUNCTION):
            yield prefix + node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(scope, ast.Module):
            yield ast.unparse(node.target)


def reason(rule: str) -> str:
    """Return the reason why a rule has no test: its own, or that of its protocol."""
    reasons = rules()["reasons"]
    return str(reasons.get(rule) or reasons.get(rule.partition("-")[0]))


def tests() -> dict[str, list[str]]:
    """Return the tests of each rule: tests that name it, tests listed for it, and vectors."""
    found: dict[str, list[str]] = {}
    for name, docstring in test_functions().items():
        for rule in named_rules(docstring):
            found.setdefault(rule, []).append(name)
    for rule, names in rules()["tests"].items():
        found.setdefault(rule, []).extend(names)
    for rule, name in vectors():
        found.setdefault(rule, []).append(name)
    return {rule: list(dict.fromkeys(names)) for rule, names in found.items()}


def test_functions() -> dict[str, str]:
    """Return the docstring of each test function and test method."""
    return {
        f"{path.relative_to(TESTS).as_posix()}::{name}": docstring
        for path in sorted(TESTS.rglob("test_*.py"))
        if "node_modules" not in path.parts
        for name, docstring in _functions_at(path)
    }


@cache
def _functions_at(path: Path) -> tuple[tuple[str, str], ...]:
    return tuple(_functions(ast.parse(path.read_text())))


def _functions(scope: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, str]]:
    for node in scope.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _functions(node, f"{prefix}{node.name}::")
        elif isinstance(node, FUNCTION) and node.name.startswith("test"):
            yield prefix + node.name, ast.get_docstring(node) or ""


def named_rules(docstring: str) -> Iterator[str]:
    """Yield the full ids of the rules that a docstring names."""
    for family, first, further in NAMED.findall(docstring):
        yield f"{family}-{first}"
        latest = first
        for separator, number in re.findall(r"(, -?| to )(\d\d[a-z]?)", further):
            if separator == " to ":
                yield from (f"{family}-{n:02}" for n in range(int(latest) + 1, int(number)))
            yield f"{family}-{number}"
            latest = number


def vectors() -> Iterator[tuple[str, str]]:
    """Yield each rule that a malformed vector names, and the test that runs the vector."""
    for test, file in VECTORS.items():
        if not (TESTS / test).exists():
            continue
        left_out = _literal(TESTS / test, "NOT_YET")
        for vector in json.loads((TESTS / "vectors" / file).read_text()):
            if vector["kind"] in MALFORMED and vector["name"] not in left_out:
                role = "server" if vector["context"].startswith("server") else "client"
                for rule in vector["expect"]["rules"]:
                    yield rule, f"{test}::test_at_a_{role}[{vector['name']}]"


def _literal(path: Path, name: str) -> Any:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    return ()


if __name__ == "__main__":
    sys.exit(PAGE.write_text(page()) and 0)
