"""For all tests: their markers, time limits, Ctrl-C in programs, counted copies."""

import gc
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from rsocket_trio import log_policy
from tests import time_limit
from tests.time_limit import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]

PARTS = {
    "chaos": frozenset({
        "connection/test_resume_cuts.py",
        "hostile",
        "protocol/test_two_peers.py",
        "reactivesocket/test_any_frames.py",
        "reactivesocket/test_cancel_everywhere.py",
        "rsio/test_cancel_everywhere.py",
        "spark/rsocket_source/test_cancel.py",
        "spool/test_cancel.py",
        "test_any_frames.py",
        "test_any_middleware.py",
        "test_cancel_bodies.py",
        "test_cancel_everywhere.py",
        "test_cancellation.py",
        "test_coming_and_going.py",
        "transports/test_conformance.py",
        "ttrpc/test_any_frames.py",
        "ttrpc/test_cancel_everywhere.py",
        "ttrpc/test_memory.py",
    }),
    "programs": frozenset({
        "cli/test_hostile_texts.py",
        "collector/test_kill.py",
        "docs/test_code_blocks.py",
        "examples",
        "logfiles/test_machine_programs.py",
        "lumberjack/log_handler/test_machine.py",
        "lumberjack/log_handler/test_processes.py",
        "spool/test_kill.py",
        "spool/test_limited_file.py",
        "spool/test_processes.py",
        "test_benchmarks.py",
        "test_benchmarks_lumberjack.py",
        "test_benchmarks_rsio.py",
        "test_benchmarks_spark.py",
        "test_benchmarks_ttrpc.py",
        "test_large_payloads.py",
        "reactive_streams/tck/test_plugin.py",
        "testing/test_pytest_plugin.py",
    }),
}  # fmt: skip
"""Markers, and the folders and files whose tests have them; pyproject.toml explains them.

All other tests run in less than a second each, in the process of the suite.
"""

ALONE = {"bad_days", "jvm"}
"""Markers of tests that run one by one, never traced for coverage."""

SLOW = {"chaos", "interop", "programs"}
"""Markers of tests that are not traced either: quick tests reach the same lines."""

TRACED = frozenset({
    "cli",
    "test_any_middleware.py::test_known_chains",
    "test_any_middleware.py::test_known_mischief",
    "testing",
    "transports/test_conformance.py",
    "workers",
})  # fmt: skip
"""Folders, files and tests that coverage needs nevertheless: `SLOW` does not count for them."""

UNTRACED = frozenset({
    "cli/test_event_lines.py::test_all_characters",
    "cli/test_standard_streams.py",
    "collector/test_stalled_readers.py",
    "connection/test_idle_memory.py",
    "connection/test_room.py::test_thousands_leave_the_queue_last_first",
    "connection/test_signs_of_life.py::test_two_ends_that_send_more_than_they_read",
    "interactions/test_frames_in_cycles.py",
    "interactions/test_request_channel.py::test_items_keep_their_order_both_ways",
    "lumberjack/log_handler/test_json_text.py::test_any_event",
    "lumberjack/test_any_bytes.py",
    "lumberjack/test_client_any_server.py",
    "lumberjack/test_client_backlog.py",
    "routing/test_odd_exceptions.py::test_only_its_own_stream_ends",
    "rules/test_fragmentation.py",
    "rules/test_frame_rules_cells.py",
    "rules/test_legality_cells.py",
    "spark/test_demand.py",
    "spark/rsocket_source/test_replay.py::test_any_bytes_are_read_or_refused",
    "spark/sinks/receiving/test_arrow_rows.py::test_messages_are_limited",
    "spark/sinks/receiving/test_model.py",
    "spark/sinks/receiving/test_receiver.py::test_small_rows_in_memory_cost_what_the_limits_count",
    "test_fair_turns.py",
    "test_mutants.py",
    "test_structured_concurrency.py",
})  # fmt: skip
"""Folders, files and tests that coverage does without.

They run the same lines thousands of times, which takes three times as long if it is traced, and
reach no more than a few lines that others do not.
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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Keep what the collection made, 17,000 tests, out of the collector's sight.

    It would go through all of them again and again, and once more in each test that calls it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@cache
def places_of(file: Path) -> tuple[str, frozenset[str]]:
    """A file below this folder, and the same with all its folders."""
    found = file.relative_to(Path(__file__).parent)
    return found.as_posix(), frozenset(each.as_posix() for each in (found, *found.parents))


def is_in(file: Path, test: str, paths: frozenset[str]) -> bool:
    """Whether a test is one of these folders, files and tests."""
    name, places = places_of(file)
    return not places.isdisjoint(paths) or f"{name}::{test}" in paths


def marks_of(item: pytest.Item) -> set[str]:
    """The markers that a test has by its place and its fixtures."""
    place = (item.path, getattr(item, "originalname", item.name))
    found = {mark for mark, paths in PARTS.items() if is_in(*place, paths)}
    fixtures = getattr(item, "fixturenames", ())
    if OF_PROGRAMS.intersection(fixtures):
        found.add("programs")
    if OF_SPARK.intersection(fixtures):
        found.add("jvm")
    marks = found.union(mark.name for mark in item.iter_markers())
    needed = marks.isdisjoint(SLOW) or is_in(*place, TRACED)
    if needed and marks.isdisjoint(ALONE) and not is_in(*place, UNTRACED):
        found.add("traced")
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests before some are selected by their markers."""
    time_limit.limit(items)
    for item in items:
        for mark in marks_of(item):
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
