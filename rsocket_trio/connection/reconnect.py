"""The settings of a client that connects again and again: `Reconnect`, `Attempt`.

Also what it tells the application: `ConnectionState`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from enum import Enum
from math import inf
from typing import Final

import attrs
import trio
from trio.lowlevel import checkpoint

from ..entrance import Home
from ..errors import (
    Forbidden,
    InvalidSetup,
    SetupError,
    Unauthenticated,
    UnsupportedSetup,
)
from ..field_checks import instance_of, number, whole
from ..protocol.retry import Retry

__all__ = ["Attempt", "ConnectionState", "Reconnect", "StateChanges", "is_final"]

_FULL_JITTER: Final = Retry(jitter=1)


class ConnectionState(Enum):
    """Where a client stands, see `rsocket_trio.Requester.state`."""

    CONNECTING = "connecting"
    """It dials, or waits until the server has accepted the SETUP."""
    CONNECTED = "connected"
    """Requests begin."""
    DRAINING = "draining"
    """The end is announced. Open requests may finish, and new ones wait for the next session."""
    WAITING = "waiting"
    """There is no connection, and the next attempt comes later."""
    CLOSED = "closed"
    """There is no connection, and none will follow."""


class StateChanges(AsyncIterator[ConnectionState]):
    """The states of a client, from now to its end.

    Args:
        state: Returns the present one.
        changed: Returns the event that is set at the next change.
        home: The thread of the client.
    """

    def __init__(
        self, state: Callable[[], ConnectionState], changed: Callable[[], trio.Event], home: Home
    ) -> None:
        self._home = home
        self._state = state
        self._changed = changed
        self._last: ConnectionState | None = None

    async def __anext__(self) -> ConnectionState:
        """Wait until the state is another one than that which was returned last.

        Raises:
            StopAsyncIteration: That was `ConnectionState.CLOSED`.
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._home.check("this requester")
        await checkpoint()
        while (state := self._state()) is self._last:
            if state is ConnectionState.CLOSED:
                raise StopAsyncIteration
            await self._changed().wait()
        self._last = state
        return state


@attrs.frozen(kw_only=True)
class Attempt:
    """What a function that makes the SETUP is told; `rsocket_trio.connect` has ``setup=`` for it.

    Attributes:
        number: Counts the attempts since the last session that the server has accepted, from 1.
        refusal: The last refusal of a SETUP since then. A token that was taken from a cache should
            be a new one now. A function that knows no better SETUP raises the refusal, and there
            is no other attempt.
    """

    number: int = 1
    refusal: SetupError | None = None


@attrs.frozen(kw_only=True)
class Reconnect:
    """How a client connects, for the first time and each time that its session is over.

    Attributes:
        retry: When to dial: the first time at once, and then, until a server has accepted the
            SETUP, after these delays. By default within 0.1 s, then at intervals that grow to 10 s,
            each wholly random (``Retry(jitter=1)``), so that the clients of one server do not come
            back together. ``max_attempts`` ends the client; by default it goes on without end.
        spread: After a goodbye of the server, or the loss of a connection that had lasted for a
            second, the delays begin with a random one up to this, in seconds, since all clients of
            a server meet this in one moment. 1 s.
        wait: How long a request waits while there is no session, in seconds; its own cancel scope
            may end that earlier. 0: it fails at once. ``math.inf``, the default: it waits until the
            client is closed, or gives up. Such a request was not sent; its error is `NotConnected`.
        max_waiting: At most so many requests wait, all others fail at once: each has its task and
            its payload in memory, and all leave when the next session begins. 1024.
    """

    retry: Retry = attrs.field(default=_FULL_JITTER, validator=instance_of(Retry))
    spread: float = attrs.field(default=1.0, validator=number(at_least=0, finite=True))
    wait: float = attrs.field(default=inf, validator=number(at_least=0))
    max_waiting: int = attrs.field(default=1024, validator=whole(0))


def is_final(refusal: SetupError, attempt: Attempt, *, renewable: bool) -> bool:
    """Return whether a refusal of a SETUP would come again.

    A server that is busy refuses with REJECTED_SETUP (Protocol.md, "Error Codes"), so that is not
    final.

    Args:
        refusal: The refusal.
        attempt: What was known when the SETUP was made.
        renewable: Whether a function makes the SETUP, so that the next one may be better.
    """
    if isinstance(refusal, InvalidSetup | UnsupportedSetup):
        return True
    if refusal.code == Unauthenticated.default_code:
        before = attempt.refusal
        return not renewable or (before is not None and before.code == refusal.code)
    return refusal.code == Forbidden.default_code
