"""The requests of the peer that wait or run, within their limits: `Workload`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from .job import Job

__all__ = ["WorkLimits", "Workload"]


class WorkLimits(Protocol):
    """The limits that a `Workload` keeps, e.g. `rsocket_trio.config.Limits`."""

    @property
    def max_active_requests(self) -> int: ...

    @property
    def max_requests_size(self) -> int: ...


class Workload:
    """Counts the requests of the peer, and holds those that have not begun.

    `rsocket_trio.connection.incoming_requests` adds them, `rsocket_trio.connection.first_steps` and
    `rsocket_trio.connection.crew` run them.

    Attributes:
        active: Requests that wait or run.
        size: Bytes of their payloads.
        max_active: The most requests that may wait or run (`Limits.max_active_requests`).
        max_size: The most bytes of several requests (`Limits.max_requests_size`).
        queue: Those that have not begun, in the order of their arrival.
        over: Nothing is read any more, and no request begins.
        on_done: Called when a request is done. The connection sets it while it drains.
    """

    __slots__ = ("active", "max_active", "max_size", "on_done", "over", "queue", "size")

    def __init__(self, limits: WorkLimits) -> None:
        self.active = 0
        self.size = 0
        self.max_active = limits.max_active_requests
        self.max_size = limits.max_requests_size
        self.queue: deque[Job] = deque()
        self.over = False
        self.on_done: Callable[[], None] | None = None

    def has_room(self, size: int) -> bool:
        """Return whether one more request of ``size`` bytes may be accepted."""
        if self.active >= self.max_active:
            return False
        return self.size + size <= self.max_size or not self.active

    def add(self, operation: Job, size: int) -> None:
        """Count a request of ``size`` bytes.

        For the task that reads, which begins the request right after.
        """
        operation.size = size
        self.active += 1
        self.size += size
        self.queue.append(operation)

    def done(self, operation: Job) -> None:
        """Count a request as done."""
        self.active -= 1
        self.size -= operation.size
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
            self.size -= operation.size
            operation.close(None)
        self.queue.clear()
