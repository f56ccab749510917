"""Becomes the client of go-lumber; it reads the lines of all clients from a file in memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.lumberjack.lines import WINDOW, WINDOWS, as_json, make_events


def main() -> None:
    lines = os.memfd_create("lines", 0)  # Not closed at `execv`.
    with open(lines, "wb", closefd=False) as file:
        file.writelines(as_json(event) + b"\n" for event in make_events(WINDOW * WINDOWS))
    os.lseek(lines, 0, os.SEEK_SET)
    peer = str(Path(__file__).parent / "go" / "peer")
    os.execv(peer, [peer, "client", sys.argv[1], f"/proc/self/fd/{lines}"])


if __name__ == "__main__":
    main()
