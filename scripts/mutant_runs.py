"""Run the tests against mutants: each mutant in a copy of the tree, its nearest tests first."""

from __future__ import annotations

import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutations import Mutant

__all__ = ["Outcome", "check_unchanged", "stages", "try_all"]

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

SHARED: Final = ("-n", "2", "--dist", "worksteal")
"""Options of pytest for the long stages: their tests wait half of the time."""

IN_THE_COPY: Final = (PACKAGE, "tests", "scripts", "examples", "docs", "benchmarks")
NOT_IN_THE_COPY: Final = ("node_modules", "target", "_build", "__pycache__", ".hypothesis")
FILES_IN_THE_COPY: Final = ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile")

MOST_MEMORY: Final = 4 * 2**30
"""Limit of the address space of a run, in bytes, because a mutant may fill a list forever."""

_PASSED: Final = (0, 5)
"""Exit statuses of pytest: all tests passed, or there are none."""

LONGEST_TEST: Final = 120
"""Time limit for one test, in seconds: several times what the slowest takes on a busy machine."""

LONGEST_STAGE: Final = 1800
"""Time limit for the tests of one stage, in seconds. A longer stage counts as hung."""

USERS: Final = {
    "logfiles": ("cli",),
    "lumberjack": ("logfiles", "collector", "cli"),
    "spool": ("collector", "cli", "spark"),
    "collector": ("cli", "spark"),
}
"""The folders of tests that also run a package which the engine of connections does not import."""

# `make test` does not run the tests of bad days either; Spark starts too slowly for every mutant.
_QUICK: Final = ("-m", "not (chaos or programs or bad_days or jvm)")
_SLOW: Final = ("-m", "(chaos or programs) and not (bad_days or jvm)")
_ALL: Final = ("-m", "not (bad_days or jvm)")


@dataclass(frozen=True)
class Outcome:
    """The result for a mutant: ``caught``, ``hung`` (which counts as caught), or ``survived``."""

    mutant: Mutant
    verdict: str
    by: str
    seconds: float


def stages(file: str, kind: str = "", root: Path = ROOT) -> list[list[str]]:
    """Return the tests for a module, nearest first. A stage is a list of arguments for pytest.

    Args:
        file: The path of the module in the checkout.
        kind: The kind of the change; a few tests are there for one kind.
        root: The tree with the tests.
    """
    _, package, *rest = Path(file).parts
    *folders, module = rest or [package]
    tests = root / "tests" / package
    names = {f"test_{module}", "_".join(["test", *folders, module])}
    near = sorted(path for name in names for path in tests.rglob(name))
    if kind == "checkpoint":
        near.append(root / "tests/test_checkpoints.py")
    done = [str(path.relative_to(root)) for path in near]
    folder = [f"tests/{package}", *(f"--ignore={path}" for path in done)]
    at = ("tests",) if package in USERS else ("tests/rules", "tests")
    top = [path for name in at for path in sorted((root / name).glob("test_*.py"))]
    # The draft shares the engine, and has transports with other abilities.
    users = USERS.get(package, ("connection", "interactions", "reactivesocket"))
    hostile = [] if package in USERS else ["tests/hostile", "tests/testing"]
    return [
        *([[*done]] if done else []),
        [*SHARED, *_QUICK, *folder],
        [*SHARED, *_SLOW, *folder],
        [*SHARED, *(str(path.relative_to(root)) for path in top if _runs(path, near))],
        [*SHARED, *(f"tests/{name}" for name in users if name != package)],
        *([[*SHARED, *hostile]] if hostile else []),
    ]


def _runs(path: Path, near: Sequence[Path]) -> bool:
    return path.stem not in NO_BEHAVIOUR and path not in near


