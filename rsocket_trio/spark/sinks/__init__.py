"""What Spark writes to RSocket and Lumberjack, and the responder's side of it.

This package imports neither pyspark nor pyarrow. Some modules of the writers do.

The modules, in reading order:

- ``messages``: what a Spark job and the responder of its sink say to each other
- ``receiver``: the responder's side, `sink_receiver`
- ``limits``: what the tasks of Spark may cost a responder
- ``committed``: the rows of a batch that Spark has committed
- ``staging``: which attempts are accepted, kept, committed and dropped
- ``commit_log``: the last committed batch of each query
- ``attempt``: an attempt of a task to write a partition
- ``attempt_index``: the attempts that are not committed, by identity and by query
- ``arrow_rows``: counts the rows of Arrow IPC without pyarrow
- ``store``: what keeps attempts and commits; in memory
- ``sqlite_store``: the same on disk
- ``errors``: the error of a write that failed
- ``rsocket_settings``: the options of the RSocket sink
- ``rsocket_writer``: the writers that Spark calls (needs pyspark)
- ``rsocket_sending``: what a task and the driver do on a connection
- ``lumberjack_settings``: the options of the Lumberjack sink
- ``lumberjack_writer``: the writers that Spark calls (needs pyspark)
- ``lumberjack_sending``: what a task does on its connections
- ``events``: rows as events of Lumberjack (needs pyarrow)
- ``running``: runs trio in a task or in the driver of Spark
- ``row_feed``: the rows of a task, from Spark's iterator to trio
- ``patience``: how long a task waits for a peer that does nothing
- ``row_payloads``: rows to payloads (needs pyarrow)
- ``row_values``: rows of Arrow as dicts for CBOR or JSON (needs pyarrow)
- ``task_facts``: what a task of Spark knows about itself (needs pyspark)
"""

from __future__ import annotations

from .committed import CommittedBatch, PayloadReader, RowReader
from .limits import SinkLimits
from .receiver import SinkReceiver, SinkStatistics, sink_receiver
from .sqlite_store import SinkDirectoryError

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
