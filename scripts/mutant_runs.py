"""Run the tests against mutants: each mutant in a copy of the tree, by the tests that reach it."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from mutations import Mutant

__all__ = ["Copies", "Outcome", "Reach", "tree_key"]

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = "rsocket_trio"

NO_BEHAVIOUR: Final = (
    "test_benchmarks",
    "test_benchmarks_lumberjack",
    "test_benchmarks_spark",
    "test_conformance",
    "test_docstrings",
    "test_exports",
    "test_layers",
    "test_maps",
    "test_mutants",
    "test_smoke",
    "test_tested_modules",
)
"""Tests in tests/ and tests/rules that do not run the package, but read its source or measure."""

IN_THE_COPY: Final = (PACKAGE, "tests", "scripts", "examples", "docs", "benchmarks")
NOT_IN_THE_COPY: Final = ("node_modules", "target", "_build", "__pycache__", ".hypothesis")
FILES_IN_THE_COPY: Final = (
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "Makefile",
    "rsocket_trio_tck_plugin.py",
)

SHORTEST_LIMIT: Final = 20.0
LONGEST_LIMIT: Final = 120.0
"""A test hangs if it takes ten times as long as without a change, and so many seconds at least. The
second limit is for tests that were never measured: several times what the slowest takes."""

USERS: Final = {
    "logfiles": ("cli",),
    "lumberjack": ("logfiles", "collector", "cli"),
    "spool": ("collector", "cli"),
    "collector": ("cli",),
}
"""The folders of tests that also run a package which the engine of connections does not import."""

FIRST: Final = 30
"""Tests that run first. Most mutants are caught by them, and their few files are imported soon."""

# `make test` does not run the tests of bad days either; Spark starts too slowly for every mutant.
_QUICK: Final = ("-m", "not (chaos or programs or bad_days or jvm)")
_SLOW: Final = ("--collect-only", "-m", "(chaos or programs) and not (bad_days or jvm)")


@dataclass(frozen=True)
class Outcome:
    """The result for a mutant: ``caught``, ``hung`` (which counts as caught), or ``survived``."""

    mutant: Mutant
    verdict: str
    by: str
    seconds: float


def tests_of(package: str) -> list[Path]:
    """Return the files and folders with the tests of a package: its own, and those of its users."""
    tests = ROOT / "tests"
    if package in USERS:
        folders, top = USERS[package], []
    else:
        # The draft shares the engine, and has transports with other abilities.
        folders = ("connection", "interactions", "reactivesocket", "hostile", "testing")
        top = sorted(tests.glob("rules/test_*.py"))
    return [
        *(tests / name for name in dict.fromkeys([package, *folders])),
        *(
            path
            for path in [*top, *sorted(tests.glob("test_*.py"))]
            if path.stem not in NO_BEHAVIOUR
        ),
    ]


@dataclass
class Reach:
    """What the tests do without a change: see `mutant_worker.Recorder`.

    Attributes:
        lines: The tests that reach a line, by file and line.
        seconds: How long each test takes.
        programs: Tests that start programs, or cancel everywhere: they may reach any line, and take
            so long that they are not run without a change.
        failed: Tests that fail without a change: they notice nothing.
    """

    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    programs: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    def add(self, record: dict[str, Any]) -> None:
        """Add a record."""
        for file, lines in record["lines"].items():
            mine = self.lines.setdefault(file, defaultdict(set))
            for line, tests in lines.items():
                mine[int(line)].update(filter(None, tests))  # no name: while modules are imported
        self.seconds |= record["seconds"]
        self.programs.update(record["programs"])
        self.failed.update(record["failed"])

    def save(self, path: Path, key: str) -> None:
        """Write everything to a file, for `load`."""
        lines = {
            file: {line: sorted(tests) for line, tests in lines.items()}
            for file, lines in self.lines.items()
        }
        whole = {"lines": lines, "seconds": self.seconds}
        whole |= {"programs": sorted(self.programs), "failed": sorted(self.failed)}
        path.write_text(json.dumps({"key": key, "reach": whole}))

    @classmethod
    def load(cls, path: Path, key: str) -> Self:
        """Read a file of `save`. What was recorded of other code or tests ends the program."""
        found = json.loads(path.read_text())
        if found["key"] != key:
            sys.exit(f"mutants.py: {path} is about another tree or other packages: remove it")
        reach = cls()
        reach.add(found["reach"])
        return reach

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a mutant, in the order in which they are run."""
        _, package, *_ = Path(mutant.file).parts
        folder, stem = f"tests/{package}/", Path(mutant.file).stem
        found = self._reaching(mutant)
        found |= {test for test in self.programs if test.startswith(folder)}

        def rank(test: str) -> tuple[bool, bool, float]:
            seconds = self.seconds.get(test, LONGEST_LIMIT)
            near = re.search(rf"test_(\w+_)?{stem}\.py", test)
            return seconds > 1, not near, seconds

        return sorted(found - self.failed, key=rank)

    def limit(self, tests: Iterable[str]) -> float:
        """Return how many seconds one of these tests may take."""
        slowest = max((self.seconds.get(test, LONGEST_LIMIT) for test in tests), default=0)
        return min(max(10 * slowest, SHORTEST_LIMIT), LONGEST_LIMIT)

    def _reaching(self, mutant: Mutant) -> set[str]:
        reached = self.lines.get(mutant.file, {})
        tree = ast.parse((ROOT / mutant.file).read_text())
        last = mutant.line + mutant.was.count("\n")
        inner = _inner(tree, mutant.line)
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            start, end = inner.body[0].lineno, inner.end_lineno or last
            if mutant.line < start:  # a default value
                return _union(reached, range(start, end + 1))
            # Some lines of a statement never count as reached: then those before it do.
            found = _union(reached, range(mutant.line, last + 1))
            for line in range(mutant.line - 1, start - 1, -1):
                found = found or _union(reached, [line])
            return found
        # It is evaluated while the module is imported: its effect is where its name is, or in what
        # is held of all settings, all messages, ...
        kind = Path(mutant.file).stem.rpartition("_")[2]
        held = rf"test_(\w+_)?(config|{kind})\.py"
        found = {test for test in self.seconds if re.search(held, test)}
        by_name: set[str] = set()
        if name := _name(tree, mutant.line):
            for file in (ROOT / mutant.file).parent.rglob("*.py"):
                lines = enumerate(file.read_text().splitlines(), 1)
                named = [line for line, text in lines if re.search(rf"\b{name}\b", text)]
                by_name |= _union(self.lines.get(str(file.relative_to(ROOT)), {}), named)
        # Without a name, or with one that only such lines have, any test may notice it.
        return found | (by_name or _union(reached, reached) or set(self.seconds))


