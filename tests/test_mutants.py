"""The mutation testing script: the changes it makes, selects, and lists as harmless."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("kind", ["call", "checkpoint"])
def test_the_nearest_tests_run_first(script, kind):
    """The stages begin with the tests of the module, and for checkpoints with theirs."""
    runs = sys.modules["mutant_runs"]
    first, quick, slow, rules, *_ = runs.stages("rsocket_trio/protocol/credit.py", kind)
    own = ["tests/protocol/test_credit.py"]
    assert first == own + ["tests/test_checkpoints.py"] * (kind == "checkpoint")
    for folder in quick, slow:
        assert "tests/protocol" in folder
        assert "--ignore=tests/protocol/test_credit.py" in folder
    assert "tests/test_server.py" in rules
    assert ("tests/test_checkpoints.py" in rules) == (kind == "call")
    assert "tests/test_mutants.py" not in rules


def test_the_tests_of_users_run_last(script):
    """Packages that connections do not import have other tests: those of the programs with them."""
    runs = sys.modules["mutant_runs"]
    first, quick, *_, users = runs.stages("rsocket_trio/lumberjack/client/forming.py")
    assert first == ["tests/lumberjack/test_client_forming.py"]
    assert "tests/lumberjack" in quick
    assert users[-3:] == ["tests/logfiles", "tests/collector", "tests/cli"]


def test_only_a_test_that_fails_alone_too_is_a_catch(script, monkeypatch):
    """On a busy machine a test may fail or hang once; a survivor must not count as caught then."""
    runs = sys.modules["mutant_runs"]
    copy = object.__new__(runs.Copy)
    answers = {
        ("stage",): (1, "FAILED tests/a.py::test_x[a b] - Failed: the test hangs"),
        ("tests/a.py::test_x",): (0, ""),
        ("stage", "--deselect=tests/a.py::test_x"): (1, "FAILED tests/a.py::test_y"),
        ("tests/a.py::test_y",): (1, "FAILED tests/a.py::test_y"),
        ("quiet",): (5, ""),
    }
    monkeypatch.setattr(runs.Copy, "run", lambda self, arguments: answers[tuple(arguments)])
    assert copy.failure(["stage"]) == ("caught", "tests/a.py::test_y")
    assert copy.failure(["quiet"]) is None
