"""The benchmark runs, and its report has the shape it promises. No figure is judged."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SELECTED = [
    "tcp/request_response-1",  # and -1000
    "tcp/fire",
    "tcp/router",
    "ws/request_response-64",
    "server/request_stream",
    "memory",
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def rows(report: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its header."""
    section = report.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    output = tmp_path_factory.mktemp("benchmarks") / "results.md"
    only = [word for name in SELECTED for word in ("--only", name)]
    done = run(
        *("--stacks", "ours,floor", "--rounds", "1", "--seconds", "0.01"),
        *("--memory-scale", "0.01", "--output", str(output)),
        *only,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == output.read_text().strip()
    return output.read_text()


def test_every_selected_case_has_a_rate(report: str) -> None:
    """Each selected case stands in the table of its group with a rate of ours."""
    for heading, count in [
        ("Client and server, a process each, over TCP", 4),
        ("Client and server, a process each, over WebSocket", 1),
        ("The server alone, against a neutral raw client, over TCP", 1),
    ]:
        table = rows(report, heading)
        assert len(table) == count
        assert all("/s (" in row[1] for row in table)


def test_ratios_stand_beside_the_rates(report: str) -> None:
    """A case that the floor knows too has its ratio, as a number, in the last column."""
    table = rows(report, "Client and server, a process each, over TCP")
    ratios = [row[-1] for row in table if row[2] != "–"]
    assert len(ratios) == 3
    assert all(float(ratio) > 0 for ratio in ratios)


def test_latency_and_memory_have_their_tables(report: str) -> None:
    """Latencies stand for both stacks; memory stands for connections and streams."""
    assert len(rows(report, "Latency of request_response, one at a time")) == 2
    assert [row[0].split(" (")[0] for row in rows(report, "Memory")] == [
        "idle connection",
        "idle open stream",
    ]


def test_the_report_says_how_it_was_made(report: str) -> None:
    """The command and the machine head the report; nothing was left unmeasured."""
    assert "Made by `python -m benchmarks --stacks ours,floor" in report
    for fact in ("CPU: ", "kernel: ", "Python: ", "trio: ", "node: "):
        assert f"\n* {fact}" in report
    assert "Not measured" not in report


def test_an_unknown_stack_or_case_is_an_error() -> None:
    """A misspelt selection ends with a usage error, not with an empty report."""
    assert run("--stacks", "no-such").returncode == 2
    assert run("--only", "no-such").returncode == 2
