"""Filebeat as it is, with a configuration and a registry of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from .installed import FILEBEAT
from .processes import Peer, ends_with_stdin, running


class Filebeat:
    """A Filebeat that ships ``logs/*.log`` of its directory.

    Args:
        directory: For its logs, its configuration and its registry.
        uris: The servers.
        output: More settings of ``output.logstash``.
    """

    def __init__(self, directory: Path, uris: Sequence[str], **output: Any) -> None:
        self.logs = directory / "logs"
        self._config = directory / "filebeat.yml"
        self._data = directory / "data"
        self.logs.mkdir()
        settings = {
            "filebeat.inputs": [
                {
                    "type": "log",
                    "paths": [f"{self.logs}/*.log"],
                    "scan_frequency": "200ms",
                    "backoff": "50ms",
                    "max_backoff": "50ms",
                }
            ],
            # At once: the tests look into it.
            "filebeat.registry.flush": "0s",
            "path": {"home": str(directory), "data": str(self._data)},
            "queue.mem": {"flush.timeout": "50ms"},
            "logging": {"to_stderr": True, "metrics.enabled": False},
            "output.logstash": {
                "hosts": [uri.partition("://")[2] for uri in uris],
                "backoff": {"init": "100ms", "max": "200ms"},
                **output,
            },
        }
        # JSON is YAML.
        self._config.write_text(json.dumps(settings))
        self._config.chmod(0o600)

    def write(self, lines: Iterable[str], name: str = "a.log") -> None:
        """Append lines to a log."""
        with (self.logs / name).open("a", encoding="utf-8", newline="") as log:
            log.writelines(line + "\n" for line in lines)

    @property
    def command(self) -> list[str]:
        """The command that runs it."""
        return [str(FILEBEAT), "-c", str(self._config), "--strict.perms=false"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Peer]:
        """Run it for the length of the block."""
        async with running(ends_with_stdin(self.command)) as peer:
            yield peer

    def registered(self) -> dict[str, int]:
        """Return the offset up to which each log was acknowledged, as its registry says."""
        offsets: dict[str, int] = {}
        for text in self._registry():
            entry = json.loads(text)
            # Lines with operations come between those with values.
            if value := entry.get("v"):
                offsets[Path(value["source"]).name] = value["offset"]
        return offsets

    def _registry(self) -> list[str]:
        try:
            text = (self._data / "registry/filebeat/log.json").read_text()
        except FileNotFoundError:
            return []
        # It may be writing the last line.
        return text[: text.rfind("\n") + 1].splitlines()

    async def wait_registered(self) -> None:
        """Wait until the registry says that each log was acknowledged to its end."""
        sizes = {path.name: path.stat().st_size for path in self.logs.iterdir()}
        while self.registered() != sizes:
            await trio.sleep(0.02)
