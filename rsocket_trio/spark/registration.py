"""Add the data sources of this package to a Spark session: `register`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["load_source", "register"]

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
    for name in SOURCES:
        spark.dataSource.register(load_source(name))
    _activate(spark)


def _activate(spark: SparkSession) -> None:
    """Make a session the active one of this thread, as its construction does."""
    jvm: Any = getattr(spark, "_jvm", None)  # Spark Connect has none, and no such threads
    if jvm is not None:
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - PySpark has no other way
