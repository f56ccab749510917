"""Subscriptions of the peer that begin when it has read our answers: `Held`."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from .publication import Publication
    from .send_queue import SendQueue

__all__ = ["Held"]

AT_ONCE: Final = 64
"""The most subscriptions that begin in one turn: resolvers and publishers run for each."""


class Held:
    """Subscriptions that wait, in their order; they count as open ones.

    They have turns among the streams that send elements. These come when no answers wait, or few.

    Args:
        queue: Gives the turns.
        begin: Begins one of them.

    Attributes:
        scheduled: See `rsocket_trio.rsio.connection.send_queue.Sending`.
    """

    def __init__(self, queue: SendQueue, begin: Callable[[Publication], object]) -> None:
        self._queue: Final = queue
        self._begin: Final = begin
        self._waiting: Final[OrderedDict[Publication, None]] = OrderedDict()
        self.scheduled = False

    def add(self, publication: Publication) -> None:
        """Let a subscription wait."""
        self._waiting[publication] = None
        self._queue.schedule(self)

    def discard(self, publication: Publication) -> None:
        """Forget a subscription, if it waits."""
        self._waiting.pop(publication, None)
        if not self._waiting:
            self._queue.unschedule(self)

    def clear(self) -> None:
        """Forget all of them: the connection is over."""
        self._waiting.clear()

    @property
    def has_more(self) -> bool:
        """Whether any wait."""
        return bool(self._waiting)

    def write(self, _pieces: list[bytes], _budget: int) -> int:
        """Begin some of them. Their answers are of the next write."""
        for _ in range(AT_ONCE):
            if not self._waiting or self._queue.clogged:
                break
            publication, _ = self._waiting.popitem(last=False)
            self._begin(publication)
        return 0
