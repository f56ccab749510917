"""``format("rsio")``: elements of publishers over rsio become rows.

Only Spark imports the modules with the readers: they need PySpark and pyarrow.

The modules, in reading order:

- ``rsio_source``: the class that Spark is given, `RsioDataSource`
- ``settings``: the options about publishers
- ``batch_reader``: a batch: each partition is one subscription
- ``pulling``: the elements of one subscription, in chunks, with demand for what Spark takes
"""

from __future__ import annotations

__all__: list[str] = []
