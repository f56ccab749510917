"""Listen at several addresses until stopped: `Serving`. The server of each wire has one.

`RunningServer` is the part of it that applications use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeAlias

import trio

from ..entrance import Home
from ..field_checks import argument, number
from ..uri import Uri, shown

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
        around: AbstractAsyncContextManager[object],
    ) -> None:
        """Listen until stopped, and call ``started`` when every address accepts connections.

        ``around`` is entered before and left after all of that, however it ends.

        Raises:
            OSError: An address cannot be listened on; the text names it.
            ValueError: The TLS context is missing.

        Checkpoint: always.
        If cancelled: at once, with all connections.
        """
        try:
            async with around:
                await self._listen(listeners, started)
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

    @abstractmethod
    def _stop_connections(self, grace: float) -> None:
        """Begin the graceful end of the open connections, which has ``grace`` seconds."""

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
