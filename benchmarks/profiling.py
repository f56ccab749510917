"""Profile one end of rsocket_trio: ``python -m benchmarks.profiling server tcp/large``.

The profiler makes Python code several times slower, and C code not at all. So its times compare
functions only; measure a change with ``python -m benchmarks``.
"""

from __future__ import annotations

import argparse
import pstats
import tempfile
from pathlib import Path

from .cases import CASES
from .harness import pair, raise_file_limit
from .stacks import PYTHON, STACKS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("end", choices=["server", "client"], help="the end to profile")
    parser.add_argument("case", choices=[case.name for case in CASES], help="the case to run")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of the run (default 2)")
    parser.add_argument("--sort", default="tottime", help="a sort key of pstats (default tottime)")
    parser.add_argument("--lines", type=int, default=30, help="functions to print (default 30)")
    parser.add_argument(
        "--callers", metavar="REGEX", help="print the callers of the functions that match REGEX"
    )
    options = parser.parse_args()
    case = next(case for case in CASES if case.name == options.case)
    ours = next(stack for stack in STACKS if stack.name == case.reference)
    raise_file_limit()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "profile"
        profiled = [*PYTHON, "cProfile", "-o", str(path), "-m"]
        if options.end == "server":
            ours.server[:2] = profiled
        else:
            ours.client[:2] = profiled
        with pair(case, ours) as (_, client):
            outcome = client.ask(case.operation, seconds=options.seconds, **case.parameters)
        rate = outcome["count"] * case.scale / outcome["elapsed"]
        print(f"{case.heading}: {rate:.0f}{case.unit} under the profiler")
        stats = pstats.Stats(str(path)).strip_dirs().sort_stats(options.sort)
        if options.callers:
            stats.print_callers(options.callers)
        else:
            stats.print_stats(options.lines)


if __name__ == "__main__":
    main()
