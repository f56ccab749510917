"""The place of this process among others that serve the same addresses: `Workplace`.

A worker process does not listen: its parent accepts the connections, and hands each one over
(`rsocket_trio.workers`). For everything behind a listener there is no difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import trio

from ..uri import Uri

if TYPE_CHECKING:
    from .serving import RunningServer

__all__ = ["HandedListener", "Workplace", "work_at", "workplace"]


class HandedListener(trio.abc.Listener[trio.SocketStream]):
    """Gives the connections that the parent has accepted at one address.

    Attributes:
        bound: The addresses with their real ports.
        excess: The connections that the parent has accepted past the limit of all workers: to be
            refused, as those past the limit of a server are.
    """

    def __init__(self, bound: list[Uri]) -> None:
        self.bound: Final = bound
        self.excess: Final[set[trio.SocketStream]] = set()

    async def counted(
        self, serve: Callable[[trio.SocketStream], Awaitable[object]], stream: trio.SocketStream
    ) -> None:
        """Serve a connection, and tell the parent when it has ended.

        Checkpoint: as ``serve``.
        If cancelled: as ``serve``; the parent is told.
        """
        try:
            await serve(stream)
        finally:
            self.excess.discard(stream)
            self.ended()

    @abstractmethod
    def ended(self) -> None:
        """Tell the parent that a connection has ended."""


class Workplace(ABC):
    """What a worker process has of its parent.

    Attributes:
        servers: The servers of this process.
        number: Which worker of its generation this is, from 1 on.
        is_first: What is to be said once is said by this worker.
        metrics: Returns what this process says to scrapers, of which the parent makes one page.
    """

    number: int
    is_first: bool

    def __init__(self) -> None:
        self.servers: WeakSet[RunningServer] = WeakSet()
        self.metrics: Callable[[], bytes] = bytes

    @abstractmethod
    def listener(self, uri: Uri) -> HandedListener | None:
        """Return what gives the connections at an address; ``None`` if the parent has it not."""

    @abstractmethod
    def serves(self, uri: Uri) -> bool:
        """Return whether the parent listens at an address."""

    @abstractmethod
    def session(self, token: bytes, *, kept: bool) -> None:
        """Tell the parent that a session for resumption has begun here, or is over."""

    @abstractmethod
    def tell(self) -> None:
        """Tell the parent the metrics of now, as a server of this process has ended."""

    @abstractmethod
    async def keep_telling(self) -> None:
        """Tell the parent the metrics once a second: it asks nobody who stops.

        Checkpoint: always.
        If cancelled: nothing changes.
        """

    @abstractmethod
    async def wait_stopping(self) -> None:
        """Wait until the parent hands nothing over any more, and this process has to end.

        Checkpoint: always.
        If cancelled: nothing changes.
        """


class _Here:
    place: Workplace | None = None


def workplace() -> Workplace | None:
    """Return the place of this process; ``None`` if it is no worker."""
    return _Here.place


def work_at(place: Any) -> None:
    """Make this process a worker, before its first server starts; ``None`` undoes it."""
    _Here.place = place
