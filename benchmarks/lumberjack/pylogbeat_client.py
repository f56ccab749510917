"""The client of pylogbeat: it sends a window and waits for its ACK. It always compresses."""

from __future__ import annotations

import sys
from itertools import cycle
from time import perf_counter

from pylogbeat import ConnectionException, PyLogBeatClient

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.lumberjack.lines import event_windows


def main() -> None:
    host, _, port = sys.argv[1].rpartition("/")[2].rpartition(":")
    windows = cycle(event_windows())
    with PyLogBeatClient(host, int(port), timeout=30) as client:
        while (command := read_command()) is not None:
            watch = Stopwatch(command["seconds"])
            try:
                while perf_counter() < watch.deadline:
                    events = next(windows)
                    client.send(events)
                    watch.count += len(events)
            except (OSError, ConnectionException) as error:
                write_outcome({"error": f"{type(error).__name__}: {error}"})
            else:
                write_outcome(watch.outcome())


if __name__ == "__main__":
    main()
