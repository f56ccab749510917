"""Measure and print the report; with all cases and stacks, write it to ``results.md`` too."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from . import machine
from .cases import CASES, is_wanted
from .harness import raise_file_limit, run_case, takes_part
from .memory import run_memory
from .reactive_streams import measuring as in_process
from .report import Memory, Results, markdown, update
from .rsio import wire as rsio_wire
from .spark.cases import SPARK_CASES, spark_missing
from .spark.report import absent_lines as spark_absent
from .spark.report import spark_lines
from .spark.running import SparkResults, run_spark
from .stacks import STACKS
from .ttrpc import memory as ttrpc_memory


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    names = [stack.name for stack in STACKS]
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--rounds", type=int, default=5, help="rounds per case (default 5)")
    options.add_argument(
        "--seconds", type=float, default=0.5, help="length of a measurement (default 0.5)"
    )
    options.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="the case with this name, or all cases whose name contains it; may be repeated: "
        + ", ".join(case.name for case in CASES)
        + f", memory, {ttrpc_memory.NAME}, {rsio_wire.NAME}, {in_process.NAME}, "
        + ", ".join(case.name for case in SPARK_CASES),
    )
    options.add_argument(
        "--stacks",
        default=",".join(names),
        help=f"stacks to measure, separated by commas (default {','.join(names)})",
    )
    options.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="factor for the number of connections and streams in cases with many (default 1)",
    )
    options.add_argument(
        "--warm-up-scale",
        type=float,
        default=1.0,
        help="factor for the warm-up of stacks that compile while they run (default 1)",
    )
    options.add_argument(
        "--output",
        type=Path,
        help="file for the report (default benchmarks/results.md if everything is measured)",
    )
    options.add_argument(
        "--update",
        action="store_true",
        help="replace the measured tables in benchmarks/results.md, and no others",
    )
    return options


def say(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    wanted = options.stacks.split(",")
    if unknown := set(wanted) - {stack.name for stack in STACKS}:
        parser().error(f"unknown stack: {', '.join(sorted(unknown))}")
    stacks = [stack for stack in STACKS if stack.name in wanted]
    usable = [stack for stack in stacks if stack.missing() is None]

    cases = [
        case.scaled(options.scale)
        for case in CASES
        if is_wanted(case.name, options.only) and any(takes_part(case, stack) for stack in usable)
    ]
    everything = not options.only and len(stacks) == len(STACKS)
    spark_cases = [
        case
        for case in SPARK_CASES
        if (options.only or everything) and is_wanted(case.name, options.only)
    ]
    memories = [name for name in ("memory", ttrpc_memory.NAME) if is_wanted(name, options.only)]
    streams = is_wanted(in_process.NAME, options.only) and (options.only or everything)
    wire = is_wanted(rsio_wire.NAME, options.only)
    if not (cases or spark_cases or memories or streams or wire):
        parser().error(f"no case matches: {', '.join(options.only)}")
    described = machine.describe()
    raise_file_limit()
    results: Results = {}
    for case in cases:
        say(case.name)
        results[case.name] = run_case(
            case,
            usable,
            options.rounds,
            options.seconds,
            say,
            warm_up_scale=options.warm_up_scale,
        )
    memory: Memory = {}
    if "memory" in memories:
        memory = run_memory(usable, min(3, options.rounds), options.scale, say)
    of_ttrpc: Memory = {}
    if ttrpc_memory.NAME in memories:
        of_ttrpc = ttrpc_memory.run_memory(usable, min(3, options.rounds), options.scale, say)
    of_wire: rsio_wire.Octets = {}
    if wire:
        of_wire = rsio_wire.run_wire(usable, options.scale, say)
    of_streams: in_process.InProcess | None = None
    if streams:
        of_streams = in_process.run_in_process(options.rounds, options.scale, say)
    spark: SparkResults = run_spark(spark_cases, options.rounds, options.scale, say)
    command = shlex.join(["python", "-m", "benchmarks", *arguments])
    report = markdown(
        command=command,
        machine=described,
        rounds=options.rounds,
        seconds=options.seconds,
        cases=cases,
        stacks=stacks,
        results=results,
        memory=memory,
        more=[
            *rsio_wire.wire_lines(of_wire),
            *in_process.in_process_lines(of_streams),
            *spark_lines(spark_cases, spark),
            *ttrpc_memory.memory_lines(usable, of_ttrpc),
        ],
        absent=[
            *rsio_wire.absent_lines(of_wire),
            *in_process.absent_lines(of_streams),
            *spark_absent(spark_cases, spark),
            *ttrpc_memory.absent_lines(usable, of_ttrpc),
        ],
    )
    print(report)
    if options.output is not None:
        options.output.write_text(report)
    kept = Path(__file__).with_name("results.md")
    if options.update:
        kept.write_text(update(kept.read_text(), report, command))
    elif options.output is None and everything:
        kept.write_text(report)
    failed = any(
        result.failure is not None and case.name not in stack.cannot
        for case in cases
        if case.missing() is None
        for stack in usable
        if (result := results[case.name].get(stack.name)) is not None
    )
    failed = failed or any(
        isinstance(spark[case.name][run.title], str)
        for case in spark_cases
        for run in case.runs
        if (spark_missing() or run.missing()) is None
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
