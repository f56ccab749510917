"""One open connection, for the application: `Peer`. It may end it, and renew its authentication."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, final

import trio

from ..entrance import Home
from ..field_checks import argument, instance_of, number
from ..metadata.authentication import Authentication
from .byte_stream import TransportInfo

__all__ = ["OwnAdmission", "Peer", "Turn"]

_End: TypeAlias = Callable[[str, float], object]
"""Ends a connection gracefully, with a reason for the peer, until a time by trio's clock."""


class OwnAdmission(Protocol):
    """What runs under an admission of its own, and not under that of its connection."""

    @property
    def principal(self) -> object:
        """The principal."""

    def end(self, reason: str) -> None:
        """End it."""


class Turn:
    """Whose turn it is on one connection; what begins handlers notes it, on every wire.

    Attributes:
        arrived: When the request came whose handler begins now, by trio's clock.
    """

    __slots__ = ("arrived",)

    def __init__(self) -> None:
        self.arrived: float | None = None


@final
class Peer:
    """The peer of a connection, here: who it is, and the end of what it has open.

    A handler, a provider or a function for `Router.connection` gets it by a parameter with this
    annotation, and a responder by `Setup.peer`. ``server.peers()`` returns those of a server.

    Args:
        transport: Facts about the connection. A peer that is made for a test has no connection.

    Attributes:
        transport: Facts about the connection.
        principal: What the authenticator of the router that is served has returned for the
            connection; ``None`` before that, and without an authenticator.
    """

    __slots__ = (
        "_asked",
        "_end",
        "_ending",
        "_home",
        "_own",
        "_renew",
        "_turn",
        "principal",
        "transport",
    )

    def __init__(self, transport: TransportInfo) -> None:
        self.transport = transport
        self.principal: object = None
        self._home = Home()
        self._end: _End | None = None
        self._asked: tuple[str, float] | None = None
        self._ending = trio.Event()  # for wires whose connections have no such event
        self._renew: Callable[[Authentication | None], Awaitable[None]] | None = None
        self._own: set[OwnAdmission] = set()
        self._turn = Turn()

    def __repr__(self) -> str:
        return f"<Peer {self.transport.peer or self.transport.scheme}>"

    def end(self, reason: str = "", *, grace: float = 5.0) -> None:
        """Begin to end the connection gracefully.

        No new request is served, and open ones may finish; `Stopping` is set for them. What is open
        after ``grace`` seconds is cancelled. You may call it again, e.g. with 0.

        Args:
            reason: For the peer, where the protocol can say it: in RSocket's CONNECTION_CLOSE, in
                rsio's goodbye.
            grace: Seconds; 0 ends the connection at once.

        Raises:
            RuntimeError: The caller is in another thread than the connection.
            TypeError: An argument is of a wrong type.
            ValueError: ``grace`` is less than 0.
        """
        self._home.check("this connection")
        argument("reason", reason, instance_of(str))
        argument("grace", grace, number(at_least=0))
        self._asked = reason, trio.current_time() + grace
        self._ending.set()
        if self._end is not None:
            self._end(*self._asked)

    async def renew(self, auth: Authentication | None) -> None:
        """Ask the authenticators again about this connection, before its authentication runs out.

        They get its `Setup`, without a principal, as for a new connection. What has run out may
        be renewed too, by a request that is authenticated itself. What is open goes on, until the
        new time of `Admitted`. A refusal changes nothing.

        Args:
            auth: The new authentication.

        Raises:
            StreamError: They refuse it, or return another principal than before.
            RuntimeError: There is no authenticator; or the caller is in another thread.

        Checkpoint: as the authenticators do.
        If cancelled: nothing changes.
        """
        self._home.check("this connection")
        if self._renew is None:
            raise RuntimeError("no Router with an authenticator is served on this connection")
        await self._renew(auth)

    def _serves(self, end: _End, turn: Turn | None = None) -> None:
        """Get what ends the connection, and whose turn it is; `end` may have been called before."""
        self._end = end
        self._turn = turn or self._turn
        if self._asked is not None:
            end(*self._asked)
