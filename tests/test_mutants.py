"""The mutation testing script: the changes it makes, selects, and lists as harmless."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.time_limit import LONGEST

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script():
    """``scripts/mutants.py``; it imports its neighbours as a program does."""
    path = list(sys.path)
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts/mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    for name in ("mutations", "mutant_runs"):
        del sys.modules[name]


def changes(script, source):
    return {(mutant.kind, mutant.becomes) for mutant in script.mutants("m.py", source)}


@pytest.mark.parametrize(
    ("source", "kind", "becomes"),
    [
        ("x = a < b", "boundary", ["x = a <= b"]),
        ("x = a >= b", "boundary", ["x = a > b"]),
        ("x = (a) < (b)", "boundary", ["x = (a) <= (b)"]),
        ("x = a == b", "comparison", ["x = a != b"]),
        ("x = a is not b", "comparison", ["x = a is b"]),
        ("x = a in b", "comparison", ["x = a not in b"]),
        ("x = a and b and c", "logic", ["x = a or b and c", "x = a and b or c"]),
        ("x = not (a)", "logic", ["x =  (a)"]),
        ("if a: b = 1.5", "logic", ["if not (a): b = 1.5"]),
        ("x = 'ä', 7", "constant", ["x = 'ä', 8", "x = 'ä', 6"]),
        ("x = True", "constant", ["x = False"]),
        ("x = a + b", "arithmetic", ["x = a - b"]),
        ("x += y", "arithmetic", ["x -= y"]),
        ("x += y", "assignment", ["pass"]),
        ("x.y = z", "assignment", ["pass"]),
        ("del x[y]", "assignment", ["pass"]),
        ("f(x)", "call", ["pass"]),
        ("async def f(): await g()", "call", ["async def f(): pass"]),
        ("async def f(): await checkpoint()", "checkpoint", ["async def f(): pass"]),
        ("raise X", "jump", ["pass"]),
        ("try: x = y\nexcept X: raise", "jump", ["except X: pass"]),
        ("def f(): return", "jump", ["def f(): pass"]),
        ("def f() -> bool: return x", "result",
         ["def f() -> bool: return True", "def f() -> bool: return False"]),
        ("def f() -> X | None: return x", "result", ["def f() -> X | None: return None"]),
        ("try: x = y\nfinally: z.a = 0.5", "finally", ["finally: pass"]),
        ("try: x = y\nexcept X: z = 0.5", "except", ["except X: raise"]),
        ("with suppress(X): y = z", "except", ["with suppress(): y = z"]),
    ],
)  # fmt: skip
def test_each_kind_of_change(script, source, kind, becomes):
    """Every kind of change is found in its code, and in no other code."""
    assert kind in script.KINDS
    found = {new for what, new in changes(script, source) if what == kind}
    assert found == set(becomes)


@pytest.mark.parametrize(
    "source",
    [
        '"""A text."""',
        "def f(x: Literal[1]) -> X[2]: ...",
        "x = 'a' + b",
        "x = f'{1 + 1}'",
        "assert x == 1",
        "if TYPE_CHECKING: import x",
        "class P(Protocol): x = 1",
        "@overload\ndef f(x=1): ...",
        "while True: x = y",
        "class A:\n    def __init__(self): self.x = y",
        "x = 1  # pragma: no cover",
    ],
)
def test_code_that_is_not_changed(script, source):
    """Annotations, docstrings, and changes that always break are left alone."""
    assert changes(script, source) == set()


def test_a_mutant_is_its_module_with_one_change(script):
    """The rest of the text does not change, and the mutant names its place."""
    source = "a = b\nif a < c:  # why\n    d = e\n"
    [mutant] = [one for one in script.mutants("m.py", source) if one.kind == "boundary"]
    assert mutant.source == "a = b\nif a <= c:  # why\n    d = e\n"
    assert (mutant.file, mutant.line) == ("m.py", 2)
    assert (mutant.was, mutant.becomes) == ("if a < c:  # why", "if a <= c:  # why")


def test_the_seed_determines_the_mutants(script):
    """The same seed picks the same mutants, another seed others; each kind has its share."""
    found = script.candidates(["rsocket_trio/protocol"])
    picked = script.pick(found, 36, 7)
    assert picked == script.pick(found, 36, 7)
    assert picked != script.pick(found, 36, 8)
    assert len(set(picked)) == 36
    kinds = [mutant.kind for mutant in picked]
    there = {mutant.kind for mutant in found}
    assert all(kinds.count(kind) >= min(3, sum(m.kind == kind for m in found)) for kind in there)


@pytest.mark.seconds(3 * LONGEST)  # it makes all mutants of many files
def test_harmless_mutants_exist_and_have_a_reason(script):
    """An entry of tests/mutants.toml names a mutant that can be made."""
    entries = script.harmless()
    made = {
        file: {(one.was, one.becomes) for one in script.mutants(file, (ROOT / file).read_text())}
        for file in {entry["file"] for entry in entries}
    }
    for entry in entries:
        assert set(entry) == {"file", "was", "becomes", "why"}
        assert len(entry["why"]) > 20
        assert (entry["was"], entry["becomes"]) in made[entry["file"]], entry


def test_harmless_mutants_are_not_picked(script, monkeypatch):
    """A listed mutant is not a candidate."""
    found = script.candidates(["rsocket_trio/protocol/credit.py"])
    first = found[0]
    entry = {"file": first.file, "was": first.was, "becomes": first.becomes, "why": "for the test"}
    monkeypatch.setattr(script, "harmless", lambda: [entry])
    assert script.candidates(["rsocket_trio/protocol/credit.py"]) == found[1:]


def test_the_tests_of_a_value_that_is_made_while_a_module_is_imported(
    script, monkeypatch, tmp_path
):
    """A setting inside a call of several lines counts for the name that the call is for."""
    runs = sys.modules["mutant_runs"]
    monkeypatch.setattr(runs, "ROOT", tmp_path)
    file = tmp_path / "rsocket_trio/spool/m.py"
    file.parent.mkdir(parents=True)
    file.write_text("A = f(\n    b=1,\n)\ndef g(c=2):\n    return c\ndef h():\n    return A\n")
    reach = runs.Reach()
    reach.add({
        "lines": {"rsocket_trio/spool/m.py": {"5": ["t::g"], "7": ["t::h"]}},
        "seconds": {"t::g": 0.1, "t::h": 0.1},
        "programs": [],
        "failed": [],
    })  # fmt: skip

    def tests(line, was):
        return reach.tests(script.Mutant("rsocket_trio/spool/m.py", line, "constant", "", was, ""))

    assert set(tests(2, "b=1,")) == {"t::h"}
    assert set(tests(4, "def g(c=2):")) == {"t::g"}


def test_a_record_is_read_only_for_the_tree_that_it_is_of(script, monkeypatch, tmp_path):
    """Another package, test or choice of packages makes it stale."""
    runs = sys.modules["mutant_runs"]
    monkeypatch.setattr(runs, "ROOT", tmp_path)
    for name in ("rsocket_trio", "tests"):
        (tmp_path / name).mkdir()
    key, file = runs.tree_key(["spool"]), tmp_path / "record.json"
    reach = runs.Reach({"m.py": {3: {"t"}}}, {"t": 0.5}, {"p"}, {"x"})
    reach.save(file, key)
    assert runs.Reach.load(file, key) == reach
    (tmp_path / "tests/test_x.py").write_text("x = 1")
    for other in (runs.tree_key(["spool"]), runs.tree_key(["collector", "spool"])):
        with pytest.raises(SystemExit, match="another tree"):
            runs.Reach.load(file, other)


SOURCE = """LIMIT = 7
def f(a=1):
    if (LIMIT
            > a):
        g()

