"""The phases of a connection, from its beginning to its end: `Lifecycle`.

docs/design.md, "How it ends", has the table of what leads from one to the next.

It depends on no other part. A part that finds out that the connection is over calls `end`; parts
that have to act on it have registered callbacks before. Everything is synchronous: when `end`
returns, every stream has failed. Only the handlers are cancelled later, some in each turn of the
loop (`Connection`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, TypeAlias

import trio

from ..entrance import Home
from ..errors import ConnectionClosed, ConnectionLost, ErrorCode
from ..frames.error import encode_error
from ..log_policy import logger
from ..sockets.failures import describe_failure

if TYPE_CHECKING:
    from ..errors import RemoteProtocolError

__all__ = ["Lifecycle", "Phase"]

OnEnd: TypeAlias = Callable[[Exception, bytes | None], None]
OnDrain: TypeAlias = Callable[[Exception], None]


class Phase(Enum):
    """The phases of a connection."""

    OPEN = "open"  # requests of both sides begin
    DRAINING = "draining"  # what began may finish; new requests fail, or are refused by an answer
    LINGERING = "lingering"  # nothing is open; requests that crossed our announcement are refused
    CLOSED = "closed"  # what is queued leaves, then `close_politely`


class Lifecycle:
    """The phase of one connection, and the callbacks for each change. Nothing else sets it.

    Attributes:
        phase: The phase.
        established: Whether the connection is accepted. A client knows it from the first frame
            that a server sends only after it has accepted the SETUP.
        failure: Why the connection is over; ``None`` while it is not.
        announced: The error with which the connection ends once its open streams have finished;
            ``None`` if no end was announced, by either side.
        drain_begun: Set when the draining begins, or the connection is over.
        drained: Set when the connection lingers, or is over.
        ended: Set when the connection is over.
        acceptance: Set when `established` becomes true, or the connection is over.
        on_end: Called, in order, with the reason for the end and the last ERROR frame.
        on_drain: Called, in order, when no new stream may begin any more.
        is_idle: Whether all streams and requests have finished, while draining.
        peer: Returns the name of the peer for the log.
        silent: The connection has ended because the peer gave no sign of life.
        home: The thread of the connection; waits for `ended` in another one would break both.
    """

    def __init__(self, *, established: bool, peer: Callable[[], str]) -> None:
        self.phase = Phase.OPEN
        self.established = established
        self.failure: Exception | None = None
        self.announced: Exception | None = None
        self.drain_begun = trio.Event()
        self.drained = trio.Event()
        self.ended = trio.Event()
        self.acceptance = trio.Event()
        self.on_end: list[OnEnd] = []
        self.on_drain: list[OnDrain] = []
        self.is_idle: Callable[[], bool] = _never
        self.peer = peer
        self.silent = False
        self.home = Home()
        self._linger = 0.0  # seconds
        self._patience = trio.CancelScope()  # how long open streams may finish

    @property
    def draining(self) -> bool:
        """Whether an end was announced, and has not come."""
        return self.phase in (Phase.DRAINING, Phase.LINGERING)

    def accepted(self) -> None:
        """Client: record that the server has accepted the SETUP."""
        self.established = True
        self.acceptance.set()

    # -- the end ----------------------------------------------------------------------------

    def end(self, error: Exception, *, last_words: bytes | None = None) -> None:
        """End the connection, and call every callback now. Only the first call has an effect.

        Args:
            error: The error of every stream and every later request. `trio.ClosedResourceError`
                if we closed the connection.
            last_words: An ERROR frame for the peer.
        """
        if self.failure is not None:
            return
        self.phase = Phase.CLOSED
        self.failure = error
        for tell in self.on_end:
            tell(error, last_words)
        for event in (self.ended, self.drained, self.drain_begun, self.acceptance):
            event.set()

    def close(self) -> None:
        """End the connection at our own wish; queued frames are still sent."""
        self.end(trio.ClosedResourceError("the connection was closed here"))

    def peer_ended(self) -> None:
        """End the connection because the peer has closed its sending side."""
        text = "the peer closed the connection"
        if not self.established:
            text += (
                " before it had accepted it: it may use TLS or another protocol at this address, "
                "or refuse us"
            )
        self._gone(ConnectionLost(text))

    def lost(self, cause: Exception) -> None:
        """End the connection because the transport broke."""
        error = ConnectionLost(f"the connection broke: {describe_failure(cause)}")
        error.__cause__ = cause
        self._gone(error)

    def give_up(self, reason: str, *, code: int = ErrorCode.CONNECTION_ERROR) -> None:
        """End the connection because the peer is dead or unusable, and tell it why."""
        last_words = encode_error(0, code, reason.encode())
        self._gone(ConnectionLost(reason), last_words)

    def _gone(self, error: ConnectionLost, last_words: bytes | None = None) -> None:
        """End the connection because there is no peer any more.

        An end that was announced stays the reason, whatever cut it short: so an application can
        tell a peer that stops from a peer that crashes.
        """
        announced = self.announced
        if announced is None:
            self.end(error, last_words=last_words)
        else:
            announced.__cause__ = error
            self.end(announced, last_words=last_words)

    def protocol_error(self, error: RemoteProtocolError) -> None:
        """End the connection because the peer broke the protocol, and tell it why."""
        logger.info("closing the connection to %s: %s", self.peer(), error)
        reason = ConnectionClosed(f"the peer broke the protocol: {error}")
        reason.__cause__ = error
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, str(error).encode())
        self.end(reason, last_words=last_words)

    # -- draining ---------------------------------------------------------------------------

    def drain(self, error: Exception, *, linger: float = 0.0, deadline: float = inf) -> None:
        """Allow no new streams; end with ``error`` once the open streams have finished.

        (Protocol.md, "Error Codes", CONNECTION_CLOSE: both sides wait for outstanding streams.)

        Args:
            error: The error of every later request. The first call's is kept.
            linger: So many seconds at most, after the last stream, requests that have crossed this
                end are answered, until the peer closes. A peer that has announced its own end
                sends no more, so there is nothing to linger for.
            deadline: What is open then ends with the connection, by trio's clock.
        """
        self._patience.deadline = min(self._patience.deadline, deadline)
        if self.phase is Phase.OPEN:
            self.phase = Phase.DRAINING
            self.announced = error
            self._linger = linger
            for tell in self.on_drain:
                tell(error)
            self.drain_begun.set()
        elif not linger:
            self._linger = 0.0
        self.check_drained()

    def check_drained(self) -> None:
        """While draining, go on to the next phase if the last stream or request has finished."""
        if self.announced is None or self.failure is not None or not self.is_idle():
            return
        if self._linger:
            self.phase = Phase.LINGERING
            self.drained.set()
        else:
            self.end(self.announced)

    async def run_out(self) -> None:
        """Wait until the connection is over; end it when it has lingered for its time.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        with self._patience:
            await self.drained.wait()
            with trio.move_on_after(self._linger):
                await self.ended.wait()
        if self.announced is not None:
            self.end(self.announced)


def _never() -> bool:
    return False
