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
    """Add ``format("lumberjack")`` and ``format("rsocket")`` to a session.

    `session` does this too. It may be done again.

    Args:
        spark: The session.

    Raises:
        ImportError: A package of the extra ``spark`` is missing.
    """
    for name in SOURCES:
        spark.dataSource.register(load_source(name))
