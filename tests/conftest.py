"""For all tests: their markers, time limits, Ctrl-C in programs, counted copies."""

import signal
import sys
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from rsocket_trio import log_policy
from tests import time_limit
from tests.time_limit import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]

PARTS = {
    "chaos": [
        "connection/test_resume_cuts.py",
        "hostile",
        "protocol/test_two_peers.py",
        "reactivesocket/test_any_frames.py",
        "reactivesocket/test_cancel_everywhere.py",
        "spark/rsocket_source/test_cancel.py",
        "spool/test_cancel.py",
        "test_any_frames.py",
        "test_cancel_bodies.py",
        "test_cancel_everywhere.py",
        "test_cancellation.py",
        "test_coming_and_going.py",
        "transports/test_conformance.py",
        "ttrpc/test_any_frames.py",
        "ttrpc/test_cancel_everywhere.py",
        "ttrpc/test_memory.py",
    ],
    "programs": [
        "docs/test_code_blocks.py",
        "examples",
        "lumberjack/log_handler/test_processes.py",
        "collector/test_kill.py",
        "spool/test_kill.py",
        "spool/test_limited_file.py",
        "spool/test_processes.py",
        "test_benchmarks.py",
        "test_benchmarks_lumberjack.py",
        "test_benchmarks_spark.py",
        "test_large_payloads.py",
        "testing/test_pytest_plugin.py",
    ],
}
"""Markers, and the folders and files whose tests have them; pyproject.toml explains them.

All other tests run in less than a second each, in the process of the suite.
"""

OF_PROGRAMS = {"program", "server", "shell", "spark", "start_cli"}
"""The fixtures that start a program."""

OF_SPARK = {"application", "spark"}
"""The fixtures that start Spark."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Measure the coverage of the workers only.

    Their main process runs no test, and all workers wait for it.
    """
    if "coverage" in sys.modules:
        measured = sys.modules["coverage"].Coverage.current()
        if measured is not None:
            measured.stop()


@cache
def marks_of(file: Path) -> frozenset[str]:
    """The markers in `PARTS` of all tests in a file."""
    places = {file, *file.parents}
    here = Path(__file__).parent
    return frozenset(
        mark for mark, paths in PARTS.items() if not places.isdisjoint(here / p for p in paths)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests before some are selected by their markers."""
    time_limit.limit(items)
    for item in items:
        found = {*marks_of(item.path)}
        fixtures = getattr(item, "fixturenames", ())
        if OF_PROGRAMS.intersection(fixtures):
            found.add("programs")
        if OF_SPARK.intersection(fixtures):
            found.add("jvm")
        for mark in found:
            item.add_marker(mark)


# No deadline for an example: its time depends on the load of the machine. The limit on the whole
# test finds examples that hang.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def control_c_works():
    """A shell starts background programs with SIGINT ignored, and their children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def log_complaints(monkeypatch):
    """What the log could not write: a fault of its line, unless a test says otherwise."""
    complaints = []
    monkeypatch.setattr(log_policy, "_complain", complaints.append)
    yield complaints
    assert not complaints


class CountedBytes(bytes):
    """Bytes that count the bytes that are copied when they are cut or joined with ``+``.

    Their parts and joins count too.
    """

    copied = 0

    def __getitem__(self, index):
        part = super().__getitem__(index)
        return self._counted(part) if isinstance(index, slice) else part

    def __add__(self, other):
        return self._counted(bytes(self) + bytes(other))

    def __radd__(self, other):
        if isinstance(other, bytearray):
            return NotImplemented  # It grows in place with ``+=``.
        return self._counted(bytes(other) + bytes(self))

    def _counted(self, part):
        type(self).copied += len(part)
        return type(self)(part)


@pytest.fixture
def counted_bytes():
    """A class of bytes whose ``copied`` is the number of copied bytes, to check for linear time."""

    class Fresh(CountedBytes):
        pass

    return Fresh
