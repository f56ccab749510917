"""A responder of ``delivery=replay`` as a program, which can be killed and started again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .agents import Log
from .arrived import Row
from .gate import Gate
from .programs import Program


class Replayer:
    """Serves files; each is a partition, and each line is an element.

    Args:
        scene: What ends it.
        logs: The files.

    Attributes:
        uri: Its address, also after it was started again.
        gate: While it is shut, ranges stop in their middle.
    """

    def __init__(self, scene: Any, *logs: Log) -> None:
        self._scene = scene
        self.gate = Gate(scene.directory / "replayer-gate")
        self._files = [str(log.path) for log in logs]
        self.uri = "tcp://127.0.0.1:0"
        self.program: Program

    def start(self) -> Replayer:
        """Start it; also again."""
        script = str(Path(__file__).with_name("replay_program.py"))
        command = [sys.executable, script, self.uri, str(self.gate.path), *self._files]
        self.program = self._scene.program("replayer", command)
        self.uri = self.program.line("its address").rpartition(" ")[2]
        return self

    def kill(self) -> None:
        """As a crash. It keeps nothing but the files."""
        self.program.kill()

    def source(self, **options: object) -> dict[str, Any]:
        """The source of a query that reads it."""
        texts = {name: str(value) for name, value in options.items()}
        defaults = {"route": "lines", "payloadFormat": "utf8"}
        return {"format": "rsocket", "options": {"uri": self.uri, **defaults, **texts}}


def replayed(columns: Mapping[str, Any]) -> Row:
    """Return a row with the default columns of ``delivery=replay``: its spool is a partition."""
    return Row(str(columns["partition"]), columns["offset"], columns["data"])
