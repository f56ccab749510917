"""``rsocket-trio lumberjack ship``, run again and again in this process with a file of log lines.

So its processor time is that of reading, cutting, encoding and sending. What a start takes does not
count: the warm-up has imported everything.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.lumberjack.accelerators import hide_unless_fast

hide_unless_fast()

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.lumberjack.lines import WINDOW, WINDOWS, write_log
from rsocket_trio.cli.main import main as run

_LINES: Final = 2 * WINDOW * WINDOWS


def main() -> None:
    """Obey commands until there are no more."""
    uri = sys.argv[-1].replace("tcp://", "lumberjack://")
    ship = ["lumberjack", "ship", "--quiet", "--no-registry", "--to", uri]
    with tempfile.TemporaryDirectory(prefix="ship-") as directory:
        log = Path(directory) / "lines.log"
        write_log(log, _LINES)
        while (command := read_command()) is not None:
            watch = Stopwatch(command["seconds"])
            arguments = [*ship, "--compression-level", str(command["level"]), str(log)]
            status = 0
            while not status and (not watch.count or perf_counter() < watch.deadline):
                status = run(arguments)
                watch.count += _LINES
            write_outcome({"error": f"ship ended with {status}"} if status else watch.outcome())


if __name__ == "__main__":
    main()
