"""Spark reads the same events out of a collector and out of Kafka, in turns: ``make bench-kafka``.

Kafka's broker, its connector for Spark and a Spark of the same version come from
benchmarks/kafka/setup.sh. The events of 221 bytes are stored by both before; a run reads what there
is with the trigger ``availableNow``, by default options on both sides, and ends.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks import machine
from benchmarks.harness import Program, program
from benchmarks.model import ROOT
from benchmarks.report import cell, ratio, table
from benchmarks.spark.bench import Bench, Collector
from benchmarks.spark.events import SCHEMA, write_files

TARGET: Final = ROOT / "benchmarks/kafka/target"
_PYTHON: Final = TARGET / "venv/bin/python"
_TOPIC: Final = "events"
_PARTITIONS: Final = 4
_FEW: Final = 2048

Outcome = Mapping[str, Any]


@attrs.frozen
class Case:
    """What both sides do.

    Attributes:
        title: The title of the row.
        decoded: Whether events become columns; else they stay texts.
        sink: The format of the sink.
        new: How many events are new after the query has read all others; ``None``: all are.
    """

    title: str
    decoded: bool = True
    sink: str = "noop"
    new: int | None = None


CASES: Final = (
    Case("decoded, noop"),
    Case("decoded, Parquet", sink="parquet"),
    Case("raw text, noop", decoded=False),
    Case("nothing new", new=0),
    Case(f"{_FEW} new events", new=_FEW),
)


class Side:
    """One of the two, with its events.

    Attributes:
        name: Its name.
        roots: The processes that serve the source.
    """

    def __init__(self, bench: Bench, app: Program) -> None:
        self._bench: Final = bench
        self._app: Final = app

    name: str
    roots: Mapping[str, Sequence[int]]

    def store(self, events: int) -> None:
        """Store so many events, in whole windows."""
        raise NotImplementedError

    def source(self, case: Case) -> dict[str, Any]:
        """Return what reads them."""
        raise NotImplementedError

    def run(self, case: Case) -> Outcome:
        """Read what there is."""
        with self._bench.directory() as directory:
            command = {
                "sink": case.sink,
                "directory": str(directory),
                "roots": self.roots,
                **self.source(case),
            }
            if case.new is not None:
                # The first run of ours only chooses its places.
                self._app.ask("read", **command)
                self._app.ask("read", **command)
                if case.new:
                    self.store(case.new)
            return self._app.ask("read", **command)


class Ours(Side):
    """A collector, which keeps what was read."""

    name = "rsocket_trio"

    def __init__(self, bench: Bench, app: Program, collector: Collector) -> None:
        super().__init__(bench, app)
        self._collector: Final = collector
        self.roots = {"collector": [collector.program.process.pid]}

    def store(self, events: int) -> None:
        """Ship prepared windows."""
        self._bench.agent.ask("ship", uris=[self._collector.agents], level=0, events=events)

    def source(self, case: Case) -> dict[str, Any]:
        """Return the source, for a consumer of its own."""
        options = {"collectors": self._collector.readers, "consumer": str(uuid.uuid4())}
        if case.decoded:
            return {"source": "lumberjack", "options": options, "schema": SCHEMA, "select": []}
        return {
            "source": "lumberjack",
            "options": options,
            "schema": None,
            "select": [["value"]],
        }


class Kafka(Side):
    """A broker with one topic."""

    name = "Kafka"

    def __init__(self, bench: Bench, app: Program, broker: Program, address: str) -> None:
        super().__init__(bench, app)
        self._options: Final = {"kafka.bootstrap.servers": address}
        self.roots = {"broker": [broker.process.pid]}

    def store(self, events: int) -> None:
        """Let Spark's sink write them, in the batches of a producer that is set for much."""
        options = self._options | {
            "topic": _TOPIC,
            "kafka.linger.ms": "50",
            "kafka.batch.size": "262144",
        }
        with self._bench.directory() as directory:
            write_files(directory, events, 1 if events <= _FEW else _PARTITIONS)
            self._app.ask("produce", files=str(directory), options=options)

    def source(self, case: Case) -> dict[str, Any]:
        """Return the source."""
        options = self._options | {"subscribe": _TOPIC, "startingOffsets": "earliest"}
        text = "CAST(value AS STRING) AS value"
        decoded = [[f"from_json(CAST(value AS STRING), '{SCHEMA}') AS event"], ["event.*"]]
        return {
            "source": "kafka",
            "options": options,
            "schema": None,
            "select": decoded if case.decoded else [[text]],
        }


