"""How far a streaming query is behind its collectors: `lag`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["CollectorLag", "QueryLag", "lag"]


@attrs.frozen
class CollectorLag:
    """How far a query is behind one collector.

    Attributes:
        rows: The events that the collector had when the last trigger began, and that no microbatch
            has read up to the end of this trigger. None if the collector has not been reached.
        seconds: How long ago the first of them had been stored then, by the clock of the collector;
            0 if there are none. None if it is not known, as the collector did not answer in time.
    """

    rows: int | None
    seconds: float | None


@attrs.frozen
class QueryLag:
    """How far a query is behind its collectors, as its last progress says.

    Attributes:
        at: When the trigger of this progress began, as Spark tells it. None while no trigger has
            ended: then nothing is known, and ``collectors`` is empty.
        collectors: The lag by the id of the collector's spool.
    """

    at: str | None
    collectors: Mapping[str, CollectorLag]

    @property
    def rows(self) -> int | None:
        """The rows of all collectors for which they are known; None if there is none."""
        found = [each.rows for each in self.collectors.values() if each.rows is not None]
        return sum(found) if found else None

    @property
    def seconds(self) -> float | None:
        """The longest of all times that are known; None if there is none."""
        found = [each.seconds for each in self.collectors.values() if each.seconds is not None]
        return max(found, default=None)

    def __str__(self) -> str:
        if self.at is None:
            return "the lag is not known: no trigger of this query has ended yet"
        if self.rows is None:
            return f"the lag is not known: no collector had been reached at {self.at}"
        time = "" if self.seconds is None else f", {self.seconds:.1f} s"
        return f"{self.rows:,} rows{time} behind {len(self.collectors)} collectors at {self.at}"


def lag(query: StreamingQuery) -> QueryLag:
    """Return how far a query is behind its collectors.

    It reads ``query.lastProgress`` only, and asks nobody. A source that reads from collectors, or
    from a spool of its own, tells there how far it has read and how far the spools go. If several
    sources of the query read the same spool, the one that is behind counts.

    Args:
        query: A query that reads ``format("lumberjack")``, or another source with collectors.

    Raises:
        ValueError: The query has run, and no source of it is one of these.
    """
    progress: Mapping[str, Any] | None = query.lastProgress
    if progress is None:
        return QueryLag(None, {})
    found: dict[str, CollectorLag] = {}
    sources = [_places(each) for each in progress["sources"]]
    if not any(sources):
        raise ValueError(
            "no source of this query reads from collectors: lag() knows those of"
            ' format("lumberjack"), and those with delivery=spool'
        )
    for end, latest in filter(None, sources):
        ages = latest.get("l", {})
        for spool_id, offset in end["s"].items():
            head = latest.get("s", {}).get(spool_id)
            rows = None if head is None else max(head - offset, 0)
            each = CollectorLag(rows, 0.0 if rows == 0 else ages.get(spool_id))
            known = found.get(spool_id, each)
            found[spool_id] = max(known, each, key=lambda one: -1 if one.rows is None else one.rows)
    return QueryLag(progress["timestamp"], found)


def _places(source: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the end and the latest offset of one of our sources; None: it is another one."""
    end, latest = (_decoded(source[name]) for name in ("endOffset", "latestOffset"))
    if isinstance(end, dict) and isinstance(end.get("s"), dict) and "v" in end:
        return end, latest if isinstance(latest, dict) else {}
    return None


def _decoded(offset: object) -> object:
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None
