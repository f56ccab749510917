"""Runs the cases of Spark, in rounds: `run_spark`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.harness import ProgramFailed
from benchmarks.spark.bench import FILE_EVENTS, Bench
from benchmarks.spark.cases import Run, SparkCase, spark_missing
from benchmarks.spark.measuring import Measurement

__all__ = ["SparkResults", "run_spark"]

Measured = list[Measurement] | str
"""A measurement for each round, or the reason why there is none."""

SparkResults = Mapping[str, Mapping[str, Sequence[Measurement] | str]]
"""By the names of case and run: a measurement for each round, or the reason why there is none."""


WARM_UP_SCALE = 0.5
"""How much of the rows are read before the first measurement of a case. HotSpot compiles meanwhile:
this is most of the processor time of a JVM in its first seconds."""


def run_spark(
    cases: Sequence[SparkCase], rounds: int, scale: float, say: Callable[[str], None]
) -> SparkResults:
    """Measure the cases one after the other. The runs of a case take turns in each round.

    Args:
        cases: The cases.
        rounds: The number of rounds.
        scale: A factor for the number of rows.
        say: Called with texts that report progress.
    """
    results: dict[str, dict[str, Measured]] = {}
    if (missing := spark_missing()) is not None:
        return {case.name: {run.title: missing for run in case.runs} for case in cases}
    with Bench(first=first_events(scale)) as bench:
        for case in cases:
            say(case.name)
            wanted = max(1, rounds // 2) if case.is_side else rounds
            turns = {run.title: (run, bench) for run in case.runs}
            results[case.name] = take_turns(
                case.master, turns, wanted, scale, say, warm_up=case.is_first
            )
    return results


def first_events(scale: float) -> int:
    """Return how many events a query reads before it is measured."""
    return max(1, int(FILE_EVENTS * min(1.0, scale)))


def take_turns(
    master: str,
    turns: Mapping[str, tuple[Run, Bench]],
    rounds: int,
    scale: float,
    say: Callable[[str], None],
    *,
    warm_up: bool,
) -> dict[str, Measured]:
    """Measure some runs by turns, in rounds; another one comes first in each round.

    Args:
        master: The master of Spark.
        turns: The runs, each with its programs, by title.
        rounds: The number of rounds.
        scale: A factor for the number of rows.
        say: Called with texts that report progress.
        warm_up: Whether each runs once before it is measured.
    """
    found: dict[str, Measured] = {title: run.missing() or [] for title, (run, _) in turns.items()}
    for number in range(-warm_up, rounds):
        first = number % len(turns)
        for title in (*list(turns)[first:], *list(turns)[:first]):
            (run, bench), kept = turns[title], found[title]
            if isinstance(kept, str):
                continue
            try:
                if number < 0:
                    run.measure(bench, master, scale * WARM_UP_SCALE)
                    continue
                kept.append(run.measure(bench, master, scale))
            except (ProgramFailed, AssertionError) as failure:
                say(f"  {title} FAILED: {failure}")
                found[title] = str(failure)
                bench.end_session()  # The next one begins with a new session.
    return found
