"""The programs and directories of the Spark cases, which start when a case needs them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs

from benchmarks.harness import Program, program
from benchmarks.lumberjack.lines import WINDOW
from benchmarks.model import ROOT
from benchmarks.spark.events import write_files

__all__ = ["CLUSTER", "FILE_EVENTS", "LOCAL", "Bench", "Collector"]

LOCAL: Final = "local[2]"
CLUSTER: Final = "local-cluster[2,1,1024]"

FILE_EVENTS: Final = 32 * WINDOW
"""Events of a file that the file source reads."""
_FILES: Final = 4
_PATIENCE: Final = 300.0
"""Seconds for a command of the Spark application. A session starts in 10 s, and in 70 s on a busy
machine."""


@attrs.frozen
class Collector:
    """A collector that runs.

    Attributes:
        program: Its process.
        agents: Its address for agents.
        readers: Its address for readers.
    """

    program: Program
    agents: str
    readers: str


class Bench:
    """Starts the programs. Use it as a context manager.

    Args:
        scratch: Where to keep files; the system's directory for temporary files if ``None``.
        first: The events that a query reads before it is measured.
        checkout: The working directory of the programs, where Python looks for modules first.
        python: The Python that runs them.
    """

    def __init__(
        self,
        scratch: str | None = None,
        *,
        first: int = FILE_EVENTS,
        checkout: Path = ROOT,
        python: str = sys.executable,
    ) -> None:
        self.first: Final = first
        self.python: Final = python
        self._checkout: Final = checkout
        self._scratch: Final = scratch
        self._stack: Final = ExitStack()
        self._session: ExitStack | None = None
        self._master = ""

    def __enter__(self) -> Self:
        self._home = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory("", "spark-", self._scratch))
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end_session()
        self._stack.__exit__(kind, error, trace)

    def end_session(self) -> None:
        """End the Spark application, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def program(self, command: Sequence[str]) -> AbstractContextManager[Program]:
        """Run a program during the block."""
        return program(command, self._checkout)

    def _module(self, name: str, *args: str) -> AbstractContextManager[Program]:
        return self.program([self.python, "-m", f"benchmarks.{name}", *args])

    def spark(self, master: str) -> Program:
        """Return the Spark application with this master; one with another master ends."""
        if self._session is None or master != self._master:
            self.end_session()
            self._session, self._master = ExitStack(), master
            self._app = self._session.enter_context(self._module("spark.spark_app", master))
            self._app.patience = _PATIENCE
            self._app.read_line()
        return self._app

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """Give a new directory, which is removed afterwards."""
        with tempfile.TemporaryDirectory(dir=self._home, ignore_cleanup_errors=True) as made:
            yield Path(made)

    @contextmanager
    def collector(self, *options: str) -> Iterator[Collector]:
        """Run a collector with an empty spool during the block."""
        command = [self.python, "-m", "rsocket_trio", "collect", "--quiet", "--max-size", "2G"]
        command += options
        with self.directory() as spool:
            command += ["--spool", str(spool)]
            for address in ("lumberjack://127.0.0.1:0", "tcp://127.0.0.1:0"):
                command += ["--listen", address]
            with self.program(command) as running:
                agents, readers = (running.read_line().split()[-1] for _ in range(2))
                yield Collector(running, agents, readers)
                running.process.terminate()

    @cached_property
    def files(self) -> Path:
        """A directory with files of events."""
        directory = self._home / "prepared"
        directory.mkdir()
        write_files(directory, _FILES * FILE_EVENTS, _FILES)
        return directory

    @cached_property
    def agent(self) -> Program:
        """The agent of prepared windows."""
        return self._stack.enter_context(self._module("spark.agent"))

    @cached_property
    def responder(self) -> tuple[Program, str]:
        """The responder of RSocket, and its address."""
        responder = self._stack.enter_context(self._module("spark.responder"))
        return responder, responder.read_line().split()[1]

    @cached_property
    def sink(self) -> tuple[Program, str]:
        """The server that only acknowledges, and its address."""
        sink = self._stack.enter_context(self._module("lumberjack.sink", "tcp"))
        return sink, sink.read_line().split()[1]

    @cached_property
    def lines(self) -> tuple[Program, str]:
        """The server of lines, and its address."""
        feeder = self._stack.enter_context(self._module("spark.lines_server"))
        return feeder, feeder.read_line().split()[1]
