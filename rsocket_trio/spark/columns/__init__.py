"""From stored batches to the columns that Spark reads.

The modules, in reading order:

- ``schemas``: which columns a read has: `Layout`
- ``rows``: stored batches to record batches: `record_batches`
- ``chunk``: the stored batches that become one record batch
- ``splitting``: the events of a stored batch as an Arrow array
- ``json_events``: JSON texts to columns, and which of them are malformed
- ``sieve``: events that surely do not fit, without an attempt of pyarrow
- ``conversions``: the types that pyarrow reads from JSON, and those of columns
- ``decimals``: decimals that crash pyarrow
- ``maps``: columns with maps, which pyarrow does not read
"""

from __future__ import annotations

from .rows import MalformedEvent, record_batches
from .schemas import Layout, Mode, default_layout, default_schema, layout_for

__all__ = [
    "Layout",
    "MalformedEvent",
    "Mode",
    "default_layout",
    "default_schema",
    "layout_for",
    "record_batches",
]