class Copy:
    """A copy of the tree, in which mutants are tried one after another."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        for name in IN_THE_COPY:
            shutil.copytree(
                ROOT / name, directory / name, ignore=shutil.ignore_patterns(*NOT_IN_THE_COPY)
            )
        for name in FILES_IN_THE_COPY:
            shutil.copy(ROOT / name, directory / name)

    def run(self, arguments: Sequence[str]) -> tuple[int | None, str]:
        """Run pytest. Return its exit status, or ``None`` if it took too long, and its output."""
        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", *_ALL]
        limits = [f"faulthandler_timeout={LONGEST_TEST + 10}", "faulthandler_exit_on_timeout=true"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options]
            + [part for limit in limits for part in ("-o", limit)]
            + list(arguments),
            cwd=self._root,
            env=os.environ
            | {
                "PYTHONPATH": str(self._root),
                "TEST_SECONDS": str(LONGEST_TEST),
                "INTEROP": "",
                # Every run imports the same modules, which it would compile again each time.
                "PYTHONDONTWRITEBYTECODE": "",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_limit_memory,
        )
        try:
            output, _ = process.communicate(timeout=LONGEST_STAGE)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            # Processes that a test started must not outlive it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode, output

    def judge(self, mutant: Mutant) -> Outcome:
        """Try a mutant, and restore the module."""
        began = time.monotonic()
        verdict, by = "survived", ""
        # From the copy: the checkout may have changed since.
        unchanged = (self._root / mutant.file).read_text()
        self._write(mutant.file, mutant.source)
        try:
            for arguments in stages(mutant.file, mutant.kind, self._root):
                if failure := self.failure(arguments):
                    verdict, by = failure
                    break
        finally:
            self._write(mutant.file, unchanged)
        return Outcome(mutant, verdict, by, time.monotonic() - began)

    def failure(self, arguments: Sequence[str]) -> tuple[str, str] | None:
        """Run a stage. Return how it fails, and its test that also fails alone.

        A test that fails once on a busy machine, or takes too long there, is no sign of a fault.
        """
        doubtful: list[str] = []
        while True:
            status, output = self.run([*arguments, *(f"--deselect={test}" for test in doubtful)])
            if status in _PASSED:
                return None
            by = _first_failure(output)
            status, output = self.run([by] if "::" in by else arguments)
            if status not in _PASSED:
                hangs = status is None or re.search(r"Timeout \(|the test hangs", output)
                return ("hung" if hangs else "caught"), by
            doubtful.append(by)

    def _write(self, file: str, source: str) -> None:
        path = self._root / file
        path.write_text(source)
        # Python compares size and whole seconds to find stale .pyc files; that is too coarse here.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _first_failure(output: str) -> str:
    """Return the first test that failed, without its parameters, or the last line of ``output``."""
    if failed := re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", output, re.MULTILINE):
        return failed[1]
    if running := re.search(r'File ".*/(tests/\S+)", line (\d+) in (test_\w+)', output):
        return f"{running[1]}::{running[3]}"
    return output.strip().splitlines()[-1] if output.strip() else ""


def try_all(picked: Sequence[Mutant], jobs: int) -> Iterator[Outcome]:
    """Try mutants in ``jobs`` copies at the same time, and yield the outcomes as they arrive."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Copy(Path(directory) / str(number)))

        def judge(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                return copy.judge(mutant)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(judge, mutant) for mutant in picked]
            try:
                for done in as_completed(running):
                    yield done.result()
            except BaseException:  # Ctrl-C too must not wait for the remaining mutants
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def check_unchanged(paths: Sequence[str], jobs: int) -> None:
    """Check that every stage passes without a change. Else all mutants would seem caught."""
    every = {tuple(stage) for path in paths for stage in stages(f"{path}/__init__.py")}
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copies = [Copy(Path(directory) / str(number)) for number in range(jobs)]
        with ThreadPoolExecutor(jobs) as pool:
            todo = sorted(every)
            shares = [todo[number::jobs] for number in range(jobs)]
            runs = [
                pool.submit(lambda copy, share: [copy.run(s) for s in share], copy, share)
                for copy, share in zip(copies, shares, strict=True)
            ]
            for run in runs:
                for status, output in run.result():
                    if status not in _PASSED:
                        print(output)
                        sys.exit("mutants.py: the tests fail without a change")
