"""How a handler learns that its connection is going to end: `Stopping`."""

from __future__ import annotations

from typing import Final, final

import trio

from .entrance import Home

__all__ = ["STOPPED", "Stopping"]

STOPPED: Final = "the server is being stopped"
"""What clients, probes and the reasons of cancellations say."""


@final
class Stopping:
    """Whether a connection is going to end, so that endless streams should finish now.

    It is set when this server stops and, over RSocket, when the peer announces that it stops. Open
    requests may finish until the grace of the stop is over; then they are cancelled.

    A handler of a `rsocket_trio.Router` gets one by a parameter with this annotation, and a
    responder by `Setup.stopping`.

    Args:
        event: Is set when the connection is going to end; for your tests of a handler.
    """

    __slots__ = ("_event", "_home")

    def __init__(self, event: trio.Event | None = None) -> None:
        self._event = trio.Event() if event is None else event
        self._home = Home()

    def __repr__(self) -> str:
        return f"<Stopping {'set' if self.is_set() else 'not set'}>"

    def is_set(self) -> bool:
        """Return whether the connection is going to end."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the connection is going to end.

        Raises:
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._home.check("this connection")
        await self._event.wait()
