"""Listen at several addresses until stopped: `Serving`. The server of each wire has one.

`RunningServer` is the part of it that applications use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeAlias

import trio

from ..entrance import Home
from ..field_checks import argument, instance_of, number
from ..statistics import WireStatistics
from ..uri import Uri, shown
from .connected import Peer
from .workplace import workplace

__all__ = ["Listen", "RunningServer", "Serving"]


Listen: TypeAlias = Callable[..., Awaitable[None]]
"""`rsocket_trio.sockets.listen.listen_for`, or a function with the same keyword arguments, which is
called with an address."""


class Serving:
    """The listeners of a server and the tasks of its connections, from start to end.

    Attributes:
        uris: The addresses it listens on, with their real ports.
    """

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._accepting = trio.CancelScope()
        self._everything = trio.CancelScope()
        self._stopped = trio.Event()

    async def run(
        self,
        listeners: Iterable[tuple[Uri, Listen]],
        started: Callable[[], object],
        within: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]],
    ) -> None:
        """Listen until stopped, and call ``started`` when every address accepts connections.

        Args:
            listeners: The addresses.
            started: Called then.
            within: Calls the function that does all of that, in the block of the application.

        Raises:
            OSError: An address cannot be listened on; the text names it.
            ValueError: The TLS context is missing.

        Checkpoint: always.
        If cancelled: at once, with all connections.
        """
        try:
            await within(partial(self._listen, listeners, started))
        finally:
            self._stopped.set()

    async def _listen(
        self, listeners: Iterable[tuple[Uri, Listen]], started: Callable[[], object]
    ) -> None:
        refused: OSError | ValueError | None = None
        with self._everything:
            async with trio.open_nursery() as drain:
                async with trio.open_nursery() as connections:
                    with self._accepting:
                        async with trio.open_nursery() as nursery:
                            try:
                                for uri, listen in listeners:
                                    begun = partial(
                                        listen, handler_nursery=connections, drain_nursery=drain
                                    )
                                    await self._begin(nursery, uri, begun)
                            except (OSError, ValueError) as error:
                                # Raised below: a nursery would put it into an exception group.
                                refused = error
                                reason = "an address cannot be listened on"
                                self._everything.cancel(reason=reason)
                            else:
                                started()
                drain.cancel_scope.cancel(reason="all connections have ended")
        if refused is not None:
            raise refused

    async def _begin(self, nursery: trio.Nursery, uri: Uri, listen: Listen) -> None:
        try:
            bound: list[Uri] = await nursery.start(listen, uri)
        except OSError as error:
            reason = error.strerror or str(error)
            raise type(error)(error.errno, f"cannot listen on {shown(uri)}: {reason}") from error
        self.uris += map(str, bound)

    def stop(self, grace: float) -> None:
        """Accept no more connections, and cancel the rest after ``grace`` seconds."""
        self._accepting.cancel(reason="the server is being stopped")
        self._everything.deadline = min(self._everything.deadline, trio.current_time() + grace)

    async def wait_stopped(self) -> None:
        """Wait until `run` is over.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        await self._stopped.wait()


class RunningServer(ABC):
    """The base of the servers that applications get.

    Attributes:
        uris: The addresses it listens on, with their real ports.
    """

    def __init__(self, serving: Serving) -> None:
        self.uris = serving.uris
        self._serving = serving
        self._home = Home()
        place = workplace()
        if place is not None:
            place.servers.add(self)

    @abstractmethod
    def statistics(self) -> WireStatistics:
        """Return numbers about this server."""

    @abstractmethod
    def _stop_connections(self, grace: float) -> None:
        """Begin the graceful end of the open connections, which has ``grace`` seconds."""

    @abstractmethod
    def _peers(self) -> Iterable[Peer]:
        """The peers of the connections that are open."""

    def peers(self) -> tuple[Peer, ...]:
        """Return the peers of the connections that are open."""
        return tuple(self._peers())

    def end(self, meant: Callable[[object], bool], reason: str = "", *, grace: float = 5.0) -> int:
        """Begin to end what some principals have open, gracefully.

        That is the connections whose principal is meant (see `Peer.end`), and at once the calls
        on other connections whose authenticator has returned an `Admitted` of their own: they end
        with `Unauthenticated`. What comes later is for the authenticator to refuse.

        Args:
            meant: Whether a principal is meant; called for each that is open.
            reason: For the peers.
            grace: As for `Peer.end`.

        Returns:
            How many connections and calls are ended.

        Raises:
            RuntimeError: The caller is in another thread than the server.
            TypeError: An argument is of a wrong type.
            ValueError: ``grace`` is less than 0.
        """
        self._home.check("this server")
        argument("reason", reason, instance_of(str))
        argument("grace", grace, number(at_least=0))
        peers = [peer for peer in self._peers() if peer.principal is not None]
        connections = [peer for peer in peers if meant(peer.principal)]
        calls = [
            call
            for peer in self._peers()
            if peer not in connections
            for call in peer._own  # noqa: SLF001 - not for applications
            if meant(call.principal)
        ]
        for connection in connections:
            connection.end(reason, grace=grace)
        for call in calls:
            call.end(reason)
        return len(connections) + len(calls)

    async def aclose(self, *, grace: float = 5.0) -> None:
        """Stop gracefully.

        The server accepts no new connections, and ends the open ones as its class says. What has
        not ended after ``grace`` seconds is cancelled. Returns when everything has ended; `serve`
        returns then too. In a handler of this server, which would wait for itself, call `stop`.

        Args:
            grace: Seconds; 0 cancels at once.

        Raises:
            RuntimeError: The caller is in another thread than the server.

        Checkpoint: always.
        If cancelled: the server still stops.
        """
        self.stop(grace=grace)
        await self._serving.wait_stopped()

    def stop(self, *, grace: float = 5.0) -> None:
        """Begin to stop as `aclose` does, without waiting. You may call it again, e.g. with 0.

        Raises:
            RuntimeError: The caller is in another thread than the server.
            TypeError: ``grace`` is no number.
            ValueError: It is less than 0.
        """
        self._home.check("this server")
        argument("grace", grace, number(at_least=0))
        self._serving.stop(grace)
        self._stop_connections(grace)
