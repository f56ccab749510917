"""Apache Spark reads and writes RSocket and Lumberjack, by data sources in Python.

This package needs the extra ``spark``: ``pip install 'rsocket-trio[spark]'``.
"""

from __future__ import annotations

__all__: list[str] = []
