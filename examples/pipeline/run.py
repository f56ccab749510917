"""One run of the pipeline: its parts, what goes in, and what comes out."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from demo_processes import Failed, python

from . import inputs, picture, report
from .minute import Minute
from .parts import Part, Parts

HERE: Final = Path(__file__).parent
TELEMETRY: Final = HERE.parent / "host_telemetry.py"
TCP: Final = "tcp://127.0.0.1:0"  # 0: any free port
TABLES: Final = ("rows", "minutes", "machine")
LAST_ALERT: Final = 10.0
"""Seconds in which the client must see the last alert, after Spark has sent it."""
PROGRESS: Final = 10_000
"""Lines between two messages about the progress."""


@attrs.frozen
class Options:
    """What the user asks for.

    Attributes:
        output: The directory of the picture and the tables.
        seconds: The time in which the service log is written.
        limit: The longest time of a run, in seconds.
        linger: How long the servers go on at the end, so that one can look at the page.
        modules: The directory of the modules of the page, if it is not the usual one.
    """

    output: Path
    seconds: float
    limit: float
    linger: float
    modules: Path | None


class Run:
    """One run of the pipeline, with its files in a directory."""

    def __init__(self, options: Options, directory: Path, parts: Parts) -> None:
        self._options = options
        self._directory = directory
        self._parts = parts
        self._began = time.perf_counter()
        self._input = directory / "input"
        self._tables = directory / "spark"
        self._shipped = 0
        self._change = trio.Event()
        self._alerts: list[Minute] = []

    async def pipeline(self) -> None:
        """Start all parts, and compare what comes out with what went in.

        Raises:
            Failed: A count is wrong, or an alert did not come.
        """
        self._input.mkdir()
        self._tables.mkdir()
        of_machine = inputs.of_this_machine(self._input)
        async with trio.open_nursery() as nursery:
            job = await self._start(nursery)
            ready = trio.Event()
            nursery.start_soon(self._follow_job, job, ready)
            await ready.wait()
            services = self._input / "services.log"
            self._say(
                f"the queries run; {services.name} is written: an invented hour of six services"
            )
            await inputs.write_services(services, self._options.seconds)
            files = {services.name: inputs.count_services(services)}
            if of_machine is not None:
                files[of_machine.name] = inputs.count_dpkg(of_machine)
            await self._until_shipped(sum(contents.lines for contents in files.values()))
            found = await self._finish(job)
            await self._until_seen(sum(row["alert"] is not None for row in found["minutes"]))
            self._say("Spark has finished")
            report.show(found)
            print(f"\n  {report.prove(found, files, self._alerts)}", flush=True)
            self._keep(found)
            await trio.sleep(self._options.linger)
            nursery.cancel_scope.cancel()

    async def _start(self, nursery: trio.Nursery) -> Part:
        """Start all parts. Return the Spark program, which is not ready then."""
        [telemetry] = await self._server(
            "telemetry", "serve", f"{TELEMETRY}:router", "--listen", TCP
        )
        [samples] = await self._collector(
            "telemetry collector", "--subscribe", f"{telemetry}/host.load"
        )
        lumberjack, logs = sorted(  # by their schemes
            await self._collector(
                "log collector", "--listen", "lumberjack://127.0.0.1:0", addresses=2
            )
        )
        results, page = await self._results()
        settings = {
            "logs": logs,
            "telemetry": samples,
            "results": results,
            "directory": str(self._tables),
        }
        self._path("settings.json").write_text(json.dumps(settings))
        files = (str(self._path(name)) for name in ("settings.json", "findings.json"))
        job = await self._parts.start("Spark job", python(str(HERE / "job.py"), *files), ends=True)
        shipper = await self._parts.start("shipper", self._shipper(lumberjack))
        client = await self._parts.start("alerts client", self._client(results), stops_with=143)
        nursery.start_soon(self._follow_shipper, shipper)
        nursery.start_soon(self._follow_alerts, client)
        self._say(f"collectors, shipper and alerts server run; Spark starts. A page: {page}")
        return job

    async def _server(self, name: str, *arguments: str, addresses: int = 1) -> list[str]:
        """Start a server of the command line, and return its addresses."""
        command = python("-m", "rsocket_trio", *arguments, "--quiet")
        part = await self._parts.start(name, command)
        return await part.first_lines(addresses)

    async def _collector(self, name: str, *arguments: str, addresses: int = 1) -> list[str]:
        """Start a collector, with a spool of its own."""
        spool = str(self._path(name.replace(" ", "-")))
        return await self._server(
            name, "collect", "--spool", spool, "--listen", TCP, *arguments, addresses=addresses
        )

    async def _results(self) -> list[str]:
        """Start the alerts server. Return its addresses: for Spark, and for browsers."""
        command = python(str(HERE / "alerts_server.py"), "--listen", TCP, "--http", "0")
        if self._options.modules is not None:
            command += ["--modules", str(self._options.modules)]
        part = await self._parts.start("alerts server", command)
        return await part.first_lines(2)

    def _shipper(self, to: str) -> list[str]:
        registry = str(self._path("registry.json"))
        files = str(self._input / "*.log")
        return python(
            *("-m", "rsocket_trio", "lumberjack", "ship", "--follow", files, "--to", to),
            *("--registry", registry, "--poll", "0.2", "--status-json", "--quiet"),
        )

    @staticmethod
    def _client(server: str) -> list[str]:
        return python(
            *("-m", "rsocket_trio", "stream", server, "--route", "alerts"),
            *("--data-mime", "application/json", "--quiet"),
        )

    async def _follow_shipper(self, shipper: Part) -> None:
        async for line in shipper:
            self._shipped = json.loads(line)["lines_acknowledged"]
            self._changed()

    async def _follow_alerts(self, client: Part) -> None:
        async for line in client:
            alert = Minute(**json.loads(line))
            self._alerts.append(alert)
            self._say(f"ALERT {alert.minute[11:16]} {alert.service}: {alert.alert}")
            self._changed()

    async def _follow_job(self, job: Part, ready: trio.Event) -> None:
        shown = 0
        async for line in job:
            word, _, number = line.partition(" ")
            if word == "ready":
                ready.set()
            elif word == "read" and int(number) >= shown + PROGRESS:
                shown = int(number)
                self._say(f"Spark has read {shown:,} lines")

    def _changed(self) -> None:
        self._change.set()
        self._change = trio.Event()

    async def _until_shipped(self, lines: int) -> None:
        """Wait until the collector has all lines, and move the watermark behind the last one."""
        while self._shipped < lines:
            await self._change.wait()
        inputs.write_end(self._input / "end.log")
        while self._shipped < lines + 1:
            await self._change.wait()
        self._say(f"all {lines:,} lines are shipped and acknowledged")

    async def _finish(self, job: Part) -> dict[str, Any]:
        """Let all lines go through all queries. Return what the tables contain then."""
        assert job.process.stdin is not None
        with suppress(trio.BrokenResourceError):  # it has ended
            await job.process.stdin.send_all(b"finish\n")
        status = await job.process.wait()
        if status != 0:
            raise job.failed(f"ended with status {status}")
        found: dict[str, Any] = json.loads(self._path("findings.json").read_text())
        return found

    async def _until_seen(self, alerts: int) -> None:
        with trio.move_on_after(LAST_ALERT) as patience:
            while len(self._alerts) < alerts:
                await self._change.wait()
        if patience.cancelled_caught:
            raise Failed(f"the client has seen {len(self._alerts)} alerts of {alerts}")

    def _keep(self, found: dict[str, Any]) -> None:
        """Keep the tables and the picture in the directory of the user."""
        kept = self._options.output / "tables"
        shutil.rmtree(kept, ignore_errors=True)
        for name in TABLES:
            (kept / name).mkdir(parents=True)
            for file in _files(self._tables / name):
                shutil.copy(file, kept / name)
        minutes = report.minutes(found)
        lines = sum(each.lines for each in minutes)
        text = f"{lines:,} lines of services.log; shaded: {len(self._alerts)} alerts"
        drawing = self._options.output / "pipeline.svg"
        drawing.write_text(picture.draw(minutes, text))
        print(f"  a picture: {drawing}; the tables, in Parquet: {kept}", flush=True)

    def _path(self, name: str) -> Path:
        return self._directory / name

    def _say(self, text: str) -> None:
        print(f"  {time.perf_counter() - self._began:4.0f} s  {text}", flush=True)


def _files(table: Path) -> Iterator[Path]:
    """Return the files of a table that Spark has committed: those in its log, by their new place.

    The log has absolute paths, so a copy of it would be of no use.
    """
    for log in (table / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            yield table / Path(json.loads(line)["path"]).name
