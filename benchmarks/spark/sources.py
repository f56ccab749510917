"""The streaming sources of the cases, and what feeds each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from benchmarks.lumberjack.lines import WINDOW

if TYPE_CHECKING:
    from benchmarks.harness import Program
    from benchmarks.spark.bench import Bench, Collector

_NO_LIMIT: Final = 10**9
SOCKET_BURST: Final = 8 * WINDOW
"""Events that Spark's ``socket`` source gets at once. The time for a batch of it grows with the
square of the number of rows: 30 s for 65 000 of them."""

__all__ = ["Feed", "Files", "Lines", "Opened", "Prepared"]


class Opened(Protocol):
    """A source that a query can read, with its feeder.

    Attributes:
        source: The name of the format.
        options: Options of the reader.
        roots: The first processes of each part outside Spark.
        most: The largest number of events to be sent before the query has committed them.
    """

    source: str
    options: Mapping[str, str]
    roots: Mapping[str, Sequence[int]]
    most: int

    def begin(self) -> None:
        """Called when the query has started."""

    def send(self, events: int) -> int:
        """Let the source have about so many events; return how many."""


class Paced(Opened, Protocol):
    """A source whose feeder can send at a steady rate."""

    def pace(self, rate: int, seconds: float) -> int:
        """Send so many events a second; return how many were sent."""


class Feed(Protocol):
    """A way to feed a streaming query."""

    def opened(self, bench: Bench) -> AbstractContextManager[Opened]:
        """Return a context manager that gives an `Opened`."""


class PacedFeed(Protocol):
    """A way to feed a streaming query at a steady rate."""

    def opened(self, bench: Bench) -> AbstractContextManager[Paced]:
        """Return a context manager that gives a `Paced`."""


class _OpenFiles:
    def __init__(self, source: str, prepared: Path, directory: Path) -> None:
        self.source: Final = source
        self.options: Final = {"path": str(directory)}
        self.roots: Final[Mapping[str, Sequence[int]]] = {}
        self.most: Final = _NO_LIMIT
        self._prepared: Final = prepared
        self._directory: Final = directory
        self._linked = 0

    def begin(self) -> None:
        """Nothing is to be done."""

    def send(self, events: int) -> int:
        """Link files into the directory, whole files only."""
        from benchmarks.spark.bench import FILE_EVENTS

        files = sorted(self._prepared.iterdir())
        count = max(1, events // FILE_EVENTS)
        for number in range(count):
            os.link(files[number % len(files)], self._directory / f"{self._linked:06}.json")
            self._linked += 1
        return count * FILE_EVENTS


@attrs.frozen
class Files:
    """Spark's own file source: ``json`` or ``text``. It finds all files at once."""

    source: str

    @contextmanager
    def opened(self, bench: Bench) -> Iterator[Opened]:
        """Give a new directory."""
        with bench.directory() as directory:
            yield _OpenFiles(self.source, bench.files, directory)


class _OpenLines:
    source = "socket"

    def __init__(self, feeder: Any, address: str) -> None:
        host, _, port = address.rpartition("/")[2].rpartition(":")
        self.options: Final = {"host": host, "port": port}
        self.roots: Final = {"agents": [feeder.process.pid]}
        self.most: Final = SOCKET_BURST
        self._feeder: Final = feeder

    def begin(self) -> None:
        """Take the connection of the query."""
        self._feeder.ask("accept")

    def send(self, events: int) -> int:
        """Send lines."""
        return int(self._feeder.ask("ship", events=events)["count"])

    def pace(self, rate: int, seconds: float) -> int:
        """Send lines at a steady rate."""
        return int(self._feeder.ask("pace", rate=rate, seconds=seconds)["count"])


@attrs.frozen
class Lines:
    """Spark's ``socket`` source."""

    @contextmanager
    def opened(self, bench: Bench) -> Iterator[Paced]:
        """Give the server of lines."""
        feeder, address = bench.lines
        yield _OpenLines(feeder, address)


class _OpenCollectors:
    source = "lumberjack"

    def __init__(
        self,
        agent: Program,
        collectors: Sequence[Collector],
        *,
        level: int,
        most: int,
        options: Mapping[str, str],
    ) -> None:
        addresses = ",".join(each.readers for each in collectors)
        self.options: Final = {"collectors": addresses, **options}
        self.roots: Final = {
            "agents": [agent.process.pid],
            "collectors": [each.program.process.pid for each in collectors],
        }
        self.most: Final = most
        self._agent: Final = agent
        self._level: Final = level
        self._uris: Final = [each.agents for each in collectors]
        agent.ask("prepare", level=level)

    def begin(self) -> None:
        """Nothing is to be done."""

    def send(self, events: int) -> int:
        """Ship prepared windows; return when they are acknowledged."""
        outcome = self._agent.ask("ship", uris=self._uris, level=self._level, events=events)
        return int(outcome["count"])

    def pace(self, rate: int, seconds: float) -> int:
        """Ship small windows at a steady rate, to the first collector."""
        uri, level = self._uris[0], self._level
        outcome = self._agent.ask("pace", uri=uri, level=level, rate=rate, seconds=seconds)
        return int(outcome["count"])


@attrs.frozen(kw_only=True)
class Prepared:
    """Collectors, and an agent that ships prepared windows to all of them.

    Attributes:
        level: The level of compression; 0 is none.
        collectors: The number of collectors.
        options: Further options of the source.
        most: See `Opened`.
    """

    level: int = 0
    collectors: int = 1
    options: Mapping[str, str] = attrs.field(factory=dict)
    most: int = _NO_LIMIT

    @contextmanager
    def opened(self, bench: Bench) -> Iterator[Paced]:
        """Start new collectors with empty spools."""
        with ExitStack() as stack:
            started = [stack.enter_context(bench.collector()) for _ in range(self.collectors)]
            yield _OpenCollectors(
                bench.agent, started, level=self.level, most=self.most, options=self.options
            )
