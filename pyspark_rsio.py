"""Spark finds ``format("rsio")`` here: it imports each module whose name begins so.

If one such module fails, Spark loses those of all packages, without a word. So this one cannot
fail, and does not import the package: that happens when the format is used.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

with suppress(Exception):  # of any kind: Spark would lose the formats of other packages
    from pyspark.sql.datasource import DataSource

    class DefaultSource(DataSource):
        """Makes a data source of `rsocket_trio.spark`."""

        @classmethod
        def name(cls) -> str:
            """Return the format."""
            return "rsio"

        def __new__(cls, options: Any) -> Any:
            """Return the RsioDataSource."""
            from rsocket_trio.spark.registration import load_source

            return load_source("rsio")(options)
