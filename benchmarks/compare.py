"""Compare two checkouts of rsocket_trio: ``python -m benchmarks.compare --base PATH``.

Both use the programs of this checkout; only the package differs. Each case is measured in pairs:
base then head, then head then base, and so on. Other load on the machine affects both of a pair,
so the result is the median of the ratios of the pairs. A process may be a few per cent faster or
slower for its whole life, so all processes are restarted several times. The cases are those of
``python -m benchmarks`` with the package itself, such as ``lumberjack/`` and ``spark/``; a JVM of
1 GiB runs for each checkout then. ``--only memory`` compares the memory of idle connections and
streams. ``--base . --python PATH`` compares two Pythons.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import sqrt
from operator import truediv
from pathlib import Path
from statistics import median

import attrs

from . import machine
from .cases import CASES, is_wanted
from .harness import Result, raise_file_limit, run_case, takes_part
from .memory import run_memory
from .model import ROOT, Case, Stack
from .report import number, table
from .spark.bench import Bench
from .spark.cases import SPARK_CASES, Run, SparkCase
from .spark.measuring import Measurement
from .spark.running import first_events, take_turns
from .stacks import STACKS, tool_version

BASE, HEAD = "base", "head"

Figures = Mapping[str, Sequence[float]]
"""By name: a figure of each pair."""
Comparison = Mapping[str, Figures | str]
"""The figures of base and head, or why there are none. Those at the same index are of one pair."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    options.add_argument("--base", type=Path, required=True, help="the checkout to compare with")
    options.add_argument(
        "--head", type=Path, default=ROOT, help="the checkout to compare (default this one)"
    )
    options.add_argument(
        "--python", default=sys.executable, help="the Python of the head (default this one)"
    )
    options.add_argument(
        "--starts", type=int, default=3, help="how often to start new processes (default 3)"
    )
    options.add_argument("--rounds", type=int, default=8, help="pairs per start (default 8)")
    options.add_argument(
        "--seconds", type=float, default=0.4, help="length of a measurement (default 0.4)"
    )
    options.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="factor for the number of connections and streams in cases with many, and of rows in "
        "those of Spark (default 1)",
    )
    options.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="the case with this name, or all cases whose name contains it, or memory; "
        "may be repeated (default server/ and memory)",
    )
    return options


