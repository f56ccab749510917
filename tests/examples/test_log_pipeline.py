"""``log_pipeline.py`` as a program: a whole run, and runs that fail or are stopped."""

import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def pipeline(examples, environment, tmp_path):
    """Start the program with these arguments; its output goes to ``tmp_path / "output"``."""
    started = []

    def start(*arguments, **variables):
        command = [sys.executable, examples / "log_pipeline.py"]
        process = subprocess.Popen(
            [*command, "--output", tmp_path / "output", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONWARNINGS": "default"} | variables,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    assert of_the_run(tmp_path) == []


def of_the_run(directory):
    """Return the command lines of processes that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        if str(directory) in line:
            found.append(line)
    return found


@pytest.mark.jvm
def test_the_whole_pipeline(pipeline, tmp_path):
    """It counts exactly, shows each alert, writes its results, and leaves nothing else behind."""
    # An interval of the machine's table is two seconds, and final after two more.
    process = pipeline("--seconds", "6", "--limit", "280")
    shown, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    alerts = re.findall(r" s  ALERT (\d\d:\d\d) (\w+): ", shown)
    wanted = {"search": (22, 23), "payments": (38, 39, 40, 41), "mail": (52, 53, 54)}
    assert sorted(alerts) == sorted(
        (f"12:{minute}", service) for service, minutes in wanted.items() for minute in minutes
    )
    assert re.search(r"\n    payments +money +6,116 +437 +233.6 +4\n", shown)
    assert re.search(r"\n    \d\d:\d\d:\d\d +[\d,]+ +\d+% +\d+\n", shown)  # the machine
    assert re.search(
        r"\n  [\d,]+ lines of [12] files were counted in \d+ groups of minute and service, and "
        r"each count is that of the file; 9 alerts were seen\n",
        shown,
    )
    output = tmp_path / "output"
    assert sorted(path.name for path in output.iterdir()) == ["pipeline.svg", "tables"]
    tables = ["machine", "minutes", "rows"]
    assert sorted(path.name for path in (output / "tables").iterdir()) == tables
    of_services = [("log", "==", "services.log")]
    assert parquet.read_table(output / "tables/rows", filters=of_services).num_rows == 64_720
    assert sum(parquet.read_table(output / "tables/minutes")["lines"].to_pylist()) == 64_720
    ET.parse(output / "pipeline.svg")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_stops_it(pipeline, tmp_path, number, status):
    """It stops while Spark starts, says nothing, and leaves no process and no file behind."""
    process = pipeline()
    assert "Spark starts" in process.stdout.readline()
    os.kill(process.pid, number)
    shown, errors = process.communicate()
    assert (process.returncode, shown, errors) == (status, "", "")
    assert list((tmp_path / "output").iterdir()) == []


def test_it_is_not_finished_in_time(pipeline, tmp_path):
    """It stops itself, and keeps the logs of its parts."""
    process = pipeline("--limit", "0.5")
    _, errors = process.communicate()
    [directory] = (tmp_path / "output").iterdir()
    assert process.returncode == 1
    assert errors == (
        f"log_pipeline: not finished after 0.5 s (--limit)\n  the logs of its parts: {directory}\n"
    )
    assert all(path.suffix == ".log" for path in directory.iterdir())


@pytest.mark.parametrize(
    ("module", "part", "reason"),
    [
        ("pyspark", "Spark job", "ImportError: it is broken"),
        ("_sqlite3", "telemetry collector", "ImportError: it is broken"),
    ],
)
def test_a_part_that_fails_is_named(pipeline, tmp_path, module, part, reason):
    """The error says which part it was, why, and where its log is; the log is still there."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / f"{module}.py").write_text("raise ImportError('it is broken')\n")
    before = os.pathsep.join(filter(None, [str(broken), os.environ.get("PYTHONPATH")]))
    root = Path(__file__).parents[2]
    process = pipeline(PYTHONPATH=f"{before}{os.pathsep}{root}")
    _, errors = process.communicate()
    assert process.returncode == 1
    found = re.fullmatch(
        rf"log_pipeline: the {part} ended with status 1: {reason}\n  its log: (.+)\n", errors
    )
    assert found, errors
    assert "Traceback" in Path(found[1]).read_text()