def tree_key(packages: Iterable[str]) -> str:
    """Return what a record depends on, as a hash: the package, the tests, and what is recorded."""
    found = hashlib.sha256(" ".join(sorted(packages)).encode())
    for name in (PACKAGE, "tests"):
        for file in sorted((ROOT / name).rglob("*.py")):
            found.update(f"\0{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def _union(reached: dict[int, set[str]], lines: Collection[int]) -> set[str]:
    return {test for line in lines for test in reached.get(line, ())}


def _inner(tree: ast.Module, line: int) -> ast.AST:
    """Return the innermost function with a line; if there is none, the module."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, functions) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=tree)


def _name(tree: ast.Module, line: int) -> str | None:
    """Return the name that gets its value at a line, outside of functions."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around:
        return None
    inner = max(around, key=lambda node: node.lineno)
    target = inner.target if isinstance(inner, ast.AnnAssign) else inner.targets[0]
    return target.id if isinstance(target, ast.Name) else None


class Copy:
    """A copy of the tree, in which mutants are tried one after another."""

    def __init__(self, directory: Path, modules: Sequence[str]) -> None:
        self._root = directory
        for name in IN_THE_COPY:
            shutil.copytree(
                ROOT / name, directory / name, ignore=shutil.ignore_patterns(*NOT_IN_THE_COPY)
            )
        for name in FILES_IN_THE_COPY:
            shutil.copy(ROOT / name, directory / name)
        self._worker = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "mutant_worker.py"), *modules],
            cwd=directory,
            # Every run imports the same modules, which it would compile again each time.
            env=os.environ
            | {"PYTHONPATH": str(directory), "INTEROP": "", "PYTHONDONTWRITEBYTECODE": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the worker."""
        self._worker.terminate()
        self._worker.wait()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Run pytest; see `mutant_worker`."""
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        print(json.dumps(request), file=self._worker.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._worker.stdout.readline())
        if answer["status"] == 4:  # how pytest was called
            sys.exit(f"mutants.py: {answer['output']}")
        return answer

    def record(
        self, packages: Sequence[str], options: Sequence[str], files: Sequence[Path]
    ) -> dict[str, Any]:
        """Run tests without a change, or only collect them, and return the record."""
        record = self._root / "mutant-record.json"
        answer = self.ask(
            arguments=[*options, *(str(file.relative_to(ROOT)) for file in files)],
            packages=packages,
            record=str(record),
            seconds=LONGEST_LIMIT,
        )
        if answer["status"] not in {0, 1, 5}:  # Tests may fail, and there may be none.
            sys.exit(f"mutants.py: pytest has failed:\n{answer['output']}")
        found: dict[str, Any] = json.loads(record.read_text())
        return found

    def judge(self, mutant: Mutant, reach: Reach) -> Outcome:
        """Try a mutant, and restore the module."""
        began = time.monotonic()
        tests = reach.tests(mutant)
        # From the copy: the checkout may have changed since.
        unchanged = (self._root / mutant.file).read_text()
        self._write(mutant.file, mutant.source)
        try:
            verdict, by = (
                self.failure(tests[:FIRST], reach)
                or self.failure(tests[FIRST:], reach)
                or ("survived", f"{len(tests)} tests")
            )
        finally:
            self._write(mutant.file, unchanged)
        if by in reach.programs and self._first([by], reach):  # It fails without a change, too.
            reach.failed.add(by)
            return self.judge(mutant, reach)
        return Outcome(mutant, verdict, by, time.monotonic() - began)

    def failure(self, tests: list[str], reach: Reach) -> tuple[str, str] | None:
        """Run tests. Return how they fail, and the test that also fails alone.

        A test that fails once on a busy machine, or takes too long there, is no sign of a fault.
        """
        while tests and (first := self._first(tests, reach)):
            by = first[1]
            if by not in tests:  # no test runs, perhaps because the module cannot be imported
                return self._first(tests, reach)
            if again := self._first([by], reach):
                return again
            tests = [test for test in tests if test != by]
        return None

    def _first(self, tests: list[str], reach: Reach) -> tuple[str, str] | None:
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        answer = self.ask(arguments=["-x", *files], tests=tests, seconds=reach.limit(tests))
        if answer["status"] in {0, 5}:  # all tests passed, or there are none
            return None
        hung = answer["status"] is None or answer.get("hung")
        return ("hung" if hung else "caught"), answer.get("by") or _last_line(answer["output"])

    def _write(self, file: str, source: str) -> None:
        path = self._root / file
        path.write_text(source)
        # Python compares size and whole seconds to find stale .pyc files; that is too coarse here.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or [""])[-1]


def _files(paths: Iterable[Path]) -> list[Path]:
    found = {
        file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])
    }
    return sorted(found)


