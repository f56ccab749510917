"""The errors of the Lumberjack source: they say what happened, where, and what to do."""

from __future__ import annotations

from ...errors import RSocketError

__all__ = ["CollectorsUnreachable", "DataLost", "RangeUnreadable"]


class DataLost(RSocketError):
    """Events that the query has not read are gone, and ``failOnDataLoss`` is true."""


class CollectorsUnreachable(RSocketError):
    """A collector that is needed now does not answer."""


class RangeUnreadable(RSocketError):
    """A task could not read its range: the collector does not answer, or sends something else."""
