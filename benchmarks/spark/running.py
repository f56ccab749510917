"""Runs the cases of Spark, in rounds: `run_spark`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.harness import ProgramFailed
from benchmarks.spark.bench import FILE_EVENTS, Bench
from benchmarks.spark.cases import SparkCase, spark_missing
from benchmarks.spark.measuring import Measurement

__all__ = ["SparkResults", "run_spark"]

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
    results: dict[str, dict[str, list[Measurement] | str]] = {}
    if (missing := spark_missing()) is not None:
        return {case.name: {run.title: missing for run in case.runs} for case in cases}
    with Bench(first=max(1, int(FILE_EVENTS * min(1.0, scale)))) as bench:
        for case in cases:
            say(case.name)
            found = results[case.name] = {run.title: run.missing() or [] for run in case.runs}
            wanted = max(1, rounds // 2) if case.is_side else rounds
            for number in range(-case.is_first, wanted):
                # Another run comes first in each round.
                first = number % len(case.runs)
                for run in (*case.runs[first:], *case.runs[:first]):
                    kept = found[run.title]
                    if isinstance(kept, str):
                        continue
                    try:
                        if number < 0:
                            run.measure(bench, case.master, scale * WARM_UP_SCALE)
                            continue
                        kept.append(run.measure(bench, case.master, scale))
                    except (ProgramFailed, AssertionError) as failure:
                        say(f"  {run.title} FAILED: {failure}")
                        found[run.title] = str(failure)
                        bench.end_session()  # The next one begins with a new session.
    return results
