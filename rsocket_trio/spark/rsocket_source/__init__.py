"""``format("rsocket")`` as a source: elements of RSocket responders become rows.

Only Spark imports the modules with the readers: they need PySpark and pyarrow.

The modules, in reading order:

- ``rsocket_source``: the class that Spark is given, `RSocketDataSource`
- ``settings``: the options about requests and elements
- ``batch_reader``: a batch: each partition is one request
- ``replay_reader``: a stream of elements by offset
- ``replayed_rows``: the elements of a range, in a task of Spark
- ``positions``: the offsets of such a stream, and how a batch is planned
- ``asking``: asks a responder for its offsets, and waits for new ones
- ``pulling``: the elements of one request, in chunks
- ``connecting``: connections to responders
"""

from __future__ import annotations

__all__: list[str] = []