class Copies:
    """Copies of the tree, in which mutants of some packages are tried at the same time.

    Args:
        packages: The names of the packages.
        jobs: How many copies.
    """

    def __init__(self, packages: Sequence[str], jobs: int) -> None:
        self._packages = packages
        self._directory = tempfile.TemporaryDirectory(prefix="mutants-")
        # Only what does not import the changed modules may be imported already.
        modules = [f"{PACKAGE}.transports", f"{PACKAGE}.testing", f"{PACKAGE}.rsio"]
        modules *= USERS.keys() >= set(packages)
        self._copies = [
            Copy(Path(self._directory.name) / str(number), modules) for number in range(jobs)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for copy in self._copies:
            copy.close()
        self._directory.cleanup()

    def record(self) -> Reach:
        """Run the tests of the packages without a change, except those that take long."""
        all_of = {path for package in self._packages for path in tests_of(package)}
        names = [f"{PACKAGE}.{package}" for package in self._packages]
        files = _files(all_of)
        # In small parts, so that all copies end at the same time.
        parts: list[tuple[Sequence[str], list[Path]]]
        parts = [(_QUICK, files[at::8]) for at in range(8)]
        parts.append((_SLOW, _files(ROOT / "tests" / package for package in self._packages)))
        reach = Reach()
        for record in self._run(lambda copy, part: copy.record(names, *part), parts):
            reach.add(record)
        return reach

    def judge(self, picked: Sequence[Mutant], reach: Reach) -> Iterator[Outcome]:
        """Try mutants, and yield the outcomes as they arrive."""
        return self._run(lambda copy, mutant: copy.judge(mutant, reach), picked)

    def _run(self, function: Any, arguments: Iterable[Any]) -> Iterator[Any]:
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in self._copies:
            free.put(copy)

        def run(argument: Any) -> Any:
            copy = free.get()
            try:
                return function(copy, argument)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(len(self._copies)) as pool:
            running = [pool.submit(run, argument) for argument in arguments]
            try:
                for done in as_completed(running):
                    yield done.result()
            except BaseException:  # Ctrl-C too must not wait for the remaining ones
                pool.shutdown(wait=False, cancel_futures=True)
                raise
