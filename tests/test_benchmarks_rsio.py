"""The rsio part of the benchmark runs, and measures what it says. No figure is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases import CASES, GROUPS
from benchmarks.harness import Result, measure, pair, takes_part
from benchmarks.model import Stack
from benchmarks.reactive_streams import TITLE
from benchmarks.report import update
from benchmarks.rsio.ends import WAYS
from benchmarks.rsio.wire import absent_lines, run_wire, wire_lines
from benchmarks.stacks import STACKS
from tests.test_benchmarks import SEVERAL_PROGRAMS, rows, small_run

pytestmark = SEVERAL_PROGRAMS

RSIO = [case for case in CASES if case.name.startswith("rsio/")]
OURS = [stack for stack in STACKS if stack.name.startswith("rsio-")]
WIRE = GROUPS["rsio-wire"]
SIZES = {way.name: way.size for way in WAYS}


@pytest.mark.parametrize("stack", OURS, ids=lambda stack: stack.name)
def test_each_way_runs_its_case(stack: Stack) -> None:
    """Also twice over one connection: a stream that is left does not disturb the next one."""
    (case,) = [case for case in RSIO if takes_part(case, stack)]
    result = Result()
    with pair(case, stack) as (server, client):
        if stack.name in SIZES:
            # First: what is under way when a stream is left would be counted too.
            outcome = client.ask("octets", elements=1000, **case.parameters)
            assert 1 < outcome["octets"] / (1000 * SIZES[stack.name]) < 1.5
        measure(case, server, client, 0.02, result)
        measure(case, server, client, 0.02, result)
    assert len(result.rates) == 2
    assert all(value > 0 for value in (*result.rates, *result.costs))


def test_the_report(tmp_path: Path) -> None:
    """The first row of a case is divided by the others, and the octets are those of the format."""
    chosen = "rsio-blocks,rsio-variable,rsio-open,rsio-rsocket"
    report = small_run(tmp_path / "results.md", chosen, ["rsio/"])
    table = rows(report, GROUPS["rsio"])
    assert [(row[1], bool(row[3])) for row in table] == [
        ("packed: blocks in, blocks out", False),
        ("any size, `open`", True),
        ("rsio, `open`", False),
        ("RSocket, `request_stream`", True),
    ]
    counted = {row[0] + row[1]: float(row[2]) for row in rows(report, WIRE)}
    # Elements of 8 bytes and of any size have a type, an id and a length: 11 octets for 8.
    assert 1.0 < counted["8 bytespacked: blocks in, blocks out"] <= 1.1
    assert 11 / 8 <= counted["8 bytesany size, `open`"] < 12 / 8
    # Those of 128 bytes have a length of two octets.
    assert 132 / 128 <= counted["128 bytesrsio, `open`"] < 1.1
    assert "Not measured" not in report


def test_a_program_that_fails_has_no_octets() -> None:
    """Its row is absent, and the reason is given."""
    broken = Stack(
        name="rsio-blocks",
        title="broken",
        server=["sh", "-c", "echo READY rsio://nowhere"],
        client=["sh", "-c", 'echo \'{"error": "no such host"}\'; sleep 9'],
        groups=frozenset(),
    )
    counted = run_wire([broken], 0, lambda _: None)
    assert wire_lines(counted) == []
    assert ["no such host" in line for line in absent_lines(counted)] == [True]


@pytest.mark.parametrize("heading", [GROUPS["rsio"], WIRE, TITLE])
def test_an_update_replaces_each_table(heading: str) -> None:
    """So a part of the figures can be measured again on a quiet machine."""
    ends = "\n\n## How to read this\n\ntext\n"
    new = update(
        f"# R\n\n## {heading}\n\nold{ends}", f"# R\n\n## {heading}\n\nnew{ends}", "command"
    )
    assert "\nMade by `command`.\n\nnew" in new
    assert "old" not in new
