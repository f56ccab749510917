"""The responder's side of Spark's RSocket sink. It needs neither pyspark nor pyarrow.

The modules, in reading order:

- ``receiver``: the routes of a sink, `sink_receiver`
- ``limits``: what the tasks of Spark may cost a responder
- ``committed``: the rows of a batch that Spark has committed
- ``staging``: which attempts are accepted, kept, committed and dropped
- ``commit_log``: the last committed batch of each query
- ``attempt``: an attempt of a task to write a partition
- ``attempt_index``: the attempts that are not committed, by identity and by query
- ``arrow_rows``: counts the rows of Arrow IPC without pyarrow
- ``store``: what keeps attempts and commits; in memory
- ``sqlite_store``: the same on disk
"""

from __future__ import annotations

__all__: list[str] = []
