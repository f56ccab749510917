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

from typing import TYPE_CHECKING

from ...lazy import homes_of, lazily

if TYPE_CHECKING:
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

_HOMES = homes_of(
    {
        "rows": "MalformedEvent record_batches",
        "schemas": "Layout Mode default_layout default_schema layout_for",
    }
)
"""The module of each public name, imported when it is used first: who plans
a read decodes nothing."""

if not TYPE_CHECKING:  # A type checker would think that the package has every name.
    __getattr__, __dir__ = lazily(globals(), _HOMES)
