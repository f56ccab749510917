"""Runs pytest in forks of a process that has imported already what takes long.

It is started in a copy of the tree by scripts/mutant_runs.py. Each line of its standard input asks
for a run, and each line of its output is the result of one, in JSON. A run reads the modules that
it does not find imported from the copy, so also the changed one.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import coverage
import pytest

ALWAYS: Final = (
    "attrs",
    "cbor2",
    "cryptography.x509",
    "execnet",
    "hypothesis.stateful",
    "msgspec",
    "pytest_trio",
    "trio.testing",
    "trustme",
)
"""Modules of others that most tests import."""

MOST_MEMORY: Final = 4 * 2**30
"""Limit of the address space of a run, in bytes, because a mutant may fill a list forever."""

LONGEST_RUN: Final = 1800
"""Time limit for one run, in seconds."""


class Chosen:
    """Runs some tests only, in the given order, and tells which one runs and which one fails."""

    def __init__(self, tests: Sequence[str], tell: Any) -> None:
        self._rank = {test: rank for rank, test in enumerate(tests)}
        self._tell = tell

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests."""
        found = [item for item in items if item.nodeid in self._rank]
        items[:] = sorted(found, key=lambda item: self._rank[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell what runs: if it hangs, nothing is told later."""
        self._tell(by=nodeid, hung=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell what fails."""
        if report.failed:
            self._tell(by=report.nodeid, hung="the test hangs" in report.longreprtext)


class Recorder:
    """Records which test reaches which lines and how long it takes, or which tests there are.

    Args:
        packages: The packages whose lines are recorded.
        path: The file for the record.
    """

    def __init__(self, packages: Sequence[str], path: Path) -> None:
        self._coverage = coverage.Coverage(None, source_pkgs=list(packages), config_file=False)
        self._path = path
        self._seconds: dict[str, float] = {}
        self._programs: set[str] = set()
        self._failed: set[str] = set()
        self._coverage.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record the tests that are not run."""
        if session.config.option.collectonly:
            self._programs.update(item.nodeid for item in session.items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record a test."""
        self._coverage.switch_context(item.nodeid)
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.monotonic() - began
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record that a test fails without a change, so it cannot notice one."""
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        """Write the record."""
        self._coverage.stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # These tests may reach only some of the packages.
            data = self._coverage.get_data()
        lines = {
            os.path.relpath(file): data.contexts_by_lineno(file) for file in data.measured_files()
        }
        record = {
            "lines": lines,
            "seconds": self._seconds,
            "programs": sorted(self._programs),
            "failed": sorted(self._failed),
        }
        self._path.write_text(json.dumps(record))


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run pytest in a fork, and return the last that it told, and its exit status."""
    told, output = Path("mutant-told.json"), Path("mutant-output.txt")
    told.write_text("{}")
    pid = os.fork()
    if not pid:
        status = 3  # an error in pytest, or in a plugin
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number, opened in enumerate((os.open(os.devnull, os.O_RDONLY), sink, sink)):
                os.dup2(opened, number)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            os.environ["TEST_SECONDS"] = str(request["seconds"])
            plugins: list[object] = []
            if tests := request.get("tests"):
                plugins.append(Chosen(tests, lambda **what: told.write_text(json.dumps(what))))
            if packages := request.get("packages"):
                plugins.append(Recorder(packages, Path(request["record"])))
            status = int(pytest.main(_options(request), plugins))
        except BaseException:  # of any kind: a fork must not go on as the process that it was
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    ends = time.monotonic() + LONGEST_RUN
    try:
        while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < ends:
            time.sleep(0.01)
    finally:
        # Processes that a test started must not outlive it.
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    if not ended[0]:
        os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(ended[1]) if ended[0] else None
    text = output.read_text(errors="replace")[-4000:]
    return {"status": code, "output": text, **json.loads(told.read_text() or "{}")}


def _options(request: dict[str, Any]) -> list[str]:
    return [
        *("-q", "--no-header", "-p", "no:cacheprovider"),
        "--basetemp=tmp",  # Runs at the same time would clean up in one directory.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of what is imported already
        *("-o", f"faulthandler_timeout={request['seconds'] + 10}"),
        *request["arguments"],
    ]


def main() -> None:
    """Answer requests until there are no more."""
    sys.argv[1:], modules = [], sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    for name in (*ALWAYS, *modules):
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
