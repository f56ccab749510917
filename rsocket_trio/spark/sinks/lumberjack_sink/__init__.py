"""``format("lumberjack")`` as a sink: rows of Spark become log events.

Only Spark imports ``writer``: it needs PySpark and pyarrow.

The modules, in reading order:

- ``settings``: the options
- ``writer``: the writers that Spark calls
- ``events``: rows as events
- ``sending``: what a task does on its connections
"""

from __future__ import annotations

__all__: list[str] = []
