"""What a task of Spark knows about itself: `TaskFacts`."""

from __future__ import annotations

import attrs
from pyspark import TaskContext

__all__ = ["TaskFacts"]


@attrs.frozen
class TaskFacts:
    """The partition of a task, and the batch of a stream that it belongs to.

    Attributes:
        partition: The number of the partition.
        query: The id of the streaming query, which a restart keeps; ``None`` in a batch write.
        batch: The number of the microbatch; ``None`` in a batch write.
    """

    partition: int
    query: str | None
    batch: int | None

    @classmethod
    def now(cls) -> TaskFacts:
        """Return the facts of the task that this code runs in."""
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a writer of this data source runs in tasks of Spark only")
        batch = context.getLocalProperty("streaming.sql.batchId")
        query = context.getLocalProperty("sql.streaming.queryId")
        return cls(context.partitionId(), query, None if batch is None else int(batch))
