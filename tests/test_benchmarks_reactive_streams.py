"""The part of the benchmark about Reactive Streams runs, and measures what it says.

No figure is judged.
"""

from __future__ import annotations

import pytest

from benchmarks.reactive_streams import measuring
from benchmarks.reactive_streams.measuring import in_process_lines, run_in_process
from benchmarks.reactive_streams.paths import PATHS, reactivex_missing
from benchmarks.reactive_streams.rules import STEPS
from tests.test_benchmarks import rows

COUNT = 1000


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.title)
def test_a_path_sends_all_elements(path) -> None:
    """Ours and reactivex's give the same number of elements."""
    found = path.ours(COUNT)
    assert found == (COUNT // 2 if "filter" in path.title else COUNT)
    if path.rx is not None and reactivex_missing() is None:
        assert path.rx(COUNT) == found


@pytest.mark.parametrize(("title", "run"), STEPS, ids=[title for title, _ in STEPS])
def test_a_step_does_the_same_as_the_others(title, run) -> None:
    """Every step applies the same three functions."""
    assert run(COUNT) == COUNT // 2


def test_the_report_has_a_row_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without reactivex, which is named among what was not measured."""
    monkeypatch.setattr(measuring, "reactivex_missing", lambda: "it is not installed")
    said: list[str] = []
    measured = run_in_process(2, 0.001, said.append)
    assert said == [measuring.NAME]
    lines = in_process_lines(measured)
    table = rows("\n" + "\n".join(lines), "Reactive Streams, in one process")
    assert [row[0] for row in table if row[0] in {path.title for path in PATHS}] == [
        path.title for path in PATHS
    ]
    assert all(title in "\n".join(lines) for title, _ in STEPS)
    assert measuring.absent_lines(measured) == ["* reactivex: it is not installed"]
    assert in_process_lines(None) == measuring.absent_lines(None) == []
