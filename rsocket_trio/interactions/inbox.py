"""`Inbox`: a queue that one task empties."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Generic, NoReturn, TypeVar

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..entrance import get_ident, gives_way, not_at_home
from ..errors import fresh_copy
from ..one_waiter import OneWaiter

__all__ = ["Inbox"]

T = TypeVar("T")


class Inbox(OneWaiter, Generic[T]):
    """A queue with an end, which the connection's reader fills and one task empties.

    It belongs to the connection; the user has a view of it, which is a `trio.abc.ReceiveChannel`.
    Subclasses have the limits, and count the items.

    Attributes:
        queue: The items that have arrived and are not taken.
        failure: The error that the reader gets at the end; ``None`` for a normal end.
        ended: Whether no more items will arrive.
        closed: Whether the user wants no more items.
    """

    __slots__ = ("_task", "_thread", "closed", "ended", "failure", "queue")

    def __init__(self) -> None:
        self._task = None
        self._thread = get_ident()
        self.queue: deque[T] = deque()
        self.failure: Exception | None = None
        self.ended = False
        self.closed = False

    def end(self, failure: Exception | None = None) -> None:
        """End the queue, with an error or without; items in the queue are delivered first."""
        if not self.ended:
            self.ended = True
            if not self.closed:
                self.failure = failure
            self._wake()

    @abstractmethod
    def close(self) -> None:
        """Drop the items: the user wants no more."""

    def drop(self) -> None:
        """Drop the items and the error, which may be large.

        An inbox and its operation refer to each other, so they stay in memory for a while.
        """
        self.closed = True
        self.queue.clear()
        self.failure = None

    def check(self) -> None:
        """Raise the error or the end; return if there is an item, or there may still be one."""
        if self.closed:
            raise trio.ClosedResourceError("this stream was closed here")
        if self.ended and not self.queue:
            if self.failure is not None:
                self._fail(self.failure)
            raise trio.EndOfChannel

    def check_home(self, reader: str) -> None:
        """Refuse a user in another thread.

        Raises:
            RuntimeError: The caller is in another thread than the connection.
        """
        if get_ident() != self._thread:
            raise not_at_home(f"this {reader}")

    def _fail(self, failure: Exception) -> NoReturn:
        # A raised error refers to the frames of its reader, and their objects. The inbox keeps a
        # copy without them for the next call, so that there is no reference cycle.
        self.failure = fresh_copy(failure)
        try:
            raise failure
        finally:
            del failure

    async def wait(self, reader: str) -> None:
        """Wait until there is an item.

        Args:
            reader: The name of the user's view, for the error.

        Raises:
            trio.EndOfChannel: No item will arrive; or the failure with which it ended.
            trio.ClosedResourceError: It was closed here.
            trio.BusyResourceError: Another task is waiting.
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing is taken.
        """
        self.check_home(reader)
        if self.queue or self.ended or self.closed:
            await checkpoint()
        while True:
            self.check()
            if self.queue:
                return
            if self._task is not None:
                raise trio.BusyResourceError(f"another task is receiving from this {reader}")
            await self._until_woken()
            if not self.queue and gives_way(self.failure):
                await checkpoint_if_cancelled()
