"""What becomes of a connection: accepted, draining, over. `Lifecycle`.

It depends on nobody. Whoever finds out that the connection is over says so here, and whoever has to
act on it has registered before. Everything is synchronous: when `end` returns, every stream has
failed. Only the handlers are cancelled after it, some in each turn (`Connection`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import trio

from ..errors import ConnectionClosed, ConnectionLost, ErrorCode
from ..frames.error import encode_error
from ..log_policy import logger

if TYPE_CHECKING:
    from ..errors import RemoteProtocolError

__all__ = ["Lifecycle"]

OnEnd: TypeAlias = Callable[[Exception, bytes | None], None]
OnDrain: TypeAlias = Callable[[Exception], None]


class Lifecycle:
    """The states of one connection, and who is told of each.

    Attributes:
        established: Client: something has arrived that only an accepted SETUP can cause.
        failure: Why the connection is over; ``None`` while it is not.
        draining: What the connection will end with once its open streams have finished;
            ``None`` where new streams are welcome.
        ended: Set when the connection is over.
        acceptance: Set when `established` becomes true, or the connection is over.
        on_end: Told, in order, why the connection is over, and with which last ERROR frame.
        on_drain: Told, in order, that no new stream may begin.
        is_idle: Says whether nothing is left to wait for while draining.
        peer: Names the peer in the log.
    """

    def __init__(self, *, established: bool, peer: Callable[[], str]) -> None:
        self.established = established
        self.failure: Exception | None = None
        self.draining: Exception | None = None
        self.ended = trio.Event()
        self.acceptance = trio.Event()
        self.on_end: list[OnEnd] = []
        self.on_drain: list[OnDrain] = []
        self.is_idle: Callable[[], bool] = _never
        self.peer = peer

    def accepted(self) -> None:
        """Client: the SETUP is accepted."""
        self.established = True
        self.acceptance.set()

    # -- the end ----------------------------------------------------------------------------

    def end(self, error: Exception, *, last_words: bytes | None = None) -> None:
        """The connection is over: everybody learns it now. The first call counts.

        Args:
            error: What every stream and every later request gets. `trio.ClosedResourceError`
                where it was our own wish.
            last_words: An ERROR frame for the peer.
        """
        if self.failure is not None:
            return
        self.failure = error
        for tell in self.on_end:
            tell(error, last_words)
        self.ended.set()
        self.acceptance.set()

    def close(self) -> None:
        """End the connection because we want to; what is queued is still sent."""
        self.end(trio.ClosedResourceError("the connection was closed here"))

    def lost(self, cause: Exception) -> None:
        """The transport broke."""
        error = ConnectionLost(f"the connection broke: {cause}")
        error.__cause__ = cause
        self.end(error)

    def give_up(self, reason: str, *, code: int = ErrorCode.CONNECTION_ERROR) -> None:
        """The peer is of no use any more: tell it why, and close."""
        last_words = encode_error(0, code, reason.encode())
        self.end(ConnectionLost(reason), last_words=last_words)

    def protocol_error(self, error: RemoteProtocolError) -> None:
        """The peer broke the rules of the connection: tell it, and close."""
        logger.info("closing the connection to %s: %s", self.peer(), error)
        reason = ConnectionClosed(f"the peer broke the protocol: {error}")
        reason.__cause__ = error
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, str(error).encode())
        self.end(reason, last_words=last_words)

    # -- draining ---------------------------------------------------------------------------

    def drain(self, error: Exception) -> None:
        """No new streams; once the open ones have finished the connection ends with ``error``.

        (Protocol.md, "Error Codes", CONNECTION_CLOSE: both sides wait for outstanding streams.)
        """
        if self.failure is not None or self.draining is not None:
            return
        self.draining = error
        for tell in self.on_drain:
            tell(error)
        self.check_drained()

    def check_drained(self) -> None:
        """While draining: a stream or a request is done, which may have been the last."""
        if self.draining is not None and self.is_idle():
            self.end(self.draining)


def _never() -> bool:
    return False
