"""The benchmark runs, and its report has the promised shape. No figure is judged."""

import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from benchmarks.cases import CASES
from benchmarks.compare import cells
from benchmarks.harness import pair, takes_part
from benchmarks.model import Stack
from benchmarks.stacks import STACKS
from tests.programs import MEASURED, environment
from tests.time_limit import LONGEST

pytestmark = SEVERAL_PROGRAMS = pytest.mark.seconds(3 * LONGEST)
ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
TCP = "Client and server over TCP, each in its own process"
WS = "Client and server over WebSocket, each in its own process"
SERVER = "The server alone, over TCP, with the same raw client for all"
SELECTED = [
    "tcp/request_response-1",
    "tcp/request_response-1000",
    "tcp/fire",
    "tcp/router",
    "ws/request_response-64",
    "server/request_stream",
    "memory",
]


def run(*arguments: str, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment(),
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


def small_run(output: Path, stacks: str, cases: Sequence[str]) -> str:
    """The report of one short round."""
    only = [word for name in cases for word in ("--only", name)]
    done = run(
        *("--stacks", stacks, "--rounds", "1", "--seconds", "0.01"),
        *("--scale", "0.01", "--warm-up-scale", "0", "--output", str(output)),
        *only,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == output.read_text().strip()
    return output.read_text()


@pytest.fixture(autouse=True)
def programs_without_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness starts programs with the environment that it has."""
    for name in MEASURED:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    output = tmp_path_factory.mktemp("benchmarks") / "results.md"
    return small_run(output, "ours,floor", SELECTED)


def test_every_selected_case_has_a_rate(report: str) -> None:
    """Each selected case has a rate of ours in the table of its group."""
    for heading, count in [(TCP, 4), (WS, 1), (SERVER, 1)]:
        ours = [row for row in rows(report, heading) if row[1] == "rsocket_trio"]
        assert len(ours) == count
        assert all(row[0] and "/s (" in row[2] for row in ours)


def test_processor_time_stands_beside_the_rates(report: str) -> None:
    """Every figure has the server's processor time with its spread, above zero."""
    for heading in (TCP, WS, SERVER):
        for row in rows(report, heading):
            middle, spread = row[4].split()
            assert float(middle.strip("*")) > 0
            assert ".." in spread


def test_ratios_stand_beside_the_figures(report: str) -> None:
    """Cases that are also measured without RSocket have the ratio, for rate and processor time."""
    floor = [row for row in rows(report, TCP) if row[1].startswith("floor")]
    assert len(floor) == 3
    # A short measurement may take less processor time than the clock of the system can tell, and
    # beside other work its rate may be less than a hundredth of the other's.
    assert all(float(row[3]) >= 0 and float(row[5]) >= 0 for row in floor)


def test_latency_and_memory_have_tables(report: str) -> None:
    """Latencies are given for both stacks; memory for connections, streams and objects."""
    assert len(rows(report, "Latency of request_response, one at a time")) == 2
    assert [row[0].split(" (")[0] for row in rows(report, "Memory")] == [
        "idle connection",
        "idle open stream",
        "the same stream, by tracemalloc",
    ]


def test_the_report_says_how_it_was_made(report: str) -> None:
    """The command and the machine are at the top of the report; nothing is left unmeasured."""
    assert "Made by `python -m benchmarks --stacks ours,floor" in report
    for fact in ("CPU: ", "kernel: ", "Python: ", "trio: ", "node: ", "java: ", "go: "):
        assert f"\n* {fact}" in report
    assert "Not measured" not in report


def test_an_unknown_stack_or_case_is_an_error() -> None:
    """A misspelt selection ends with a usage error, not with an empty report."""
    assert run("--stacks", "no-such").returncode == 2
    assert run("--only", "no-such").returncode == 2


@pytest.mark.parametrize(
    ("stack", "group"),
    [
        pytest.param(
            stack,
            group,
            id=f"{stack.name}-{group}",
            marks=[] if stack.name in ("ours", "floor") else [pytest.mark.interop],
        )
        for stack in STACKS
        for group in ("tcp", "server")
        if group in stack.groups
    ],
)
def test_each_stack_knows_all_cases(stack: Stack, group: str) -> None:
    """Installed programs complete something in every case, one after the other."""
    if absent := stack.missing():
        pytest.skip(f"{stack.title}: {absent}")
    cases = [
        case.scaled(0.01)
        for case in CASES
        if case.group == group and takes_part(case, stack) and case.name not in stack.cannot
    ]
    fragments = next(case for case in CASES if case.name == "tcp/large")
    arguments = attrs.evolve(fragments, group=group)
    if group == "server":
        arguments = attrs.evolve(arguments, server_args={})
    with pair(arguments, stack) as (server, client):
        for case in cases:
            if case.name == "tcp/router-64":
                continue  # for a server of another kind
            before = server.processor_time()
            outcome = client.ask(case.operation, seconds=0.01, **case.parameters)
            assert outcome["count"] > 0, case.name
            assert outcome["elapsed"] > 0, case.name
            assert server.processor_time() > before, case.name


def test_titles_name_the_pinned_versions() -> None:
    """The report names the versions of the peers that their project files install."""
    titles = {stack.name: stack.title for stack in STACKS}
    package = json.loads((BENCHMARKS / "js/package.json").read_text())
    assert titles["js"] == f"rsocket-js {package['dependencies']['rsocket-core']}"
    pattern = r"<artifactId>rsocket-core</artifactId>\s*<version>(.+?)</version>"
    for project in (BENCHMARKS / "java/pom.xml", ROOT / "tests/interop/java/pom.xml"):
        found = re.search(pattern, project.read_text())
        assert found
        assert titles["java"] == f"rsocket-java {found[1]}"
    found = re.search(r"rsocket/rsocket-go v(\S+)", (BENCHMARKS / "go/go.mod").read_text())
    assert found
    assert titles["go"] == f"rsocket-go {found[1]}"
    project = BENCHMARKS / "lumberjack/go/go.mod"
    found = re.search(r"elastic/go-lumber v(\S+)", project.read_text())
    assert found
    assert titles["lj-go"] == f"go-lumber {found[1]}"


def test_setup_names_the_peers_it_leaves_out(tmp_path: Path) -> None:
    """Peers whose tools are missing are named and left out, which is not a failure."""
    for tool in ("sh", "dirname", "find"):
        found = shutil.which(tool)
        assert found
        (tmp_path / tool).symlink_to(found)
    done = subprocess.run(
        ["sh", str(BENCHMARKS / "setup.sh")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    named = [line.split()[1] for line in done.stderr.splitlines() if "is left out" in line]
    assert named == ["rsocket-js", "rsocket-java", "rsocket-go", "go-lumber", "containerd's"]


def compared(*names: str) -> dict[str, dict[str, float]]:
    """Compare this checkout with itself: the ratios by case and figure."""
    done = run(
        *("--base", str(ROOT), "--python", sys.executable, "--scale", "0.01"),
        *("--starts", "1", "--rounds", "2", "--seconds", "0.01"),
        *(word for name in names for word in ("--only", name)),
        module="benchmarks.compare",
    )
    assert done.returncode == 0, done.stderr
    assert f"* Python of the head: Python {platform.python_version()}\n" in done.stdout
    figures: dict[str, dict[str, float]] = {}
    case = ""
    for first, figure, *_, ratio in rows(done.stdout, "Head and base"):
        case = first or case
        figures.setdefault(case, {})[figure] = float(ratio.strip("*").split("*")[0])
    return figures


def test_two_checkouts_are_compared_pair_by_pair() -> None:
    """Each case has its ratio of throughput and processor time, and of latency if measured.

    A case of another group has its own programs, and the end that it is about.
    """
    figures = compared("server/request_response-1", "lumberjack/client-ship-plain")
    assert {case: list(ratios) for case, ratios in figures.items()} == {
        "server/request_response-1": ["rate, /s", "processor of the server, µs", "p50, µs"],
        "lumberjack/client-ship-plain": ["rate, /s", "processor of the client, µs"],
    }
    assert all(ratio > 0 for ratios in figures.values() for ratio in ratios.values())


def test_two_checkouts_are_compared_by_memory() -> None:
    """Each kind of idle object has its ratio."""
    figures = compared("memory")
    assert [name.partition(" (")[0] for name in figures] == [
        "memory per idle connection",
        "memory per idle open stream",
        "memory per the same stream, by tracemalloc",
    ]
    by_objects = list(figures.values())[-1]["KiB"]
    # A checkout is compared with itself, so this does not depend on the machine.
    assert 0.9 < by_objects < 1.1


def test_the_interval_of_a_ratio() -> None:
    """It is the median of the ratios, not the ratio of the medians, with ranks 5 and 13 of 17."""
    base = [1.0, *range(1, 17)]
    ratios = [1 + number / 1000 for number in range(17)]
    head = [value * each for value, each in zip(base, ratios, strict=True)]
    assert cells(base, head)[-1] == "**1.008** (1.004..1.012)"
    assert cells([0.0], [1.0]) == cells([1.0], []) == ["–", "–", "–"]


def test_each_checkout_runs_its_own_package(tmp_path: Path) -> None:
    """A failure in the base is reported for the base alone: both ran their own package."""
    package = tmp_path / "rsocket_trio"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('the base has no such thing')")
    done = run(
        *("--base", str(tmp_path), "--starts", "1", "--rounds", "1", "--seconds", "0.01"),
        *("--only", "server/yield-64"),
        module="benchmarks.compare",
    )
    assert done.returncode == 1
    assert "the base has no such thing" in done.stderr
    absent = done.stdout.partition("## Not measured")[2]
    assert "yield-64, base: " in absent
    assert "yield-64, head: " not in absent


def test_a_base_that_is_no_checkout_is_an_error(tmp_path: Path) -> None:
    """A misspelt path ends with a usage error."""
    done = run("--base", str(tmp_path), module="benchmarks.compare")
    assert done.returncode == 2
    assert "no rsocket_trio in" in done.stderr


def test_a_program_that_is_run_by_hand_has_a_line_and_a_test() -> None:
    """Nobody would find another one, or notice that it does not run any more."""
    names = {
        f"benchmarks.{path.stem}"
        for path in BENCHMARKS.glob("*.py")
        if f"python -m benchmarks.{path.stem}" in path.read_text()
    }
    page, tests = (ROOT / "docs/performance.md").read_text(), Path(__file__).read_text()
    assert len(names) >= 4
    assert [name for name in names if f"python -m {name}" not in page] == []
    assert [name for name in names if f'module="{name}"' not in tests] == []


def test_a_part_of_the_cases_has_a_line() -> None:
    """The page says how each part is run alone; the first three are what `make bench` is about."""
    page = (ROOT / "docs/performance.md").read_text()
    parts = {case.name.partition("/")[0] for case in CASES} - {"tcp", "ws"}
    assert [part for part in parts if f"--only {part}/" not in page] == []


def test_the_benchmark_of_routes() -> None:
    """Each case has a line with its figure."""
    done = run("64", module="benchmarks.routes")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\S.* +\d+\.\d\d us$", done.stdout, re.MULTILINE)) == 17


def test_the_benchmark_of_workers() -> None:
    """It says the gain of two workers; with so few requests it may be anything."""
    done = run("--pairs", "1", "--rounds", "20", "--connections", "4", module="benchmarks.workers")
    assert done.returncode == 0, done.stderr
    assert "two workers" in done.stdout


def test_the_profile_of_an_end() -> None:
    """It has the functions that took most of the time."""
    done = run("server", "server/request_response-1", module="benchmarks.profiling")
    assert done.returncode == 0, done.stderr
    assert "under the profiler" in done.stdout
    assert "tottime" in done.stdout


def test_the_endurance_of_a_session() -> None:
    """It compares all items with what was sent, while connections are cut."""
    done = run("2000", "3", module="benchmarks.resume_endurance")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2000 items, ")


def test_the_benchmark_of_the_spool(tmp_path: Path) -> None:
    """Each case has a line with its figures, and nothing is left in the directory."""
    done = run("--seconds", "0.02", "--directory", str(tmp_path), module="benchmarks.spool")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"\d M events/s +\d+.\d\d ms per batch", done.stdout)) == 16
    assert list(tmp_path.iterdir()) == []


def test_workers_are_measured() -> None:
    """Two against one: the line with the ratio is there."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.workers", "--pairs", "1", "--rounds", "100"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert re.search(r"two workers against one worker: [0-9.]+ times", done.stdout)
