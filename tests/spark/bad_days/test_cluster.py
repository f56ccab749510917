"""A standalone cluster, with a master and two workers in programs of their own."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import rsocket_trio
from tests.programs import ROOT

from .agents import sent
from .arrived import assert_each_line_once, file_sink
from .cluster import HERE, HOME, Cluster, spark_environment
from .programs import until
from .scene import lumberjack

pytestmark = [pytest.mark.bad_days, pytest.mark.programs]

COUNT = 6000

REPORT = """
import sys

from pyspark.sql import SparkSession

from rsocket_trio.spark import register

spark = SparkSession.builder.appName("report").getOrCreate()
register(spark)
events = spark.read.format("lumberjack").option("collectors", sys.argv[1]).load()
print(events.count(), "events")
"""


def test_an_executor_is_killed_in_the_middle_of_a_read(scene):
    """Its task runs on another one."""
    collector, log = scene.filled("a", COUNT)
    cluster = Cluster(scene)
    app = scene.application(cluster.uri, SPARK_LOCAL_IP=HERE, PYSPARK_PYTHON=sys.executable)
    gate = scene.gate()
    source = lumberjack(collector, minPartitions=2)
    query = app.start([source], scene.file_sink(), scene.checkpoint, gate=str(gate.path), after=500)
    until(
        lambda: len(gate.waiting()) == 2,
        "both tasks come to the gate",
        details=lambda: (gate.waiting(), query.state()),
    )
    assert len(cluster.executors()) == 2
    cluster.kill_executor()
    until(lambda: len(gate.waiting()) >= 3, "the task comes to the gate again")
    gate.open()
    query.done()
    assert_each_line_once(file_sink(scene.sink), sent(log))


def bare_python(directory):
    """A Python that has pyarrow, and nothing else that this package needs."""
    venv.create(directory)
    [packages] = directory.glob("lib/*/site-packages")
    for each in Path(pa.__file__).parents[1].glob("pyarrow*"):
        (packages / each.name).symlink_to(each)
    python = directory / "bin/python"
    missing = subprocess.run([python, "-Ic", "import pyarrow, rsocket_trio"], capture_output=True)
    assert b"No module named 'rsocket_trio'" in missing.stderr
    return python


def needed(requirements, known=frozenset()):
    """The names of what is required, and of what that requires, without extras."""
    found = known
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement)[0]
        # Some are for other systems and versions of Python.
        with suppress(importlib.metadata.PackageNotFoundError):
            if "extra ==" not in requirement and name not in found:
                found = needed(importlib.metadata.requires(name) or (), found | {name})
    return found


def packages_of(archive):
    """Write what `pip install --target` would have installed."""
    with zipfile.ZipFile(archive, "w") as packed:
        # What is installed may be of before a change of it.
        project = tomllib.loads((Path(ROOT) / "pyproject.toml").read_text())["project"]
        for name in needed(project["dependencies"]):
            for file in importlib.metadata.files(name) or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    packed.write(file.locate(), str(file))
        root = Path(rsocket_trio.__file__).parent
        for file in root.rglob("*.py"):
            packed.write(file, str(Path("rsocket_trio") / file.relative_to(root)))


def test_packages_travel_with_the_program(scene):
    """All hosts have no more than Python and pyarrow; a directory and its archive have the rest."""
    collector, _ = scene.filled("a", COUNT)
    python = bare_python(scene.directory / "python")
    packages_of(scene.directory / "packages.zip")
    shutil.unpack_archive(scene.directory / "packages.zip", scene.directory / "packages")
    report = scene.directory / "report.py"
    report.write_text(REPORT)
    cluster = Cluster(scene, PYTHONPATH="")
    command = [
        str(HOME / "bin/spark-submit"), "--master", cluster.uri, "--executor-memory", "512m",
        "--driver-memory", "512m",
        "--archives", f"{scene.directory / 'packages.zip'}#packages",
        "--conf", "spark.executorEnv.PYTHONPATH=packages",
        "--conf", f"spark.local.dir={scene.directory / 'local'}",
        str(report), collector.address,
    ]  # fmt: skip
    submitted = scene.program(
        "submit",
        command,
        environ=spark_environment(
            PYSPARK_PYTHON=str(python), PYTHONPATH=str(scene.directory / "packages")
        ),
    )
    assert submitted.line("the count") == f"{COUNT} events"
    assert submitted.ended() == 0
