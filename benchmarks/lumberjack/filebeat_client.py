"""Runs Filebeat with a large file, and asks it how many events were acknowledged.

Each command starts a new Filebeat, with an empty registry. It is measured after the first events
were acknowledged, so its start is not.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.control import read_command, write_outcome
from benchmarks.lumberjack.lines import write_log

VERSION: Final = "7.17.28"
_LINES: Final = 3_000_000
_WARM_UP: Final = 40_000
"""Events that are acknowledged before the measurement."""
_START: Final = 30.0
_POLL: Final = 0.02


def filebeat_path() -> Path | None:
    """Return the program that tests/interop/go/build.sh has built last, if any."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = (cache / "rsocket_trio/peers").glob(f"filebeat-{VERSION}-*/filebeat")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def filebeat_missing() -> str | None:
    """Return why Filebeat cannot run here, or ``None``."""
    if filebeat_path():
        return None
    return f"Filebeat {VERSION} is not built: run tests/interop/setup.sh (it needs Go)"


class FilebeatFailed(Exception):
    """Filebeat ended, or shipped nothing."""


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def configuration(log: Path, server: str, level: int, windows: int, port: int) -> dict[str, Any]:
    """Return the configuration of Filebeat."""
    return {
        "filebeat.inputs": [{"type": "log", "paths": [str(log)], "harvester_buffer_size": 65536}],
        "queue.mem": {"events": 16384, "flush.min_events": 2048, "flush.timeout": "0s"},
        "output.logstash": {
            "hosts": [server],
            "compression_level": level,
            "pipelining": windows,
            "bulk_max_size": 2048,
        },
        "http": {"enabled": True, "host": "127.0.0.1", "port": port},
        "logging.level": "error",
        "logging.metrics.enabled": False,
    }


class Filebeat:
    """A running Filebeat."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process: Final = process
        self._url: Final = f"http://127.0.0.1:{port}/stats"

    def acknowledged(self) -> int:
        """Return how many events were acknowledged; 0 while it starts."""
        if self._process.poll() is not None:
            raise FilebeatFailed(f"Filebeat ended with {self._process.returncode}")
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:
                return int(json.load(answer)["libbeat"]["output"]["events"].get("acked", 0))
        except (OSError, KeyError):
            return 0

    def wait_until(self, acknowledged: int, seconds: float) -> tuple[float, int]:
        """Wait until so many events are acknowledged; return the time and their number."""
        deadline = time.perf_counter() + seconds
        while (count := self.acknowledged()) < acknowledged:
            if time.perf_counter() > deadline:
                raise FilebeatFailed(f"{count} events were acknowledged in {seconds:g} s")
            time.sleep(_POLL)  # Filebeat has to be asked for its counts.
        return time.perf_counter(), count


@contextmanager
def running(log: Path, server: str, level: int, windows: int) -> Iterator[Filebeat]:
    """Run Filebeat during the block."""
    with tempfile.TemporaryDirectory(dir=log.parent) as home:
        port = free_port()
        config = Path(home) / "filebeat.yml"
        config.write_text(json.dumps(configuration(log, server, level, windows, port)))
        config.chmod(0o600)
        command = [str(filebeat_path()), "-c", str(config), "--path.home", home]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr
        )
        try:
            yield Filebeat(process, port)
        finally:
            process.kill()
            process.wait()


def ship(log: Path, server: str, command: dict[str, Any]) -> dict[str, Any]:
    """Measure one run."""
    with running(log, server, command["level"], command["windows"]) as filebeat:
        begun, before = filebeat.wait_until(_WARM_UP, _START)
        time.sleep(command["seconds"])  # It is measured meanwhile.
        # Events are acknowledged in windows, so the clock stops at the end of one.
        ended, count = filebeat.wait_until(filebeat.acknowledged() + 1, _START)
        if count >= _LINES:
            raise FilebeatFailed(f"the file of {_LINES} lines is too short")
        return {"count": count - before, "elapsed": ended - begun, "handled": count}


def main() -> None:
    """Obey commands until there are no more."""
    server = sys.argv[1].rpartition("/")[2]
    with tempfile.TemporaryDirectory(prefix="filebeat-") as directory:
        log = Path(directory) / "lines.log"
        write_log(log, _LINES)
        while (command := read_command()) is not None:
            try:
                write_outcome(ship(log, server, command))
            except FilebeatFailed as error:
                write_outcome({"error": str(error)})


if __name__ == "__main__":
    main()
