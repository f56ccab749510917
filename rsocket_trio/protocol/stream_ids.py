"""Which stream ids we take for our requests, and which ones are the peer's.

Protocol.md, "Stream Identifiers": the client's requests are odd from 1, the server's even from 2,
each the next one without gaps, up to 2^31-1. Then the connection is used up, unless re-use was
chosen: ids begin again from the start and those in use are skipped. Re-use is off by default, as
the text recommends it only together with resumption.

The responder keeps no memory of ids: a request is ignored if its id is *in use* ("Handling the
Unexpected") or not of the peer's parity, and served otherwise, also when it is lower than one
seen before. A peer that re-uses ids is legal, and nothing tells a finished id from a fresh one.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from rsocket_trio.errors import LocalProtocolError

__all__ = ["MAX_STREAM_ID", "StreamIds", "is_peers"]

MAX_STREAM_ID: Final = 2**31 - 1


def is_peers(stream_id: int, client: bool) -> bool:
    """Whether a request with this id can be the peer's.

    Args:
        stream_id: As received.
        client: Whether *we* are the client of the connection: the peer's ids are even then.
    """
    return stream_id > 0 and bool(stream_id & 1) is not client


class StreamIds:
    """The ids of our own requests on one connection, in the order the requests leave.

    Take an id next to queueing its request, with no checkpoint in between: ids must leave in
    rising order.
    """

    __slots__ = ("_first", "_last", "_next", "_reuse", "_wrapped")

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
            start: Begin here instead; of our parity. For tests.
            last: The last id there is. For tests.
        """
        self._first = 1 if client else 2
        self._next = self._first if start is None else start
        self._last = last
        self._reuse = reuse
        self._wrapped = False

    def next(self, in_use: Container[int]) -> int:
        """Take the next id.

        Args:
            in_use: The ids of streams that have not ended; looked at only once ids are re-used.

        Returns:
            An id that no stream of this connection has, and unless `reuse` never had.

        Raises:
            LocalProtocolError: No id is left: only a new connection helps.
        """
        if self._next > self._last:
            if not self._reuse:
                raise LocalProtocolError("stream ids are used up: open a new connection")
            self._next, self._wrapped = self._first, True
        if not self._wrapped:
            stream_id = self._next
            self._next += 2
            return stream_id
        return self._next_free(in_use)

    def give_back(self, stream_id: int) -> None:
        """Take back the id that was taken last: its request has not left, and ids have no gaps."""
        self._next = stream_id

    def _next_free(self, in_use: Container[int]) -> int:
        # At most once around, beginning where the last id was taken.
        begin = self._next
        for candidates in (range(begin, self._last + 1, 2), range(self._first, begin, 2)):
            for stream_id in candidates:
                if stream_id not in in_use:
                    self._next = stream_id + 2
                    return stream_id
        raise LocalProtocolError("all stream ids are in use: open a new connection")
