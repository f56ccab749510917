"""Elements in memory: `ReplayList`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ... import Payload
from .messages import Offsets, ReplayOffsets
from .source import ReplaySource

__all__ = ["ReplayList"]


class ReplayList(ReplaySource):
    """Elements of sequences in memory.

    You may add elements to the end of a list while it is served. Lists and their elements must not
    change otherwise.

    Args:
        partitions: A sequence for each partition.
        id: See `Offsets.id`. A program that makes other lists at each start needs another one each
            time, e.g. ``str(uuid4())``: else Spark would take new elements for old ones.
    """

    def __init__(
        self,
        *partitions: Sequence[bytes | Payload],
        id: str | None = None,  # noqa: A002 - the name that it has on the wire
    ) -> None:
        self._partitions = partitions
        self._id = id

    async def offsets(self) -> ReplayOffsets:
        """See `ReplaySource.offsets`.

        Checkpoint: no.
        If cancelled: it cannot be cancelled.
        """
        return ReplayOffsets(
            {
                number: Offsets(0, len(each), self._id)
                for number, each in enumerate(self._partitions)
            }
        )

    async def elements(
        self, partition: int, start: int, stop: int
    ) -> AsyncIterator[bytes | Payload]:
        """See `ReplaySource.elements`.

        Checkpoint: no.
        If cancelled: it cannot be cancelled.
        """
        elements = self._partitions[partition]
        for offset in range(start, stop):
            yield elements[offset]
