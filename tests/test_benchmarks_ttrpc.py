"""The ttrpc part of the benchmark runs, and measures what it says. No figure is judged."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from benchmarks.cases import CASES, GROUPS
from benchmarks.harness import Result, measure, pair, takes_part
from benchmarks.model import Case, Stack
from benchmarks.stacks import STACKS
from benchmarks.ttrpc.memory import absent_lines, memory_lines, run_memory
from benchmarks.ttrpc.messages import ITEM, unwrap, wrap
from tests.test_benchmarks import ROOT, SEVERAL_PROGRAMS, rows, small_run

pytestmark = SEVERAL_PROGRAMS

TTRPC = [case for case in CASES if case.name.startswith("ttrpc/")]
BOTH = [case for case in TTRPC if case.group == "ttrpc"]
OURS = [stack for stack in STACKS if stack.name in ("tt-ours", "tt-rsocket")]
OTHERS = [stack for stack in STACKS if stack.name in ("tt-go", "tt-grpc")]


def measured(cases: list[Case], stack: Stack) -> Result:
    """Measure all cases, which have the same programs, one after the other."""
    result = Result()
    with pair(cases[0], stack) as (server, client):
        for case in cases:
            measure(case, server, client, 0.02, result)
    assert len(result.rates) == len(cases)
    assert all(value > 0 for value in (*result.rates, *result.costs))
    return result


def taken(cases: list[Case], stack: Stack) -> list[Case]:
    return [case for case in cases if takes_part(case, stack)]


@pytest.mark.parametrize("stack", OURS, ids=lambda stack: stack.name)
def test_our_programs_run_each_case(stack: Stack) -> None:
    """The latencies of one call at a time are measured too."""
    cases = taken(BOTH, stack)
    assert len(cases) == (4 if stack.name == "tt-ours" else 2)
    assert measured(cases, stack).latencies


@pytest.mark.interop
@pytest.mark.parametrize("stack", OTHERS, ids=lambda stack: stack.name)
def test_the_other_stacks_run_each_case(stack: Stack) -> None:
    if absent := stack.missing():
        pytest.skip(f"{stack.title}: {absent}")
    assert measured(taken(BOTH, stack), stack).latencies


@pytest.mark.interop
@pytest.mark.parametrize("group", ["ttrpc-client", "ttrpc-server"])
@pytest.mark.parametrize("name", ["tt-ours", "tt-go"])
def test_each_end_runs_with_go(name: str, group: str) -> None:
    """Client and server of two stacks understand each other in every case."""
    stack = next(each for each in STACKS if each.name == name)
    cases = taken([case for case in TTRPC if case.group == group], stack)
    assert len(cases) == 4
    if absent := cases[0].missing():
        pytest.skip(f"containerd's ttrpc: {absent}")
    measured(cases, stack)


def test_the_report(tmp_path: Path) -> None:
    """Each table has the figures of its cases, with the ratios to RSocket beside them."""
    names = ["ttrpc/unary-1", "ttrpc/unary-50", "ttrpc/memory"]
    report = small_run(tmp_path / "results.md", "tt-ours,tt-rsocket", names)
    table = rows(report, GROUPS["ttrpc"])
    assert [(row[1], bool(row[3])) for row in table] == 2 * [
        ("rsocket_trio", False),
        ("RSocket: rsocket_trio", True),
    ]
    sizes = rows(report, GROUPS["ttrpc-memory"])
    assert [row[0].split(",")[0] for row in sizes] == [
        "Python alone",
        "the package imported",
        "a server that is ready",
        "growth of the server per idle connection (of 10)",
        "growth of the client per idle connection (of 10)",
    ]
    alone, imported, ready = (float(row[1].split("*")[2]) for row in sizes[:3])
    assert 0 < alone < imported <= ready + 1
    assert "Not measured" not in report


def test_a_program_that_fails_has_no_figures() -> None:
    """Its column is empty, and the reason is given."""
    broken = Stack(
        name="tt-ours",
        title="broken",
        server=["sh", "-c", "echo READY unix:///nowhere"],
        client=["sh", "-c", 'echo \'{"error": "no such socket"}\'; sleep 9'],
        groups=frozenset(),
    )
    memory = run_memory([broken], 1, 0.01, lambda _: None)
    lines = memory_lines([broken], memory)
    assert all(line.rstrip("| ").endswith("–") for line in lines if "MiB" in line)
    assert ["no such socket" in line for line in absent_lines([broken], memory)] == [True]


def test_messages() -> None:
    """They have the size of all others, and are those of google.protobuf.BytesValue."""
    assert len(ITEM) == 128
    assert wrap(b"5000") == b"\x0a\x045000"
    assert unwrap(wrap(b"5000")) == b"5000"


def test_titles_name_the_pinned_versions() -> None:
    titles = {stack.name: stack.title for stack in STACKS}
    modules = (ROOT / "benchmarks/ttrpc/go/go.mod").read_text()
    version = titles["tt-go"].removeprefix("containerd/ttrpc ").removesuffix(" (Go)")
    assert f"github.com/containerd/ttrpc v{version}\n" in modules
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    version = titles["tt-grpc"].removeprefix("gRPC: grpcio ").removesuffix(", asyncio")
    assert f"grpcio=={version}" in project["project"]["optional-dependencies"]["peers"]
