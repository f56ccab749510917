"""Collectors, which can be killed and started again on the same addresses."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rsocket_trio.spool import SpoolDescription, describe_spool

from .programs import Program, rsocket_trio, until

ANY_PORT = ("lumberjack://127.0.0.1:0", "tcp://127.0.0.1:0")


class Collector:
    """``rsocket-trio collect``.

    Args:
        scene: What ends it.
        directory: The spool.
        options: More options of the command.
        command: The command, if it is not the usual one.

    Attributes:
        agents: The address for agents.
        readers: The address for readers.
    """

    def __init__(
        self,
        scene: Any,
        directory: Path,
        *options: str,
        command: Sequence[str] | None = None,
        **environ: str,
    ) -> None:
        self.directory = directory
        self._scene = scene
        own = rsocket_trio("collect", "--spool", str(directory))
        self._command = [*(command or own), *options]
        self._environ = environ
        self.agents, self.readers = ANY_PORT
        self.program: Program

    def start(self) -> Collector:
        """Start it; also again, and then on the addresses that it had."""
        command = list(self._command)
        for uri in (self.agents, self.readers):
            command += ["--listen", uri]
        self.program = self._scene.program(
            f"collector-{self.directory.name}", command, environ=self._environ
        )
        found = [self.program.line("its address") for _ in range(2)]
        uris = {uri.partition(":")[0]: uri for uri in (line.rpartition(" ")[2] for line in found)}
        self.agents, self.readers = uris["lumberjack"], uris["tcp"]
        return self

    def kill(self) -> None:
        """As a crash: only its spool is left."""
        self.program.kill()

    def wipe(self) -> None:
        """Its disk is lost."""
        shutil.rmtree(self.directory)

    def spool(self) -> SpoolDescription:
        """What its spool holds."""
        return describe_spool(self.directory)

    def wait_head(self, head: int) -> None:
        """Wait until there are so many events in its spool, deleted ones included."""
        until(
            lambda: self.spool().head >= head,
            f"{self.program.name} has {head} events",
            details=lambda: f"{self.spool()}\n{self.program.errors[-2000:]}",
        )

    @property
    def address(self) -> str:
        """Its address for readers, as the option ``collectors`` takes it."""
        return self.readers
