"""Spark reads ranges of events out of the spools of collectors, each of them once.

The modules, in reading order:

- ``settings``: the options
- ``stream_reader``: the reader of a stream, as Spark calls it
- ``batch_reader``: the reader of a batch
- ``driver``: what runs beside Spark's calls in the process of a stream reader
- ``fleet``: the collectors of a query: how far a batch may read, and what they may delete
- ``member``: the connection to one collector
- ``questions``: questions to collectors that are slower than the caller waits
- ``addresses``: where the collectors are
- ``embedded``: a collector in the process of a query
- ``offsets``: the offsets in Spark's checkpoint
- ``ranges``: how a batch is limited, and cut
- ``planning``: the partitions
- ``reading``: a range, read in a task
- ``source_errors``: the errors
"""

from __future__ import annotations

from .source_errors import CollectorsUnreachable, DataLost, RangeUnreadable

__all__ = ["CollectorsUnreachable", "DataLost", "RangeUnreadable"]