@contextmanager
def directory_of(checkout: Path) -> Iterator[Path]:
    """Yield a directory with copies of these programs and of the package of ``checkout``.

    They are copies, so edits during the run have no effect.
    """
    package = checkout.resolve() / "rsocket_trio"
    if not (package / "__init__.py").is_file():
        parser().error(f"there is no rsocket_trio in {checkout}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for source in (package, Path(__file__).parent):
            ignored = shutil.ignore_patterns("__pycache__", "js", "java", "go")
            shutil.copytree(source, directory / source.name, ignore=ignored)
        for module in package.parent.glob("pyspark_*.py"):  # Spark finds its sources by them.
            shutil.copy(module, directory)
        yield directory


def ends(stack: Stack, directories: Sequence[Path], python: str) -> list[Stack]:
    """Return a stack of this package for each checkout; the head's runs with another Python."""
    base, head = (
        attrs.evolve(stack, name=name, title=name, directory=directory)
        for name, directory in zip((BASE, HEAD), directories, strict=True)
    )
    server, client = ([python, *command[1:]] for command in (stack.server, stack.client))
    return [base, attrs.evolve(head, server=server, client=client)]


def compare(
    case: Case,
    stacks: Sequence[Stack],
    *,
    starts: int,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> Comparison:
    """Measure one case for both checkouts, with new processes ``starts`` times."""
    results = {stack.name: Result() for stack in stacks}
    for start in range(starts):
        # The order in which the servers start alternates too.
        order = stacks if start % 2 == 0 else stacks[::-1]
        for name, result in run_case(case, order, rounds, seconds, say).items():
            results[name].rates += result.rates
            results[name].costs += result.costs
            results[name].latencies += result.latencies
            results[name].failure = results[name].failure or result.failure
    return {
        name: result.failure
        or {
            f"rate, {case.unit.strip()}": result.rates,
            f"processor of the {case.end}, µs": [cost * 1e6 for cost in result.costs],
            "p50, µs": [p50 * 1e6 for p50, _ in result.latencies],
        }
        for name, result in results.items()
    }


def compare_spark(
    cases: Sequence[SparkCase],
    benches: Sequence[Bench],
    *,
    starts: int,
    rounds: int,
    scale: float,
    say: Callable[[str], None],
) -> dict[str, Comparison]:
    """Measure cases of Spark for both checkouts, with new sessions ``starts`` times.

    Returns:
        The comparisons of the runs with this package, by the names of case and run.
    """
    found: dict[str, dict[str, list[Measurement] | str]] = {}
    for _ in range(starts):
        for case, run in ours_of_spark(cases):
            name = f"{case.name}, {run.title}"
            say(name)
            turns = {end: (run, bench) for end, bench in zip((BASE, HEAD), benches, strict=True)}
            so_far = found.setdefault(name, {BASE: [], HEAD: []})
            for end, new in take_turns(
                case.master, turns, rounds, scale, say, warm_up=True
            ).items():
                old = so_far[end]
                so_far[end] = (
                    old if isinstance(old, str) else new if isinstance(new, str) else old + new
                )
        for bench in benches:
            bench.end_session()
    return {
        name: {
            end: measured if isinstance(measured, str) else figures_of_spark(measured)
            for end, measured in by_end.items()
        }
        for name, by_end in found.items()
    }


def ours_of_spark(cases: Sequence[SparkCase]) -> Iterator[tuple[SparkCase, Run]]:
    """Yield the runs with this package."""
    for case in cases:
        for run in case.runs:
            if run.is_ours:
                yield case, run


def figures_of_spark(measured: Sequence[Measurement]) -> Figures:
    """Return rates, processor time, together and of each part, and latencies if there are any."""
    parts = sorted({part for each in measured for part in each.processor})
    figures = {
        "rate, /s": [each.count / each.seconds for each in measured],
        "processor, µs": [sum(each.processor.values()) / each.count * 1e6 for each in measured],
    }
    for part in parts:
        figures[f"processor of {part}, µs"] = [
            each.processor.get(part, 0.0) / each.count * 1e6 for each in measured
        ]
    for index, name in enumerate(("p50", "p99")):
        figures[f"{name}, ms"] = [
            each.latencies[index] * 1e3 for each in measured if each.latencies
        ]
    return figures


def compare_memory(
    stacks: Sequence[Stack], starts: int, scale: float, say: Callable[[str], None]
) -> dict[str, Comparison]:
    """Measure the memory of idle connections and streams for both checkouts."""
    return {
        f"memory per {title}": {
            name: sizes if isinstance(sizes, str) else {"KiB": [size / 1024 for size in sizes]}
            for name, sizes in row.items()
        }
        for title, row in run_memory(stacks, starts, scale, say).items()
    }


def cells(base: Sequence[float], head: Sequence[float]) -> list[str]:
    """Return both medians, and the median of the ratios with its interval of 95 %.

    The interval is that of the order statistics of the ratios, so it needs no other assumption than
    that pairs are independent. It is the whole range if there are fewer than eight.
    """
    if len(base) != len(head) or not all(base):
        return ["–", "–", "–"]
    ratios = sorted(map(truediv, head, base))
    beyond = max(0, int(len(ratios) / 2 - 0.98 * sqrt(len(ratios))))
    low, high = ratios[beyond], ratios[-1 - beyond]
    shown = [
        number(value) if value >= 100 else f"{value:.3g}" for value in map(median, (base, head))
    ]
    return [*shown, f"**{median(ratios):.3f}** ({low:.3f}..{high:.3f})"]


def report_lines(measured: Iterable[tuple[str, Comparison]]) -> Iterator[str]:
    """Yield the table of all figures, row by row as they come, and what was not measured.

    Args:
        measured: The names and comparisons of the cases, each measured when it is asked for.
    """
    failures: list[str] = []
    begun = False
    for name, comparison in measured:
        base, head = comparison[BASE], comparison[HEAD]
        failures += [
            f"* {name}, {end}: {failure.splitlines()[0]}"
            for end, failure in comparison.items()
            if isinstance(failure, str)
        ]
        if isinstance(base, str) or isinstance(head, str):
            continue
        if not begun:
            begun = True
            header = ["case", "figure", BASE, HEAD, "head ÷ base (95 %)"]
            yield from ("## Head and base", "", *table(header, (), texts=2)[:-1])
        shown = name
        for figure, values in head.items():
            if values:
                row = [shown, figure, *cells(base.get(figure, ()), values)]
                yield f"| {' | '.join(row)} |"
                shown = ""
    if begun:
        yield ""
    if failures:
        yield from ("## Not measured", "", *failures)


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    stacks = {stack.name: stack for stack in STACKS}
    words = options.only or ["server/", "memory"]
    cases = [
        case.scaled(options.scale)
        for case in CASES
        if is_wanted(case.name, words)
        and takes_part(case, stacks[case.reference])
        and (stacks[case.reference].missing() or case.missing()) is None
    ]
    spark_cases = [case for case in SPARK_CASES if is_wanted(case.name, words)]
    if not (cases or spark_cases or is_wanted("memory", words)):
        parser().error(f"no case matches: {', '.join(words)}")
    raise_file_limit()
    python = str(Path(options.python).absolute())

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def measured(resources: ExitStack) -> Iterator[tuple[str, Comparison]]:
        directories = [
            resources.enter_context(directory_of(checkout))
            for checkout in (options.base, options.head)
        ]
        for case in cases:
            say(case.name)
            yield (
                case.name,
                compare(
                    case,
                    ends(stacks[case.reference], directories, python),
                    starts=options.starts,
                    rounds=options.rounds,
                    seconds=options.seconds,
                    say=say,
                ),
            )
        if is_wanted("memory", words):
            both = ends(stacks["ours"], directories, python)
            yield from compare_memory(both, options.starts, options.scale, say).items()
        first = first_events(options.scale)
        benches = [
            resources.enter_context(Bench(first=first, checkout=directory, python=interpreter))
            for directory, interpreter in zip(directories, (sys.executable, python), strict=True)
        ]
        yield from compare_spark(
            spark_cases,
            benches,
            starts=options.starts,
            rounds=options.rounds,
            scale=options.scale,
            say=say,
        ).items()

    command = shlex.join(["python", "-m", "benchmarks.compare", *arguments])
    described = [*machine.describe(), f"Python of the head: {tool_version(python, '--version')}"]
    print(
        f"Made by `{command}`.", "", *(f"* {line}" for line in described), "", sep="\n", flush=True
    )
    failed = False
    with ExitStack() as resources:
        # At once, as a run of many cases takes long, and may be stopped.
        for line in report_lines(measured(resources)):
            print(line, flush=True)
            failed = failed or line == "## Not measured"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
