"""The Spark part of the benchmark runs, and measures what it says. No figure is judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.compare import BASE, HEAD, figures_of_spark, ours_of_spark
from benchmarks.report import update
from benchmarks.spark.bench import LOCAL, Bench
from benchmarks.spark.cases import SPARK_CASES, Run, SparkCase, spark_missing
from benchmarks.spark.events import make_texts, write_files
from benchmarks.spark.groups import SPARK_GROUPS
from benchmarks.spark.kafka import CASES as KAFKA_CASES
from benchmarks.spark.kafka import rows_of
from benchmarks.spark.latency import latencies
from benchmarks.spark.measuring import Measurement
from benchmarks.spark.processor import JVM, SPARK, WORKERS, part_of, processor_times, spent
from benchmarks.spark.report import absent_lines, spark_lines
from benchmarks.spark.running import take_turns

SCALE = 0.002
MISSING = spark_missing()


ALIKE = {
    ("spark/raw-noop", ""),
    ("spark/raw-parquet", ""),
    ("spark/decoded-parquet", "Spark's file source"),
    ("spark/decoded-noop", "rsocket_trio, compressed"),
    ("spark/drain", "decoded, compressed"),
    ("spark/drain", "as they came"),
    ("spark/backlog", "decoded, no sink"),
    ("spark/backlog", "decoded, compressed, no sink"),
    ("spark/backlog", "their bytes alone, no sink"),
    ("spark/backlog", "as they came, no sink"),
    ("spark/short-0", ""),
    ("spark/rsocket-binary", "stream"),
    ("spark/rsocket-utf8", ""),
    ("spark/rsocket-json", "stream"),
    ("spark/rsocket-cbor", "stream"),
    ("spark/scale-1", ""),
    ("spark/scale-4", ""),
}
"""Runs that differ from others in parameters only; without a title: all runs of the case."""


def runs() -> Iterator[tuple[SparkCase, Run]]:
    """The runs, each kind once."""
    for case in SPARK_CASES:
        for run in case.runs:
            if not {(case.name, ""), (case.name, run.title)} & ALIKE:
                yield case, run


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The programs, with one session of Spark for all tests."""
    with Bench(str(tmp_path_factory.mktemp("bench")), first=1) as made:
        yield made


needs_spark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@needs_spark
@pytest.mark.jvm
def test_spark_starts(bench: Bench) -> None:
    """The application has a session. The tests behind this one use it."""
    app = bench.spark(LOCAL)
    assert bench.spark(LOCAL) is app
    assert app.process.poll() is None


@needs_spark
@pytest.mark.jvm
@pytest.mark.parametrize(
    ("case", "run"), [pytest.param(*each, id=f"{each[0].name}-{each[1].title}") for each in runs()]
)
def test_each_run_counts_its_rows(bench: Bench, case: SparkCase, run: Run) -> None:
    """Each run ends, and has a rate, processor time of Spark, and latencies if it says so.

    A run itself compares the rows with the events that were sent.
    """
    if absent := run.missing():
        pytest.skip(absent)
    measured = run.measure(bench, LOCAL, SCALE)
    assert measured.count > 0
    assert measured.seconds > 0
    assert JVM in measured.processor
    has_latencies = case.name in {"spark/latency", "spark/short-2048"}
    assert len(measured.latencies) == (2 if has_latencies else 0)
    assert list(measured.latencies) == sorted(measured.latencies)


@needs_spark
@pytest.mark.jvm
def test_each_checkout_runs_its_own_package(bench: Bench, tmp_path: Path) -> None:
    """Runs take turns; a failure of one of them, whose package is another, is that of it alone."""
    package = tmp_path / "rsocket_trio"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('the base has no such thing')")
    (tmp_path / "benchmarks").symlink_to(Path(__file__).parents[1] / "benchmarks")
    case = next(case for case in SPARK_CASES if case.name == "spark/drain")
    said: list[str] = []
    with Bench(str(tmp_path), first=1, checkout=tmp_path) as broken:
        turns = {BASE: (case.runs[-1], broken), HEAD: (case.runs[-1], bench)}
        found = take_turns(LOCAL, turns, 2, SCALE, said.append, warm_up=False)
    assert "no such thing" in str(found[BASE])
    assert "base FAILED" in said[0]
    assert [type(each) for each in found[HEAD]] == [Measurement, Measurement]


def test_peers_are_not_compared() -> None:
    """Two checkouts are compared in the runs that use the package."""
    ours = {run.title for _, run in ours_of_spark(SPARK_CASES)}
    others = {run.title for case in SPARK_CASES for run in case.runs} - ours
    spark = {"Spark's file source", "Spark's `socket` source", "Spark's JSON files"}
    assert others == {*spark, "a trivial source"}


def test_figures_of_spark() -> None:
    """Parts that used no time in a run have a figure there, and latencies only if there are any."""
    measured = [
        Measurement(count=10, seconds=2.0, processor={JVM: 1.0}),
        Measurement(count=10, seconds=1.0, processor={JVM: 1.0, WORKERS: 0.5}),
    ]
    assert figures_of_spark(measured) == {
        "rate, /s": [5.0, 10.0],
        "processor, µs": [100_000.0, 150_000.0],
        "processor of JVM, µs": [100_000.0, 100_000.0],
        "processor of workers, µs": [0.0, 50_000.0],
        "p50, ms": [],
        "p99, ms": [],
    }


