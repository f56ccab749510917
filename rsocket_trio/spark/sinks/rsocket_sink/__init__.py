"""``format("rsocket")`` as a sink: rows of Spark become payloads that a responder stages.

Only Spark imports ``writer``: it needs PySpark and pyarrow.

The modules, in reading order:

- ``settings``: the options
- ``writer``: the writers that Spark calls
- ``task_facts``: what a task of Spark knows about itself
- ``sending``: what a task and the driver do on a connection
"""

from __future__ import annotations

__all__: list[str] = []
