"""Listen at several addresses until stopped: `Serving`. The server of each wire has one.

`RunningServer` is the part of it that applications use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from math import inf
from typing import TypeAlias

import trio

from ..entrance import Home
from ..field_checks import argument, instance_of, number
from ..health import Health
from ..statistics import WireStatistics
from ..stopping import STOPPED
from ..uri import Uri
from .goodbyes import Goodbyes
from .peer import Peer
from .workplace import workplace

__all__ = ["Listen", "RunningServer", "Serving"]


Listen: TypeAlias = Callable[..., Awaitable[None]]
"""`rsocket_trio.sockets.listen.listen_for`, or a function with the same keyword arguments, which is
called with an address."""


class Serving:
    """The listeners of a server and the tasks of its connections, from start to end.

    A stop has phases; docs/design.md, "How it ends", has their table.

    Args:
        goodbyes: Tells the connections.
        health: Is told when the server accepts connections, and when it stops.

    Attributes:
        uris: The addresses it listens on, with their real ports.
        on_close: Called when the listeners are closed, before the first goodbye.
    """

    def __init__(self, goodbyes: Goodbyes, health: Health | None = None) -> None:
        self.uris: list[str] = []
        self.on_close: list[Callable[[], object]] = []
        self._goodbyes = goodbyes
        self._health = Health() if health is None else health
        self._accepting = trio.CancelScope()
        self._everything = trio.CancelScope()
        self._told_by = inf  # by trio's clock
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
        self._health._begins()  # noqa: SLF001 - not for applications
        try:
            await within(partial(self._listen, listeners, started))
        finally:
            self._health._stops()  # noqa: SLF001 - not for applications
            self._stopped.set()
            place = workplace()
            if place is not None:
                place.tell()

    async def _listen(
        self, listeners: Iterable[tuple[Uri, Listen]], started: Callable[[], object]
    ) -> None:
        refused: OSError | ValueError | None = None
        with self._everything:
            async with trio.open_nursery() as drain:
                drain.start_soon(self._goodbyes.run)
                async with trio.open_nursery() as connections:
                    with self._accepting:
                        async with trio.open_nursery() as nursery:
                            try:
                                for uri, listen in listeners:
                                    begun = partial(
                                        listen, handler_nursery=connections, drain_nursery=drain
                                    )
                                    bound: list[Uri] = await nursery.start(begun, uri)
                                    self.uris += map(str, bound)
                            except (OSError, ValueError) as error:
                                # Raised below: a nursery would put it into an exception group.
                                refused = error
                                reason = "an address cannot be listened on"
                                self._everything.cancel(reason=reason)
                            else:
                                self._health._starts()  # noqa: SLF001 - not for applications
                                started()
                    if refused is None:
                        self._say_goodbye()
                drain.cancel_scope.cancel(reason="all connections have ended")
        if refused is not None:
            raise refused

    def stop(self, delay: float, spread: float, grace: float) -> None:
        """Begin to stop; a later call can only make it quicker.

        Args:
            delay: So many seconds later the listeners are closed, and the goodbyes begin.
            spread: Within so many seconds they are said.
            grace: So many seconds after that, what is left is cancelled.
        """
        now = trio.current_time()
        self._health._stops()  # noqa: SLF001 - not for applications
        self._told_by = min(self._told_by, now + delay + spread)
        self._everything.deadline = min(self._everything.deadline, now + delay + spread + grace)
        self._accepting.deadline = min(self._accepting.deadline, now + delay)
        if self._accepting.deadline <= now:
            self._say_goodbye()

    def unready(self) -> None:
        """Let probes know that this server will stop, and serve everything as before."""
        self._health._stops()  # noqa: SLF001 - not for applications

    def part(self) -> None:
        """Say goodbye to all now, as the application has failed; the caller cuts what is left."""
        self._health._stops()  # noqa: SLF001 - not for applications
        self._told_by = trio.current_time()
        self._say_goodbye(grace=0.0)

    def _say_goodbye(self, grace: float | None = None) -> None:
        """Close the listeners, and begin the goodbyes; or make them quicker."""
        self._accepting.cancel(reason=STOPPED)
        for tell in self.on_close:
            tell()
        now = trio.current_time()
        told_by = max(now, self._told_by)
        if grace is None:
            grace = max(0.0, self._everything.deadline - told_by)
        self._goodbyes.stop(told_by - now, grace)

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

    async def aclose(self, *, delay: float = 0.0, spread: float = 0.0, grace: float = 5.0) -> None:
        """Stop gracefully, and wait for it.

        1. For ``delay`` seconds everything is served as before; only `Health` says that the process
           is not ready, so that balancers send new clients elsewhere.
        2. The listeners are closed. Clients that have arrived by then are answered.
        3. Within ``spread`` seconds each connection is told at a random moment, as the class of the
           server says, and `Stopping` is set for its handlers: its open requests may finish.
           So not all clients look for another server in one moment.
        4. For ``grace`` seconds after that, what is open may finish.
        5. What has not ended by then is cancelled.

        Returns when everything has ended, which may be sooner; `serve` returns then too. In a
        handler of this server, which would wait for itself, call `stop`.

        Args:
            delay: Seconds; with a probe every 5 s, 10 are enough for most balancers.
            spread: Seconds.
            grace: Seconds; with 0 for all three everything is cancelled at once.

        Raises:
            RuntimeError: The caller is in another thread than the server.

        Checkpoint: always.
        If cancelled: the server still stops.
        """
        self.stop(delay=delay, spread=spread, grace=grace)
        await self._serving.wait_stopped()

    def stop(self, *, delay: float = 0.0, spread: float = 0.0, grace: float = 5.0) -> None:
        """Begin to stop as `aclose` does, without waiting.

        You may call it again: each phase ends at the earliest time that any call has asked for.

        Raises:
            RuntimeError: The caller is in another thread than the server.
            TypeError: An argument is no number.
            ValueError: It is less than 0, or ``delay`` or ``spread`` is infinite.
        """
        self._home.check("this server")
        argument("delay", delay, number(at_least=0, finite=True))
        argument("spread", spread, number(at_least=0, finite=True))
        argument("grace", grace, number(at_least=0))
        self._serving.stop(delay, spread, grace)
