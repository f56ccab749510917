"""The client of pylogbeat: it sends a window and waits for its ACK. It always compresses.

With ``--reconnect`` each window has a connection of its own, as python-logstash-async uses it. The
input of Logstash does not acknowledge its second window: its sequence numbers run on.
"""

from __future__ import annotations

import sys
from itertools import cycle
from time import perf_counter

from pylogbeat import ConnectionException, PyLogBeatClient

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.lumberjack.lines import event_windows, text_windows

_TIMEOUT = 30


def main() -> None:
    reconnect = "--reconnect" in sys.argv
    host, _, port = sys.argv[1].rpartition("/")[2].rpartition(":")
    events, texts = cycle(event_windows()), cycle(text_windows())
    client = PyLogBeatClient(host, int(port), timeout=_TIMEOUT)
    while (command := read_command()) is not None:
        windows = texts if command["texts"] else events
        watch = Stopwatch(command["seconds"])
        try:
            while perf_counter() < watch.deadline:
                window = next(windows)
                client.send(window)
                if reconnect:
                    client.close()
                    client = PyLogBeatClient(host, int(port), timeout=_TIMEOUT)
                watch.count += len(window)
        except (OSError, ConnectionException) as error:
            write_outcome({"error": f"{type(error).__name__}: {error}"})
        else:
            write_outcome(watch.outcome())
    client.close()


if __name__ == "__main__":
    main()
