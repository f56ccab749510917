"""The formats in a session: `register`, and the modules that Spark finds by their names."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from rsocket_trio.spark import register, registration
from rsocket_trio.spark.registration import cores_of
from tests.time_limit import LONGEST_WITH_SPARK

ROOT = Path(__file__).parents[2]
FORMATS = ["lumberjack", "rsio", "rsocket"]


class Registered:
    """In place of a session: it keeps what is registered."""

    def __init__(self):
        self.dataSource = self
        self.sources = []

    def register(self, source):
        self.sources.append(source)


@pytest.fixture
def sources(monkeypatch):
    """Data sources of the tests in place of those of the package."""
    pytest.importorskip("pyspark")
    found = dict.fromkeys(FORMATS, ("tests.spark.tracing_source", "TracingDataSource"))
    monkeypatch.setattr(registration, "SOURCES", found)
    return found


def test_all_formats_are_registered(sources):
    """The classes are imported then, and not before."""
    spark = Registered()
    register(spark)
    assert [each.__name__ for each in spark.sources] == ["TracingDataSource"] * len(FORMATS)


@pytest.mark.parametrize(
    ("conf", "cores"),
    [
        ("master=local[2]", 2),
        ("master=local[3,4]", 3),
        ("master=local", 1),
        ("master=local-cluster[2,3,1024]", 6),
        ("master=local[8] default.parallelism=5", 5),
        ("master=spark://one:7077", None),
        ("master=spark://one:7077 cores.max=12", 12),
        ("master=spark://one:7077 executor.instances=3", None),
        ("master=yarn executor.instances=3 executor.cores=4", 12),
        ("master=k8s://one executor.instances=3", 3),
        ("master=yarn dynamicAllocation.enabled=true executor.instances=1", None),
        ("master=yarn dynamicAllocation.enabled=true dynamicAllocation.maxExecutors=5", 5),
    ],
)
def test_the_cores_of_a_session(conf, cores):
    pairs = (each.split("=", 1) for each in conf.split())
    assert cores_of({f"spark.{name}": value for name, value in pairs}) == cores


def test_a_session_tells_the_sources_its_cores(monkeypatch):
    """What is registered is another class then, which Spark sends to processes that plan."""
    pytest.importorskip("pyspark")
    from pyspark.serializers import CloudPickleSerializer

    monkeypatch.setattr(registration, "_cores", lambda spark: 7)
    spark = Registered()
    register(spark)
    serializer = CloudPickleSerializer()
    for each in spark.sources:
        source = serializer.loads(serializer.dumps(each))
        assert source.name() in FORMATS
        assert source({"uri": "x"}).options == {"cores": "7", "uri": "x"}
        assert source({"cores": "3"}).options["cores"] == "3"


def test_the_formats_are_those_of_the_modules():
    """Each format has a module for Spark to find, and the package has no others."""
    assert sorted(registration.SOURCES) == FORMATS
    assert {path.stem for path in ROOT.glob("pyspark_*.py")} == {f"pyspark_{n}" for n in FORMATS}


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_without_the_extra_the_error_names_it(monkeypatch, missing):
    """Also if one of its packages is there."""
    pytest.importorskip("pyspark")
    for name in [missing, *(each for each in sys.modules if each.startswith(f"{missing}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"needs {missing}, .*rsocket-trio\[spark\]"):
        register(Registered())


@pytest.mark.parametrize("name", FORMATS)
def test_the_class_that_spark_finds(sources, name):
    """It has the name of the format, can be pickled, and makes the real data source."""
    module = import_module(f"pyspark_{name}")
    source = pickle.loads(pickle.dumps(module.DefaultSource))
    assert source is module.DefaultSource
    assert source.name() == name
    made = source(options={"directory": "d"})
    assert type(made).__name__ == "TracingDataSource"
    assert made.options == {"directory": "d"}


def test_the_real_formats(spark):
    """Each is asked for an option that it requires."""
    register(spark)
    for name, text in (
        ("lumberjack", "the option collectors is required"),
        ("rsocket", "one of the options uri"),
    ):
        with pytest.raises(Exception, match=text):
            spark.read.format(name).load().collect()


def test_another_thread_can_write_after_it_registers(spark):
    """Spark looks for sinks in Python in the active session of a thread only."""

    def write(format_):
        with pytest.raises(Exception, match=r".") as caught:
            spark.range(1).write.format(format_).mode("append").save()
        return str(caught.value)

    def work():
        before = write("rsocket")
        register(spark)
        return before, write("rsocket"), write("lumberjack")

    register(spark)
    with ThreadPoolExecutor(1) as pool:
        before, *after = pool.submit(work).result()
    assert "DATA_SOURCE_NOT_FOUND" in before  # else Spark has mended it
    assert "the option uri is required" in after[0]
    assert "the option hosts is required" in after[1]


def run(code, directory):
    """Run a program in a directory, and return what it prints."""
    paths = os.pathsep.join([str(directory), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": paths}, cwd=directory,
        capture_output=True, text=True, timeout=LONGEST_WITH_SPARK, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("broken", ["", "raise ImportError('no pyspark')", "1 / 0", "import nix"])
def test_the_import_cannot_fail_and_is_quick(tmp_path, name, broken):
    """With PySpark, without it, and with one that is broken; trio is not imported."""
    if broken:
        (tmp_path / "pyspark").mkdir()
        (tmp_path / "pyspark" / "__init__.py").write_text(broken)
    else:
        pytest.importorskip("pyspark")
    lines = run(
        f"""
        import sys, pyspark_{name} as module
        print(hasattr(module, "DefaultSource"))
        print([each for each in ("trio", "rsocket_trio", "pyarrow") if each in sys.modules])
        """,
        tmp_path,
    )
    assert lines == [str(not broken), "[]"]


LOOKUP = """
    import importlib, pkgutil
    from pyspark.sql.worker import lookup_data_sources
    from pyspark.serializers import read_int
    import io

    out = io.BytesIO()
    lookup_data_sources._main(io.BytesIO(), out)
    print(int.from_bytes(out.getvalue()[:4], "big"))
    print(all(name in out.getvalue() for name in (b"pyspark_rsocket", b"pyspark_lumberjack")))
"""


def test_spark_finds_the_modules(tmp_path):
    """By the function that it runs in a process of its own."""
    pytest.importorskip("pyspark")
    assert run(LOOKUP, tmp_path) == ["3", "True"]


BROKEN = """
import sys
from rsocket_trio.spark import registration, session

registration.SOURCES = {"tracing": ("tests.spark.tracing_source", "TracingDataSource")}
spark = session("test", {"spark.driver.memory": "512m", "spark.ui.enabled": "false"}, "local[1]")
for name in ("rsocket", "tracing"):
    try:
        spark.read.format(name).option("directory", "d").load()
        print(name, "found")
    except Exception as error:
        print(name, "DATA_SOURCE_NOT_FOUND" in str(error))
spark.stop()
"""


@pytest.mark.programs
@pytest.mark.chaos
@pytest.mark.jvm
def test_a_broken_module_of_another_package(tmp_path):
    """Spark loses all formats that it would find by name; those that are registered work."""
    pytest.importorskip("pyspark")
    (tmp_path / "pyspark_x.py").write_text("1 / 0")
    assert run(BROKEN, tmp_path) == ["rsocket True", "tracing found"]
