"""Runs the Beats input of Logstash without a pipeline; tests/interop/setup.sh has built it.

HotSpot compiles while it runs, so it first gets events for some seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Final

from benchmarks.control import Stopwatch, ready
from benchmarks.lumberjack.ends import LOGSTASH_JAR
from benchmarks.lumberjack.sender import Sender

_WARM_UP: Final = 2.0
"""Seconds for each kind of windows."""


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warm-up", type=float, default=_WARM_UP, metavar="SECONDS")
    warm_up = parser.parse_known_args()[0].warm_up
    command = ["java", "-Xmx1g", "-cp", str(LOGSTASH_JAR), "peer.Logstash", "0", "0", "quiet"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    uri = process.stdout.readline().removeprefix("listening on lumberjack:").strip()
    try:
        sender = Sender(uri)
        for level in (3, 0):
            sender.ship(Stopwatch(warm_up), level=level, windows=2, connections=1)
        ready(f"tcp:{uri}")
        sys.stdin.read()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
