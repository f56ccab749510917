"""Add the data sources of this package to a Spark session: `register`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["cores_of", "load_source", "register", "threads_of"]

SOURCES: Final[dict[str, tuple[str, str]]] = {
    "lumberjack": ("rsocket_trio.spark.lumberjack_source", "LumberjackDataSource"),
    "rsio": ("rsocket_trio.spark.rsio_source.rsio_source", "RsioDataSource"),
    "rsocket": ("rsocket_trio.spark.rsocket_source.rsocket_source", "RSocketDataSource"),
}
"""The format, and the module and the class of its data source."""


def load_source(name: str) -> Any:
    """Return the class of a data source.

    Args:
        name: Its format.

    Raises:
        ImportError: A package of the extra ``spark`` is missing.
    """
    require("pyspark")
    require("pyarrow")
    module, source = SOURCES[name]
    return getattr(import_module(module), source)


def register(spark: SparkSession) -> None:
    """Add ``format("lumberjack")``, ``format("rsio")`` and ``format("rsocket")`` to a session.

    `session` does this too. It may be done again. A thread that writes with these formats, and has
    not made the session, has to do it too: Spark looks for sinks in Python only in the active
    session of the thread.

    Args:
        spark: The session.

    Raises:
        ImportError: A package of the extra ``spark`` is missing.
    """
    cores = _cores(spark)
    for name in SOURCES:
        source = load_source(name)
        spark.dataSource.register(source if cores is None else _telling(source, cores))
    _activate(spark)


def _telling(source: Any, cores: int) -> Any:
    """Return a data source that has the option ``cores``, unless the program sets it.

    The process that plans a batch cannot ask Spark. PySpark sends it this class by value, as it is
    one of a function.
    """

    class Registered(source):  # type: ignore[misc]  # a class of `SOURCES`
        def __init__(self, options: Mapping[str, str]) -> None:
            super().__init__({"cores": str(cores), **options})

    return Registered


def _cores(spark: SparkSession) -> int | None:
    """Return how many tasks a session can run at once, if it says so."""
    if getattr(spark, "_jvm", None) is None:  # Spark Connect does not
        return None
    return cores_of(dict(spark.sparkContext.getConf().getAll()))


def cores_of(conf: Mapping[str, str]) -> int | None:
    """Return how many tasks Spark can run at once, by its properties; None: they do not say it.

    Executors that have registered do not count: in a cluster most of them come later.
    """
    if (given := conf.get("spark.default.parallelism")) is not None:
        return int(given)
    master = conf.get("spark.master", "")
    if master.startswith("local"):
        return threads_of(master)
    if (given := conf.get("spark.cores.max")) is not None:
        return int(given)
    is_dynamic = conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
    executors = conf.get(
        "spark.dynamicAllocation.maxExecutors" if is_dynamic else "spark.executor.instances"
    )
    each = conf.get("spark.executor.cores", None if master.startswith("spark:") else "1")
    return None if executors is None or each is None else int(executors) * int(each)


def threads_of(master: str) -> int:
    """Return the number of threads of a local master, e.g. ``local[4]`` or ``local[*,3]``."""
    numbers = re.findall(r"\d+|\*", master)
    if master.startswith("local-cluster") and len(numbers) > 1:
        return int(numbers[0]) * int(numbers[1])  # executors, and the cores of each
    if not numbers:
        return 1
    return (os.cpu_count() or 1) if numbers[0] == "*" else int(numbers[0])


def _activate(spark: SparkSession) -> None:
    """Make a session the active one of this thread, as its construction does."""
    jvm: Any = getattr(spark, "_jvm", None)  # Spark Connect has none, and no such threads
    if jvm is not None:
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - PySpark has no other way
