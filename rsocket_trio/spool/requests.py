"""What tasks ask the flusher for: `Append`, `Move`, and the queues of these, `Requests`."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

import attrs
import trio

from ..entrance import over
from .config import SpoolConfig
from .errors import OffsetTrimmed, SpoolError
from .extent import Extent
from .instances import ConsumerInstance, Key
from .writer import NewRow

__all__ = ["Append", "Move", "Requests"]


@attrs.define(eq=False)
class _Request:
    """A change that a task waits for.

    Attributes:
        over: Set when the change is durable, or has failed.
        error: Why it has failed.
    """

    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    error: SpoolError | None = attrs.field(default=None, init=False)

    def fail(self, error: SpoolError) -> None:
        """Let the task go on with an error."""
        self.error = error
        self.over.set()

    async def wait(self) -> None:
        """Wait until the change is durable.

        Raises:
            SpoolError: It has failed.
        """
        await self.over.wait()
        if self.error is not None:
            await over(self.error)


@attrs.define(eq=False)
class Append(_Request):
    """A batch to append.

    Attributes:
        first: The offset of its first event, once it is stored.
        given_up: The task was cancelled: a transaction that has failed is not tried again for it.
    """

    row: NewRow
    first: int = attrs.field(default=-1, init=False)
    given_up: bool = attrs.field(default=False, init=False)


@attrs.define(eq=False)
class Move(_Request):
    """What an instance of a consumer needs from now on.

    Attributes:
        consumer: The consumer.
        name: The instance; ``None``: all of them.
        need: What it needs. ``None``: it is forgotten.
    """

    consumer: str
    name: str | None
    need: ConsumerInstance | None

    def apply(
        self,
        instances: dict[Key, ConsumerInstance],
        changes: dict[Key, ConsumerInstance | None],
    ) -> None:
        """Change the instances, and add what has changed."""
        if self.need is not None:
            instances[self.need.key] = changes[self.need.key] = self.need
            return
        for key in [each for each in instances if each[0] == self.consumer]:
            if self.name in (None, key[1]):
                del instances[key]
                changes[key] = None


class Requests:
    """The queues of changes that no transaction has taken yet.

    Attributes:
        appends: Batches, in the order of their arrival.
        moves: Positions, in the order of their arrival.
    """

    def __init__(self, max_size: int, config: SpoolConfig) -> None:
        self.appends: Final[OrderedDict[Append, None]] = OrderedDict()
        self.moves: Final[deque[Move]] = deque()
        self._max_size = max_size
        self._config = config

    @property
    def next_cost(self) -> int:
        """The bytes that the batch that waits first costs; 0 if there is none."""
        return next(iter(self.appends)).row.cost if self.appends else 0

    def take_appends(self, extent: Extent, *, one: bool) -> list[Append]:
        """Take the batches for a transaction: as many as fit, in their order.

        Args:
            extent: What the spool holds.
            one: Take one batch at most.
        """
        taken: list[Append] = []
        most = 1 if one else self._config.max_group_batches
        size = 0
        while len(taken) < most and self.appends:
            cost = self.next_cost
            if extent.size + size + cost > self._max_size:
                break
            if taken and size + cost > self._config.max_group_size:
                break
            size += cost
            taken.append(self.appends.popitem(last=False)[0])
        return taken

    def take_moves(self, extent: Extent) -> list[Move]:
        """Take all positions; those that are trimmed by now fail."""
        taken = []
        while self.moves:
            move = self.moves.popleft()
            if move.need is not None and move.need.offset < extent.oldest:
                move.fail(OffsetTrimmed(move.need.offset, extent.oldest))
            else:
                taken.append(move)
        return taken

    def put_back(self, appends: list[Append], moves: list[Move]) -> None:
        """Put changes back to the front, after a transaction that failed."""
        for append in reversed(appends):
            if not append.given_up:
                self.appends[append] = None
                self.appends.move_to_end(append, last=False)
        self.moves.extendleft(reversed(moves))

    def fail_all(self, error: SpoolError) -> None:
        """Let all tasks that wait go on with an error."""
        while self.appends:
            self.appends.popitem()[0].fail(error)
        while self.moves:
            self.moves.popleft().fail(error)
