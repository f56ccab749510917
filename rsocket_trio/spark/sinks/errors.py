"""The error of a write that failed: `SinkError`."""

from __future__ import annotations

__all__ = ["SinkError"]


class SinkError(Exception):
    """Spark's rows could not be written; the text says why, and what to do."""
