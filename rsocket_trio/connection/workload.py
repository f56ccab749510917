"""The requests of the peer that wait or run, within their limits: `Workload`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..sockets.peer import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..account import Account
    from .job import Job

__all__ = ["Workload"]


class Workload(Turn):
    """Counts the requests of the peer, and holds those that have not begun.

    `rsocket_trio.connection.incoming_requests` adds them, `rsocket_trio.connection.first_steps` and
    `rsocket_trio.connection.crew` run them.

    Attributes:
        active: Requests that wait or run.
        arrived: See `Turn`; while frames are dispatched, when they were read.
        account: Bytes of their payloads.
        max_active: The most requests that may wait or run (`Limits.max_active_requests`).
        queue: Those that have not begun, in the order of their arrival.
        over: Nothing is read any more, and no request begins.
        on_done: Called when a request is done. The connection sets it while it drains.
    """

    __slots__ = ("account", "active", "max_active", "on_done", "over", "queue")

    def __init__(self, max_active: int, account: Account) -> None:
        super().__init__()
        self.active = 0
        self.account = account
        self.max_active = max_active
        self.queue: deque[Job] = deque()
        self.over = False
        self.on_done: Callable[[], None] | None = None

    def has_room(self, size: int) -> bool:
        """Return whether one more request of ``size`` bytes may be accepted."""
        if self.active >= self.max_active:
            return False
        return self.account.held + size <= self.account.limit or not self.active

    def add(self, operation: Job, size: int) -> None:
        """Count a request of ``size`` bytes.

        For the task that reads, which begins the request right after.
        """
        operation.size = size
        operation.arrived = self.arrived
        self.active += 1
        self.account.held += size
        self.queue.append(operation)

    def done(self, operation: Job) -> None:
        """Count a request as done."""
        self.active -= 1
        self.account.held -= operation.size
        if self.on_done is not None:
            self.on_done()

    def end(self, _error: Exception, _last_words: bytes | None) -> None:
        """Begin no more requests, because the connection is over."""
        self.over = True

    def forget(self) -> None:
        """Drop the requests that have not begun, once the connection and its tasks are over.

        An application may keep its requester for a long time, and the requester keeps the queue.
        """
        for operation in self.queue:
            self.active -= 1
            self.account.held -= operation.size
            operation.close(None)
        self.queue.clear()
