"""The frames that one end of a session keeps for the other, within bounds: `Retention`.

The log has a maximum size. When it fills, a KEEPALIVE with R *behind* the sent frames asks the peer
which position it has received, and the outbox accepts no payloads until the peer has answered. So
for a correct peer we never drop a frame that it may need, even if the producers are fast. If a peer
does not answer with its position, we do not wait for it: the oldest frames are dropped, with a
warning, and the session may be lost with its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ..frames.keepalive import encode_keepalive
from ..log_policy import logger
from ..protocol.resume_log import FRAME_COST, ResumeLog

if TYPE_CHECKING:
    from ..frames.keepalive import KeepaliveFrame
    from .outbox import Outbox

__all__ = ["Retention"]


class Retention:
    """Fills the log of one end, asks the peer in time, and holds payloads back until it answers.

    Attributes:
        log: The positions, and the retained frames.
        asked_since: When the KEEPALIVE was sent that the peer has not answered yet; ``None`` if
            there is none.

    Args:
        limit: The number of bytes that the log may hold.
        wake: Makes the writer call `ask` soon.
    """

    def __init__(self, limit: int, wake: Callable[[], None]) -> None:
        self.log = ResumeLog(limit)
        self.asked_since: float | None = None
        self._wake = wake
        self._outbox: Outbox | None = None
        self._room: int  # set by `bind`
        self._asked: int  # the position that we have asked the peer to confirm
        self._unasked = 0  # the bytes retained since then, as the log counts them
        self._acknowledges = True

    def bind(self, outbox: Outbox) -> None:
        """Hold payloads back by the room of ``outbox``."""
        self._outbox = outbox
        # The frames that still leave once the log is half full must fit into its other half. The
        # log counts the smallest frames with about twelve times their size.
        self._room = min(outbox.room.limit, max(1, self.log.limit // 64))
        outbox.room.set_limit(self._room)

    def record(self, frame: bytes) -> None:
        """Retain a tracked frame that is about to be sent."""
        log = self.log
        evicted = log.evicted
        log.record(frame)
        self._unasked += len(frame) + FRAME_COST
        if log.evicted and not evicted:
            logger.warning(
                "frames were dropped before the peer said that it has them: "
                "the session may be lost with its connection"
            )

    def ask(self, batch: list[bytes]) -> None:
        """If it is time, add to ``batch`` a KEEPALIVE that asks how far the peer has received."""
        log = self.log
        full = log.size >= log.limit // 2
        if self.asked_since is None and (full or self._unasked >= log.limit // 4):
            self.asked_since = trio.current_time()
            self._asked = log.sent
            self._unasked = 0
            batch.append(encode_keepalive(True, log.received, self._question()))
        if full and self._acknowledges and self._outbox is not None:
            self._outbox.room.set_limit(0)

    def confirmed(self, keepalive: KeepaliveFrame) -> None:
        """Drop the frames that the peer has received, as its KEEPALIVE says."""
        self.log.acknowledge(keepalive.position)
        if (
            self.asked_since is not None
            and not keepalive.respond
            and keepalive.data == self._question()
        ):
            self.asked_since = None
            if keepalive.position < self._asked:
                self.give_up()
        self._let_payloads_through()

    def give_up(self) -> None:
        """Stop holding payloads back: the peer does not say how far it has received."""
        self.asked_since = None
        self._acknowledges = False
        self._let_payloads_through()

    def restart(self, peer_received: int) -> None:
        """Begin a new connection, on which the peer has said how far it has received."""
        self.log.acknowledge(peer_received)
        self.asked_since = None
        self._unasked = self.log.size
        self._let_payloads_through()

    def _let_payloads_through(self) -> None:
        """Let payloads through again, if they were held back and the reason is gone."""
        log = self.log
        if self._outbox is None or self._outbox.room.limit:
            return
        if log.size < log.limit // 2 or not self._acknowledges:
            self._outbox.room.set_limit(self._room)
        elif self.asked_since is None:
            self._wake()  # the retained frames came behind the last question: ask again

    def _question(self) -> bytes:
        return self._asked.to_bytes(8, "big")
