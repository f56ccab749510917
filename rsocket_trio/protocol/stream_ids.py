"""The stream ids of our requests, and the ids of the peer's.

Protocol.md, "Stream Identifiers": the client's requests have odd ids from 1, the server's even ids
from 2, without gaps, up to 2^31-1. Then the ids of the connection are used up, unless re-use was
chosen: then ids begin again from the start, and those in use are skipped. Re-use is off by default,
as the text recommends it only together with resumption. Some time before the end a callback says
that another connection is needed soon, so that no request has to fail.

The responder does not store old ids: a request is ignored if its id is *in use* ("Handling the
Unexpected") or not of the peer's parity. Otherwise it is served, also if its id is lower than an
earlier one. A peer may re-use ids, and a finished id cannot be distinguished from a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from rsocket_trio.errors import StreamIdsExhausted

__all__ = ["MAX_STREAM_ID", "StreamIds", "is_peers"]

MAX_STREAM_ID: Final = 2**31 - 1

_RESERVE: Final = 2**24
"""Ids for the time until another connection stands: 8 million requests, some minutes at 50000 a
second; less than a hundredth of all."""


def is_peers(stream_id: int, client: bool) -> bool:
    """Whether a request with this id can be the peer's.

    Args:
        stream_id: The received stream id.
        client: Whether *we* are the client of the connection: then the peer's ids are even.
    """
    return stream_id > 0 and bool(stream_id & 1) is not client


class StreamIds:
    """The ids of our own requests on one connection, in the order in which the requests leave.

    Take an id right before its request is queued, without a checkpoint in between: ids must leave
    in rising order.

    Attributes:
        on_nearly_used_up: Called once, before the last ids are taken; not if ids are re-used.
    """

    __slots__ = ("_first", "_last", "_next", "_pause", "_reuse", "_wrapped", "on_nearly_used_up")

    def __init__(
        self,
        client: bool,
        *,
        reuse: bool = False,
        start: int | None = None,
        last: int = MAX_STREAM_ID,
    ) -> None:
        """Begin with the first id of our side.

        Args:
            client: Whether we are the client (odd ids) or the server (even ids).
            reuse: Begin again after the last id, instead of failing.
            start: The first id, of our parity. For tests.
            last: The last id. For tests.
        """
        self._first = 1 if client else 2
        self._next = self._first if start is None else start
        self._last = last
        self._pause = last if reuse else last - min(_RESERVE, last // 2)  # the next thing to do
        self.on_nearly_used_up: Callable[[], None] | None = None
        self._reuse = reuse
        self._wrapped = False

    def next(self, in_use: Container[int]) -> int:
        """Take the next id.

        Args:
            in_use: The ids of streams that have not ended; used only once ids are re-used.

        Returns:
            An id that no open stream of this connection has; without re-use, no earlier one had it.

        Raises:
            StreamIdsExhausted: No id is left: a new connection is needed.
        """
        if self._next > self._pause:
            self._pass_pause()
        if not self._wrapped:
            stream_id = self._next
            self._next += 2
            return stream_id
        return self._next_free(in_use)

    def give_back(self, stream_id: int) -> None:
        """Return the id that was taken last: its request has not left, and ids have no gaps."""
        self._next = stream_id

    def _pass_pause(self) -> None:
        if self._pause < self._last:
            self._pause = self._last
            if self.on_nearly_used_up is not None:
                self.on_nearly_used_up()
        if self._next > self._last:
            if not self._reuse:
                raise StreamIdsExhausted(
                    "the stream ids of this connection are used up (2^30 requests): make a new "
                    "connection; with reconnect=Reconnect() a client does that itself"
                )
            self._next, self._wrapped = self._first, True

    def _next_free(self, in_use: Container[int]) -> int:
        # Searches all ids at most once, beginning behind the last id that was taken.
        begin = self._next
        for candidates in (range(begin, self._last + 1, 2), range(self._first, begin, 2)):
            for stream_id in candidates:
                if stream_id not in in_use:
                    self._next = stream_id + 2
                    return stream_id
        raise StreamIdsExhausted("all stream ids are in use: make a new connection")