@contextmanager
def broker(directory: Path) -> Iterator[tuple[Program, str]]:
    """Run a broker of Kafka, alone, during the block; give it and its address."""
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        port, control = (each.getsockname()[1] for each in (one, two))
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{control}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": directory / "logs",
        "num.partitions": _PARTITIONS,
        "offsets.topic.replication.factor": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx1g", "-Xms1g", "-cp", str(TARGET / "broker/*")]
    format_it = ["kafka.tools.StorageTool", "format", "--standalone", "--config", str(file)]
    with program([*java, *format_it, "--cluster-id", "4L6g3nShT-eMCtK--X86sw"]) as formatting:
        formatting.process.wait(60)
    with program([*java, "kafka.Kafka", str(file)]) as running:
        try:
            yield running, f"127.0.0.1:{port}"
        finally:
            running.process.terminate()


def measure(bench: Bench, events: int, rounds: int) -> dict[str, dict[str, list[Outcome]]]:
    """Measure all cases; return the outcomes by the titles of the cases and the names of sides."""
    app_command = [str(_PYTHON), "-m", "benchmarks.spark.kafka_app", str(TARGET / "connector")]
    found: dict[str, dict[str, list[Outcome]]] = {}
    with (
        bench.directory() as directory,
        broker(directory) as (running, address),
        bench.collector("--keep-size", "1900M") as collector,
        bench.program(app_command) as app,
    ):
        app.patience = 600.0
        app.read_line()
        sides = (Ours(bench, app, collector), Kafka(bench, app, running, address))
        for side in sides:
            side.store(events)
            side.run(CASES[0])  # HotSpot compiles.
        for case in CASES:
            for number in range(rounds):
                for side in sides if number % 2 else reversed(sides):
                    outcome = side.run(case)
                    found.setdefault(case.title, {}).setdefault(side.name, []).append(outcome)
                    say(f"{case.title}, {side.name}: {outcome}")
    return found


def rows_of(case: Case, found: Mapping[str, Sequence[Outcome]]) -> Iterator[list[str]]:
    """Give the rows of a case: ours, Kafka's, and the ratio of ours to Kafka's."""
    names = ["seconds", "in batches", "Spark", "source"]
    for side in (Ours.name, Kafka.name):
        rows = found[side][0]["rows"]
        values = [[each[name] for each in found[side]] for name in names]
        yield [case.title, f"{side}, {rows} rows", *(cell(each, " s") for each in values)]
    pairs = [
        [[each[name] for each in found[side.name]] for side in (Ours, Kafka)] for name in names
    ]
    shares = [ratio(ours, other) if all(other) else "" for ours, other in pairs]
    yield [case.title, "ours ÷ Kafka", *shares]


def say(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def missing() -> str | None:
    """Return the reason why nothing can run here, or ``None``."""
    if not shutil.which("java"):
        return "there is no Java"
    return None if _PYTHON.exists() else "benchmarks/kafka/setup.sh has not run"


def main() -> int:
    """Measure, and print the table. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.kafka", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds per case (default 5)")
    parser.add_argument("--events", type=int, default=2_000_000, help="events that are stored")
    given = parser.parse_args()
    if (reason := missing()) is not None:
        say(f"Kafka is left out: {reason}")
        return 0
    with Bench() as bench:
        found = measure(bench, given.events, given.rounds)
    header = [
        "case",
        "source",
        "from start to end",
        "in batches",
        "Spark's processor",
        "the source's",
    ]
    rows = [row for case in CASES for row in rows_of(case, found[case.title])]
    print(*machine.describe(), "", *table(header, rows, texts=2), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
