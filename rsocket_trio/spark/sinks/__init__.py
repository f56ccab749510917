"""What Spark writes to RSocket and Lumberjack, and the responder's side of it.

This package imports neither pyspark nor pyarrow. Some modules of the writers do.

The modules, in reading order:

- ``messages``: what a Spark job and the responder of its sink say to each other
- ``receiving``: the responder's side, `sink_receiver`
- ``rsocket_sink``: what Spark writes to a responder
- ``lumberjack_sink``: what Spark ships as log events

What the two sinks share:

- ``running``: runs trio in a task or in the driver of Spark
- ``row_feed``: the rows of a task, from Spark's iterator to trio
- ``patience``: how long a task waits for a peer that does nothing
- ``row_values``: rows of Arrow as dicts for CBOR or JSON (needs pyarrow)
- ``row_payloads``: rows to payloads (needs pyarrow)
- ``errors``: the error of a write that failed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import homes_of, lazily

if TYPE_CHECKING:
    from .receiving.committed import CommittedBatch, PayloadReader, RowReader
    from .receiving.limits import SinkLimits
    from .receiving.receiver import SinkReceiver, SinkStatistics, sink_receiver
    from .receiving.sqlite_store import SinkDirectoryError

__all__ = [
    "CommittedBatch",
    "PayloadReader",
    "RowReader",
    "SinkDirectoryError",
    "SinkLimits",
    "SinkReceiver",
    "SinkStatistics",
    "sink_receiver",
]

_HOMES = homes_of(
    {
        "receiving.committed": "CommittedBatch PayloadReader RowReader",
        "receiving.limits": "SinkLimits",
        "receiving.receiver": "SinkReceiver SinkStatistics sink_receiver",
        "receiving.sqlite_store": "SinkDirectoryError",
    }
)
"""The module of each public name, imported when it is used first: a writer
needs no receiver."""

if not TYPE_CHECKING:  # A type checker would think that the package has every name.
    __getattr__, __dir__ = lazily(globals(), _HOMES)
