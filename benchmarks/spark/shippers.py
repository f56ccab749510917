"""Agents that follow files, as on a host: ``rsocket-trio lumberjack ship`` and Filebeat."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.lumberjack.filebeat_client import filebeat_path
from benchmarks.lumberjack.lines import write_log

if TYPE_CHECKING:
    from benchmarks.spark.bench import Bench
    from benchmarks.spark.sources import Opened

__all__ = ["Shippers"]


def ship_command(python: str, logs: Path, server: str) -> list[str]:
    """Return the command of ``lumberjack ship``."""
    command = [python, "-m", "rsocket_trio", "lumberjack", "ship", "--quiet", "--follow"]
    return [*command, str(logs / "*.log"), "--to", server, "--no-registry", "--poll", "0.05"]


def filebeat_command(logs: Path, server: str) -> list[str]:
    """Write a configuration of Filebeat, and return its command."""
    paths = [str(logs / "*.log")]
    harvester = {"harvester_buffer_size": 65536, "scan_frequency": "100ms"}
    configuration = {
        "filebeat.inputs": [{"type": "log", "paths": paths, **harvester}],
        "queue.mem": {"events": 16384, "flush.min_events": 2048, "flush.timeout": "100ms"},
        "output.logstash": {
            "hosts": [server.rpartition("/")[2]],
            "pipelining": 2,
            "bulk_max_size": 2048,
        },
        "logging.level": "error",
        "logging.metrics.enabled": False,
    }
    config = logs / "filebeat.yml"
    config.write_text(json.dumps(configuration))
    config.chmod(0o600)
    return [str(filebeat_path()), "-c", str(config), "--path.home", str(logs / "home")]


class _OpenShippers:
    source = "lumberjack"
    most = 10**9

    def __init__(self, readers: str, logs: Path, roots: Mapping[str, Sequence[int]]) -> None:
        self.options: Final[Mapping[str, str]] = {"collectors": readers}
        self.roots: Final = roots
        self._logs: Final = logs
        self._numbers: Final = itertools.count()

    def begin(self) -> None:
        """Nothing is to be done."""

    def send(self, events: int) -> int:
        """Let the agent find a file with so many lines."""
        name = f"{next(self._numbers)}.log"
        write_log(self._logs / f"{name}.part", events)
        os.rename(self._logs / f"{name}.part", self._logs / name)
        return events


@attrs.frozen
class Shippers:
    """A collector, and an agent that follows files: ``ship`` or ``filebeat``."""

    agent: str

    @contextmanager
    def opened(self, bench: Bench) -> Iterator[Opened]:
        """Start both."""
        with bench.collector() as collector, bench.directory() as logs:
            if self.agent == "ship":
                command = ship_command(bench.python, logs, collector.agents)
            else:
                command = filebeat_command(logs, collector.agents)
            with bench.program(command) as agent:
                each = {"agents": agent, "collectors": collector.program}
                roots = {name: [running.process.pid] for name, running in each.items()}
                try:
                    yield _OpenShippers(collector.readers, logs, roots)
                finally:
                    agent.process.kill()
