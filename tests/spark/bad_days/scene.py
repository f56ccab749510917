"""The programs of a test, and its directory: `Scene`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from .agents import Agent, Log
from .collectors import Collector
from .gate import Gate
from .programs import Program
from .relay import Relay
from .spark_app import LOCAL, SparkApplication


class Scene:
    """A pipeline that is tested. All of its programs end with the block.

    Args:
        directory: For all files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint = directory / "checkpoint"
        self.sink = directory / "sink"
        self._stack = ExitStack()
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()
        for program in self._programs:
            assert not program.alive(), f"processes of {program.name} are left"

    def program(self, name: str, argv: Sequence[str], **options: Any) -> Program:
        """Start a program."""
        program = Program(name, argv, self.directory, **options)
        self._programs.append(program)
        self._stack.callback(program.close)
        return program

    def log(self, name: str, count: int) -> Log:
        """A file with lines."""
        log = Log(self.directory / f"{name}.log")
        log.write(count)
        return log

    def collector(self, name: str = "spool", *options: str, **environ: str) -> Collector:
        """A collector, started."""
        return Collector(self, self.directory / name, *options, **environ).start()

    def collector_of(self, command: Sequence[str]) -> Collector:
        """A collector that this command starts, started. Its spool may be out of sight."""
        return Collector(self, self.directory / "unseen", command=command).start()

    def agent(self, log: Log, *collectors: Collector, options: tuple[str, ...] = ()) -> Agent:
        """An agent, started."""
        return self.agent_to(log, *(each.agents for each in collectors), options=options)

    def agent_to(self, log: Log, *uris: str, options: tuple[str, ...] = ()) -> Agent:
        """An agent that ships to these addresses, started."""
        return Agent(self, log, *uris, options=options).start()

    def ship(self, name: str, collector: Collector, count: int) -> Log:
        """A file with lines, which an agent has shipped to a collector."""
        log = self.log(name, count)
        self.agent(log, collector).done()
        return log

    def filled(self, name: str, count: int) -> tuple[Collector, Log]:
        """A collector, and a file of the same name that it has."""
        collector = self.collector(f"spool-{name}")
        return collector, self.ship(name, collector, count)

    def application(self, master: str = LOCAL, **environ: str) -> SparkApplication:
        """A Spark application, started."""
        return SparkApplication(self, self.directory / "spark", master, **environ)

    def one_application(self) -> Callable[[], SparkApplication]:
        """Return a function that returns the same application as long as it runs."""
        found: list[SparkApplication] = []

        def running() -> SparkApplication:
            if not found or found[-1].program.process.poll() is not None:
                found.append(self.application())
            return found[-1]

        return running

    def gate(self, name: str = "gate") -> Gate:
        """A gate, shut."""
        return Gate(self.directory / name).shut()

    def file_sink(self) -> dict[str, Any]:
        """Spark's own file sink."""
        return {"format": "json", "path": str(self.sink)}

    def batch_sink(self) -> dict[str, Any]:
        """A sink that keeps each attempt to write a batch."""
        self.sink.mkdir(exist_ok=True)
        return {"format": "batches", "path": str(self.sink)}


def lumberjack(*collectors: Collector | Relay, **options: object) -> dict[str, Any]:
    """The source of a query that reads collectors, or relays in front of them."""
    addresses = ",".join(each.address for each in collectors)
    texts = {name: str(value) for name, value in options.items()}
    defaults = {"collectors": addresses, "startingOffsets": "earliest"}
    return {"format": "lumberjack", "options": {**defaults, **texts}}


def embedded(scene: Scene, port: int, **options: str) -> dict[str, Any]:
    """The source of a query that is a collector itself."""
    listen, spool = f"lumberjack://127.0.0.1:{port}", str(scene.directory / "spool")
    return {"format": "lumberjack", "options": {"listen": listen, "spool": spool, **options}}
