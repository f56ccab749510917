"""The interface of elements by offset: `ReplaySource`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable

from ... import Payload
from .messages import ReplayOffsets

__all__ = ["ReplaySource"]


class ReplaySource(ABC):
    """Elements in numbered partitions, each with an offset. `replay_router` serves it.

    The same offset must give the same element each time: Spark reads a range again after a failure,
    and counts on it. New elements come at the end of a partition. Old ones may be deleted at its
    beginning.
    """

    @abstractmethod
    async def offsets(self) -> ReplayOffsets:
        """Return the elements that can be read now."""

    @abstractmethod
    def elements(self, partition: int, start: int, stop: int) -> AsyncIterable[bytes | Payload]:
        """Return the elements of a range, e.g. by an async generator.

        It is called only for ranges that `offsets` has. It is asked for each element when the
        requester has granted credit for it.

        Args:
            partition: The partition.
            start: The offset of the first element.
            stop: The offset behind the last one.
        """
