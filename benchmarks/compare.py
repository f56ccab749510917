"""Compare two checkouts of rsocket_trio: ``python -m benchmarks.compare --base PATH``.

Both use the programs of this checkout; only the package differs. Each case is measured in pairs:
base then head, then head then base, and so on. Other load on the machine affects both of a pair,
so the result is the median of the ratios of the pairs. A process may be a few per cent faster or
slower for its whole life, so all processes are restarted several times. ``--only memory`` compares
the memory of idle connections and streams. ``--base . --python PATH`` compares two Pythons.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import truediv
from pathlib import Path
from statistics import median, quantiles

import attrs

from . import machine
from .cases import CASES, is_wanted
from .harness import Result, raise_file_limit, run_case, takes_part
from .memory import run_memory
from .model import ROOT, Case, Stack
from .report import Memory, number, table
from .stacks import STACKS, tool_version

BASE, HEAD = "base", "head"


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
        help="factor for the number of connections and streams in cases with many (default 1)",
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
        yield directory


def compare(
    case: Case,
    stacks: Sequence[Stack],
    *,
    starts: int,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> dict[str, Result]:
    """Measure one case for both checkouts, with new processes ``starts`` times.

    Returns:
        The results by ``base`` and ``head``. Values at the same index belong to one pair.
    """
    results = {stack.name: Result() for stack in stacks}
    for start in range(starts):
        # The order in which the servers start alternates too.
        order = stacks if start % 2 == 0 else stacks[::-1]
        for name, result in run_case(case, order, rounds, seconds, say).items():
            results[name].rates += result.rates
            results[name].costs += result.costs
            results[name].latencies += result.latencies
            results[name].failure = results[name].failure or result.failure
    return results


def cells(base: Sequence[float], head: Sequence[float], show: Callable[[float], str]) -> list[str]:
    """Return both medians, and the median of the ratios with the middle half of the ratios."""
    if not base or len(base) != len(head):
        return ["–", "–", "–"]
    ratios = sorted(map(truediv, head, base))
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return [
        show(median(base)),
        show(median(head)),
        f"**{median(ratios):.3f}** ({low:.3f}..{high:.3f})",
    ]


def report_lines(
    results: dict[str, dict[str, Result]], cases: Sequence[Case], memory: Memory
) -> list[str]:
    """Return one table each for throughput, processor time, latency and memory."""
    figures: list[tuple[str, Callable[[Result], list[float]], Callable[[float], str]]] = [
        ("throughput (more is better)", lambda result: result.rates, number),
        (
            "processor time of the server, µs (less is better)",
            lambda result: result.costs,
            lambda value: f"{value * 1e6:.2f}",
        ),
        (
            "p50, µs (less is better)",
            lambda result: [p50 for p50, _ in result.latencies],
            lambda value: f"{value * 1e6:.1f}",
        ),
    ]
    lines = []
    for title, values, show in figures:
        rows = [
            [case.name, *cells(values(results[case.name][BASE]), values(head), show)]
            for case in cases
            if values(head := results[case.name][HEAD])
        ]
        if rows:
            header = [title, BASE, HEAD, "head ÷ base (middle half)"]
            lines += [f"## {title[0].upper()}{title[1:]}", "", *table(header, rows)]
    rows = [
        [title, *cells(row[BASE], row[HEAD], lambda value: f"{value / 1024:.2f}")]
        for title, row in memory.items()
        if isinstance(row[BASE], list) and isinstance(row[HEAD], list)
    ]
    if rows:
        header = ["growth of the server in KiB per", BASE, HEAD, "head ÷ base (middle half)"]
        lines += ["## Memory (less is better)", "", *table(header, rows)]
    failures = [
        f"* {case.name}, {name}: {result.failure.splitlines()[0]}"
        for case in cases
        for name, result in results[case.name].items()
        if result.failure is not None
    ]
    failures += [
        f"* memory per {title}, {name}: {sizes.splitlines()[0]}"
        for title, row in memory.items()
        for name, sizes in row.items()
        if isinstance(sizes, str)
    ]
    return lines + (["## Not measured", "", *failures, ""] if failures else [])


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    ours = next(stack for stack in STACKS if stack.name == "ours")
    words = options.only or ["server/", "memory"]
    cases = [
        case.scaled(options.scale)
        for case in CASES
        if takes_part(case, ours) and is_wanted(case.name, words)
    ]
    if not cases and not is_wanted("memory", words):
        parser().error(f"no case matches: {', '.join(words)}")
    raise_file_limit()
    python = str(Path(options.python).absolute())

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    results = {}
    with directory_of(options.base) as base, directory_of(options.head) as head:
        stacks = [
            attrs.evolve(ours, name=BASE, title=BASE, directory=base),
            attrs.evolve(
                ours,
                name=HEAD,
                title=HEAD,
                directory=head,
                server=[python, *ours.server[1:]],
                client=[python, *ours.client[1:]],
            ),
        ]
        described = [
            *machine.describe(),
            f"Python of the head: {tool_version(python, '--version')}",
        ]
        for case in cases:
            say(case.name)
            results[case.name] = compare(
                case,
                stacks,
                starts=options.starts,
                rounds=options.rounds,
                seconds=options.seconds,
                say=say,
            )
        memory: Memory = {}
        if is_wanted("memory", words):
            memory = run_memory(stacks, options.starts, options.scale, say)
    report = report_lines(results, cases, memory)
    lines = [
        f"Made by `{shlex.join(['python', '-m', 'benchmarks.compare', *arguments])}`.",
        "",
        *(f"* {line}" for line in described),
        "",
        *report,
    ]
    print("\n".join(lines).rstrip())
    return 1 if "## Not measured" in report else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
