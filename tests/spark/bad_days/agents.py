"""What is sent: files with numbered lines, and the agents that ship them."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from tests.interop.support.filebeat import Filebeat

from .programs import Program, rsocket_trio, until

WINDOW = 100
"""Events of one window. Small windows, so that there are many of them to lose."""


def text_of(name: str, number: int) -> str:
    """The contents of a line: all lines of all files are different, also in their length."""
    return f'{name} {number} ä€\U0001f980 "\\ {"x" * (number * 7919 % 97)}'


class Log:
    """A file with numbered lines.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def write(self, count: int) -> None:
        """Append lines."""
        numbers = range(self.count, self.count + count)
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.writelines(text_of(self.path.stem, number) + "\n" for number in numbers)
        self.count += count

    @property
    def lines(self) -> list[str]:
        """All lines, in order."""
        return [text_of(self.path.stem, number) for number in range(self.count)]

    def lines_before(self, offset: int) -> int:
        """The number of lines in so many bytes of the file."""
        return self.path.read_bytes()[:offset].count(b"\n")


def sent(*logs: Log) -> Counter[str]:
    """The lines of files, each of them once."""
    return Counter(line for log in logs for line in log.lines)


class Agent:
    """``rsocket-trio lumberjack ship``, which can be killed and started again.

    Args:
        log: What it ships.
        uris: The collectors.
        options: More options of the command.
    """

    def __init__(self, scene: Any, log: Log, *uris: str, options: tuple[str, ...] = ()) -> None:
        self.log = log
        self._scene = scene
        self._registry = log.path.with_suffix(".registry")
        targets = [argument for uri in uris for argument in ("--to", uri)]
        self._command = rsocket_trio(
            *("lumberjack", "ship", str(log.path), *targets, "--registry", str(self._registry)),
            *("--window", str(WINDOW), "--status-json", "--verbose", *options),
        )
        self.program: Program

    def start(self) -> Agent:
        """Start it. It ends when everything that is in the file is acknowledged."""
        self.program = self._scene.program(f"agent-{self.log.path.stem}", self._command)
        return self

    def done(self) -> dict[str, Any]:
        """Wait until it has ended with everything acknowledged, and return its last state.

        Among others, it has ``reconnects`` and ``events_resent``.
        """
        status = self.program.ended()
        assert status == 0, self.program.errors
        state: dict[str, Any] = json.loads(self.program.lines()[-1])
        assert state["state"] == "done"
        return state

    def kill(self) -> None:
        """As a crash: only its registry is left."""
        self.program.process.send_signal(signal.SIGKILL)
        self.program.process.wait()

    def registered(self) -> int:
        """The offset in the file up to which lines are acknowledged, as the registry says."""
        try:
            files = json.loads(self._registry.read_text())["files"]
        except FileNotFoundError:
            return 0
        return max((each["offset"] for each in files), default=0)

    def wait_registered(self, offset: int = 1) -> None:
        """Wait until everything before an offset of the file is acknowledged."""
        until(
            lambda: self.registered() >= offset,
            f"{self.program.name} gets acknowledgements",
            details=lambda: self.program.errors,
        )


class BeatAgent:
    """A Filebeat that ships a file; it can be killed and started again.

    Args:
        scene: What ends it.
        name: The name of the file.
        count: The lines of the file.
        uris: The collectors.
        output: More settings of its output.
    """

    def __init__(self, scene: Any, name: str, count: int, *uris: str, **output: Any) -> None:
        directory: Path = scene.directory / f"filebeat-{name}"
        directory.mkdir()
        self._beat = Filebeat(directory, uris, bulk_max_size=WINDOW, **output)
        self.log = Log(self._beat.logs / f"{name}.log")
        self.log.write(count)
        self._scene = scene

    def start(self) -> BeatAgent:
        """Start it."""
        name = f"filebeat-{self.log.path.stem}"
        self.program: Program = self._scene.program(name, self._beat.command)
        return self

    @property
    def errors(self) -> str:
        """What it has logged."""
        return self.program.errors

    def kill(self) -> None:
        """As a crash: only its registry is left."""
        self.program.kill()

    def registered(self) -> int:
        """The offset in the file up to which lines are acknowledged, as its registry says."""
        return self._beat.registered().get(self.log.path.name, 0)

    def wait_registered(self) -> None:
        """Wait until everything is acknowledged."""
        size = self.log.path.stat().st_size
        until(
            lambda: self.registered() == size,
            "Filebeat has all acknowledgements",
            details=lambda: (self.registered(), size, self.errors[-3000:]),
        )
