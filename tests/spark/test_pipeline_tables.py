"""The tables of examples/log_pipeline.py, from files instead of collectors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def part(monkeypatch):
    """Import a part of the pipeline by its name."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return lambda name: import_module(f"pipeline.{name}")


@pytest.fixture
def stream(spark, tmp_path):
    """A table that grows: ``put(rows)`` adds dicts; and a query over it, run to its end."""

    class Stream:
        def __init__(self, name, schema):
            self._input = tmp_path / name
            self._input.mkdir()
            self._files = 0
            self.table = spark.readStream.schema(schema).json(str(self._input))

        def put(self, rows):
            self._files += 1
            file = tmp_path / "written"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            file.rename(self._input / str(self._files))

    return Stream


@pytest.fixture
def started(spark, tmp_path):
    """Start a query into a table in memory; it is stopped after the test."""
    queries = []

    def start(table):
        writer = table.writeStream.format("memory").queryName("found").outputMode("append")
        queries.append(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
        return queries[0]

    yield start
    for query in queries:
        query.stop()


def event(message, offset=0, log="services.log"):
    file = {"id": log, "path": f"/var/log/{log}"}
    at = "2026-11-01T10:00:00.000Z"
    return {"message": message, "log": {"file": file, "offset": offset}, "_received_at": at}


def test_lines_become_rows(spark, part, tmp_path):
    """Lines of both logs are read; any other line keeps its text, and stops nothing."""
    tables = part("tables")
    lines = [
        '{"at":"2026-01-31T12:00:00.011Z","service":"mail","level":"ERROR","ms":12.4,"message":"x"}',
        "2026-11-01 10:00:02 install hello:amd64 <none> 2.10-3",
        "something else",
        "{not JSON",
        '{"at":"yesterday","service":"mail"}',
        "",
    ]
    events = tmp_path / "events"
    events.write_text("".join(json.dumps(event(line, n)) + "\n" for n, line in enumerate(lines)))
    rows = (
        tables.rows(spark.read.schema(tables.EVENT).json(str(events))).orderBy("at_byte").collect()
    )
    assert [(row.log, row.at_byte) for row in rows] == [("services.log", n) for n in range(6)]
    first, second, *others = rows
    assert (first.service, first.level, str(first.ms)) == ("mail", "ERROR", "12.4")
    assert first["at"].timestamp() == at(2026, 1, 31, 12, 0, 0, 11_000)
    assert (second.service, second.level, second.ms) == ("install", None, None)
    assert second["at"].timestamp() == at(2026, 11, 1, 10, 0, 2)
    assert [row.unread for row in rows] == [None, None, *lines[2:]]
    assert [row["at"] for row in others] == [None] * 4


def at(*parts):
    return datetime(*parts, tzinfo=UTC).timestamp()


def test_minutes_are_those_of_the_file(spark, part, stream, started, tmp_path):
    """Each count is that of the file, also if lines come twice; and each fault has its alerts."""
    tables, inputs, log = part("tables"), part("inputs"), tmp_path / "services.log"
    lines = list(part("service_log").lines(rate=0.5))
    log.write_text("".join(f"{line}\n" for line in lines))
    events = [event(line, number) for number, line in enumerate(lines)]
    inputs.write_end(tmp_path / "end.log")
    end = event((tmp_path / "end.log").read_text().strip(), log="end.log")
    source = stream("events", tables.EVENT)
    services = spark.createDataFrame(
        [(each.name, each.team) for each in part("service_log").SERVICES],
        "service STRING, team STRING",
    )
    rows = tables.rows(source.table).where(tables.OF_SERVICES)
    query = started(tables.minutes(rows, services))
    third = len(events) // 3
    for some in (events[:third], events[third - 500 : 2 * third], events[2 * third :], [end]):
        source.put(some)
        query.processAllAvailable()
    found = [row.asDict() for row in spark.table("found").collect()]
    counted = inputs.count_services(log)
    assert len({(row["minute"], row["service"]) for row in found}) == len(found)
    for name, of_file in (
        ("lines", counted.per_minute),
        ("errors", counted.errors),
        ("sum_ms", counted.milliseconds),
    ):
        values = {(f"{row['minute']:%Y-%m-%d %H:%M}", row["service"]): row[name] for row in found}
        assert {key: value for key, value in values.items() if value} == {
            key: value for key, value in of_file.items() if value
        }
    alerts = {(row["minute"].minute, row["service"]) for row in found if row["alert"]}
    faults = {
        (minute, fault.service)
        for fault in part("service_log").FAULTS
        for minute in range(fault.first, fault.last + 1)
    }
    assert alerts == faults
    assert {row["team"] for row in found} == {"edge", "catalogue", "money"}
    sent = tables.results(spark.table("found")).where("service = 'mail' AND lines = 0").collect()
    assert sorted(row.minute for row in sent) == [f"2026-01-31T12:{n}:00Z" for n in (52, 53, 54)]
    assert {(row.mean_ms, row.alert) for row in sent} == {(None, "silent, usually 20 lines")}


def test_lines_meet_the_samples_of_their_time(spark, part, stream, started):
    """An interval has the lines that came in it, and the samples that were taken in it."""
    tables = part("tables")
    rows = stream("rows", "received_at TIMESTAMP")
    samples = stream("samples", tables.SAMPLE)
    query = started(tables.machine(rows.table, samples.table))
    begins = at(2026, 11, 1, 10, 0)
    for part_of_time in (range(8), range(8, 16), range(16, 24)):
        moments = [begins + tick / 2 for tick in part_of_time]
        texts = [f"{datetime.fromtimestamp(each, UTC):%FT%T.%fZ}" for each in moments]
        rows.put([{"received_at": text} for text in texts] * 10)
        samples.put([{"at": each, "busy": 0.25, "tasks": 7} for each in moments])
        query.processAllAvailable()
    found = spark.table("found").orderBy("since").collect()
    assert [(row.lines, row.busy, row.tasks, row.samples) for row in found] == [
        (40, 0.25, 7, 4)
    ] * 4
    assert [row.since.second for row in found] == [0, 2, 4, 6]