def g(): pass
"""


@pytest.mark.parametrize(
    ("line", "was", "found"),
    [
        (1, "LIMIT = 7", ["f", "n"]),
        (2, "def f(a=1):", ["f", "n", "g"]),
        (3, "if (LIMIT", ["f", "n"]),
        (4, "> a):", ["f", "n"]),
        (5, "g()", ["n", "g"]),
    ],
)
def test_the_tests_that_reach_a_change(script, monkeypatch, tmp_path, line, was, found):
    """They run a changed line or the one before it, use a changed name, or start programs.

    The nearest and the quickest run first. One that fails without the change says nothing.
    """
    runs = sys.modules["mutant_runs"]
    monkeypatch.setattr(runs, "ROOT", tmp_path)
    file = tmp_path / "rsocket_trio/spool/m.py"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    test = {
        "f": "tests/spool/test_m.py::f",
        "n": "tests/cli/test_n.py::n",
        "g": "tests/cli/test_n.py::g",
        "p": "tests/spool/test_m.py::p",
        "o": "tests/cli/test_n.py::o",
        "x": "tests/spool/test_m.py::x",
    }
    reach = runs.Reach()
    reach.add({
        "lines": {
            "rsocket_trio/spool/m.py": {
                "1": [""],
                "3": [test["f"], test["n"], test["x"]],
                "5": [test["n"], test["g"]],
                "7": [test["o"]],
            }
        },
        "seconds": {test["n"]: 0.1, test["f"]: 0.2, test["g"]: 0.3, test["p"]: 5},
        "programs": [test["p"], test["o"]],
        "failed": [test["x"]],
    })  # fmt: skip
    mutant = script.Mutant("rsocket_trio/spool/m.py", line, "logic", "", was, "")
    assert reach.tests(mutant) == [test[name] for name in [*found, "p"]]
    assert (reach.limit([test["n"]]), reach.limit([test["p"]])) == (20, 50)


def test_only_a_test_that_fails_alone_too_is_a_catch(script, monkeypatch):
    """On a busy machine a test may fail or hang once; a survivor must not count as caught then."""
    runs = sys.modules["mutant_runs"]
    copy = object.__new__(runs.Copy)
    x, y, z = (f"tests/a.py::test_{name}" for name in "xyz")
    answers = {
        (x, y): {"status": 1, "by": x, "hung": True},
        (x,): {"status": 0},
        (y,): {"status": 1, "by": y, "hung": False},
        (z,): {"status": 2, "output": "1 error in 0.2s\n"},
    }
    monkeypatch.setattr(runs.Copy, "ask", lambda self, tests, **request: answers[tuple(tests)])
    assert copy.failure([x, y], runs.Reach()) == ("caught", y)
    assert copy.failure([x], runs.Reach()) is None
    assert copy.failure([z], runs.Reach()) == ("caught", "1 error in 0.2s")