def test_processor_time_of_a_tree() -> None:
    """Time of a child counts for its parent's part, while the child runs and afterwards."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    nested = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {burn!r}])
print(flush=True)
input()
"""
    command = [sys.executable, "-c", nested]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # The child has used its time.
        running = processor_times({"tree": [process.pid]})["tree"]
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()  # It has ended.
        after = processor_times({"tree": [process.pid]})
        process.stdin.close()
    # The system counts whole ticks, of two kinds for each of the two programs.
    assert 0.3 - 4 / os.sysconf("SC_CLK_TCK") <= running <= after["tree"]
    assert spent({"tree": running}, after)["tree"] == after["tree"] - running


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (b"/usr/lib/jvm/bin/java\0-cp\0x", JVM),
        (b"python\0-m\0pyspark.daemon\0pyspark.worker", WORKERS),
        (b"python\0-m\0pyspark.daemon\0pyspark.sql.worker.plan_data_source_read", "driver"),
        (b"python\0-m\0benchmarks.spark.spark_app\0local[2]", "driver"),
    ],
)
def test_parts_of_spark(command: bytes, part: str) -> None:
    """The JVM, the workers of executors, and all other processes are told apart."""
    assert part_of(command) == part


def test_alike_runs_are_runs() -> None:
    """The names above are those of cases and runs."""
    known = {(case.name, title) for case in SPARK_CASES for title in ("", *titles(case))}
    assert known > ALIKE


def titles(case: SparkCase) -> list[str]:
    """The titles of the runs of a case."""
    return [run.title for run in case.runs]


def test_parts_outside_spark_are_not_told_apart() -> None:
    """Only the tree of Spark has parts."""
    command = [sys.executable, "-c", "input()", "pyspark.daemon", "pyspark.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert set(processor_times({"agents": [process.pid]})) == {"agents"}
        assert WORKERS in processor_times({SPARK: [process.pid]})


def test_latencies_are_those_of_the_commits(tmp_path: Path) -> None:
    """Each row has the commit of its own batch, also in a compacted log; older ones are out."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    entries = []
    for number, sent in enumerate(([1_000_000, 2_000_000], [3_000_000])):
        file = tmp_path / f"part {number}.parquet"
        pq.write_table(pa.table({"sent": pa.array(sent, pa.int64())}), file)
        entries.append(json.dumps({"path": file.as_uri(), "action": "add"}))
        name = "0" if number == 0 else "1.compact"
        (log / name).write_text("\n".join(["v1", *entries]))
    commits = [(log / name).stat().st_ctime for name in ("0", "1.compact")]
    found = latencies(tmp_path, 1.5)
    assert found.rows == 2
    assert commits[0] - 3 - 0.01 <= found.p50 <= commits[1] - 2 + 0.01
    assert found.p99 >= found.p50


def test_files_have_the_events(tmp_path: Path) -> None:
    """The files of the file source have the events of the agents, whole windows of them."""
    count = write_files(tmp_path, 3 * 2048, 2)
    lines = [line for path in tmp_path.iterdir() for line in path.read_bytes().splitlines(True)]
    assert len(lines) == count == 2 * 2048
    texts = set(make_texts())
    assert all(line.removesuffix(b"\n") in texts for line in lines)
    assert 210 < sum(map(len, lines)) / count < 230


def test_the_report_has_a_table_for_each_group() -> None:
    """Rows that were not measured have their reason; the others stand below their case."""
    measured = [
        Measurement(count=1000, seconds=s, processor={JVM: 0.1, "agents": 0.2}, latencies=[s, s])
        for s in (1.0, 2.0)
    ]
    results = {
        case.name: {run.title: measured if run is case.runs[0] else "no luck" for run in case.runs}
        for case in SPARK_CASES
    }
    lines = spark_lines(SPARK_CASES, results)
    assert [line[3:] for line in lines if line.startswith("## ")] == list(SPARK_GROUPS.values())
    first = next(line for line in lines if line.startswith("| decoded into columns, no sink"))
    assert "**750**/s (500..1000)" in first
    assert "no luck" not in "".join(lines)
    assert all(line.endswith(": no luck") for line in absent_lines(SPARK_CASES, results))


def test_update_replaces_only_the_tables_that_were_measured() -> None:
    """Other tables and the machine stay as they are."""
    heading, other = list(SPARK_GROUPS.values())[:2]
    end = "## How to read this\n\nNotes\n"
    old = f"# Results\n\nold\n\n## {heading}\n\nold table\n\n## {other}\n\nold\n\n{end}"
    new = f"# Results\n\nnew\n\n## {heading}\n\nnew table\n\n{end}"
    merged = update(old, new, "the command")
    assert "new table" in merged
    assert "old table" not in merged
    assert f"## {other}\n\nold\n" in merged
    assert merged.startswith("# Results\n\nold\n")


def test_the_table_beside_kafka() -> None:
    """Each case has both sides, and ours divided by Kafka's, round by round."""

    def outcome(seconds: float) -> dict[str, float]:
        return {"rows": 2048, "seconds": seconds, "in batches": 0.0, "Spark": 3.0, "source": 1.0}

    found = {"rsocket_trio": [outcome(1.0), outcome(4.0)], "Kafka": [outcome(2.0), outcome(2.0)]}
    ours, kafka, shares = rows_of(KAFKA_CASES[0], found)
    assert [row[1] for row in (ours, kafka)] == ["rsocket_trio, 2048 rows", "Kafka, 2048 rows"]
    assert shares == ["decoded, noop", "ours ÷ Kafka", "1.25", "", "1.00", "1.00"]
