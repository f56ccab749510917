"""The arithmetic of demand: `Credit` for items that we send, `Window` for items of the peer.

Protocol.md, "Reactive Streams Semantics": the receiver of items grants the sender credit with
REQUEST_N; grants add up and are never taken back. Each item takes one credit, for any size and any
number of fragments. Completion, errors and CANCEL take no credit. There is no special value for
"unbounded" here: 2^31-1 is a large number.

A window grants more once a quarter of it is consumed, not item by item: one REQUEST_N then grants
many items, and the other three quarters keep the sender busy while the REQUEST_N travels. If the
window waited until most of it is consumed, each end would wait for the other in turn.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import InternalError, LocalProtocolError

__all__ = ["MAX_REQUEST_N", "Credit", "Window", "split_request_n"]

MAX_REQUEST_N: Final = 2**31 - 1
"""The largest n one frame can carry (Protocol.md, "REQUEST_N Frame")."""

MAX_CREDIT: Final = 2**63 - 1
"""No program can use this up. It limits the number if a peer keeps granting."""


def split_request_n(n: int) -> list[int]:
    """Return the values of the REQUEST_N frames that together grant ``n``; ``[]`` if it is below 1.

    Not for a number from outside: the list has one entry for each 2^31-1 of ``n``.
    """
    whole, rest = divmod(max(n, 0), MAX_REQUEST_N)
    return [MAX_REQUEST_N] * whole + ([rest] if rest else [])


class Credit:
    """The number of items that the peer lets us send. One object per stream and direction.

    Attributes:
        available: The number of items that may be sent now.
    """

    __slots__ = ("available",)

    def __init__(self, initial: int = 0) -> None:
        self.available = 0
        self.add(initial)

    def __repr__(self) -> str:
        return f"<Credit {self.available}>"

    def add(self, n: int) -> None:
        """Add the credit that the peer granted. An ``n`` below 1 is ignored."""
        # Protocol.md, "REQUEST_N Frame": n MUST be > 0; the text names no reaction.
        if n > 0:
            self.available = min(self.available + n, MAX_CREDIT)

    def take(self) -> bool:
        """Take the credit for one item.

        Returns:
            False if there is none: the item must wait.
        """
        if self.available:
            self.available -= 1
            return True
        return False


class Window:
    """The number of items that we let the peer send, and when to let it send more.

    An item is *outstanding* from its grant until it arrives, then *unread* until it is consumed.
    In automatic mode ``outstanding + unread`` never exceeds ``prefetch``; in manual mode it never
    exceeds what was granted.

    Attributes:
        initial_request_n: The n for the request frame (requester), or for the first REQUEST_N
            (responder of a channel). At least 1, as the specification requires.
        outstanding: The number of granted items that have not arrived.
        unread: The number of items that have arrived, with credit, and are not consumed.
        peak: The largest ``outstanding + unread`` so far: the most items that the peer could have
            put into our memory.
        overruns: The number of items that came without credit.
    """

    __slots__ = (
        "_batch",
        "_pending",
        "_uncredited",
        "initial_request_n",
        "outstanding",
        "overruns",
        "peak",
        "unread",
    )

    def __init__(self, prefetch: int, *, initial: int = 1, uncredited: int = 0) -> None:
        """Open a window.

        Args:
            prefetch: The size of the automatic window, in items; 0 is manual mode, in which only
                `grant` lets the peer send more.
            initial: Manual mode only: the n of the request frame. It cannot be 0 there, so a
                stream cannot be opened without a grant of at least one item. A caller that knows
                the first explicit n before the frame leaves passes it here.
            uncredited: The number of items that come without credit before all others and are
                consumed first: 1 for the responder of a channel, where the payload of the request
                frame needs no credit (Protocol.md, "REQUEST_CHANNEL Frame").

        Raises:
            LocalProtocolError: ``prefetch`` or ``initial`` does not fit a frame.
        """
        if not 0 <= prefetch <= MAX_REQUEST_N:
            raise LocalProtocolError(f"prefetch must be 0 to {MAX_REQUEST_N}, not {prefetch}")
        if not 1 <= initial <= MAX_REQUEST_N:
            raise LocalProtocolError(f"initial must be 1 to {MAX_REQUEST_N}, not {initial}")
        self.initial_request_n = prefetch or initial
        self.outstanding = self.peak = self.initial_request_n
        self.unread = 0
        self.overruns = 0
        self._uncredited = uncredited
        self._pending = 0  # items consumed, and not granted again yet
        self._batch = -(-prefetch // 4)  # a quarter, rounded up; 0 in manual mode

    def __repr__(self) -> str:
        mode = "automatic" if self._batch else "manual"
        return f"<Window {mode} outstanding={self.outstanding} unread={self.unread}>"

    @property
    def manual(self) -> bool:
        """Whether only `grant` lets the peer send more."""
        return not self._batch

    def received(self) -> bool:
        """Count one item that arrived; `PayloadInbox.deliver` often does this inline.

        Returns:
            False if the peer had no credit for it: it broke the protocol, and the item must not be
            kept. Only `overruns` has changed then.
        """
        if not self.outstanding:
            self.overruns += 1
            return False
        self.outstanding -= 1
        self.unread += 1
        return True

    def consumed(self, k: int = 1) -> int:
        """Count ``k`` items that the application took.

        Returns:
            The n to grant with REQUEST_N now, already counted as outstanding; 0 to grant nothing.
            Always 0 in manual mode.

        Raises:
            InternalError: More items were consumed than had arrived.
        """
        if self._uncredited:
            first = min(k, self._uncredited)
            self._uncredited -= first
            k -= first
        unread = self.unread - k
        if unread < 0:
            raise InternalError(f"{k} items were consumed, but only {self.unread} had arrived")
        self.unread = unread
        pending = self._pending = self._pending + k
        if pending < self._batch or not self._batch:
            return 0
        n, self._pending = self._pending, 0
        self.outstanding += n  # outstanding + unread is still <= prefetch, so no new peak
        return n

    def grant(self, n: int) -> None:
        """Let the peer send ``n`` more items, for one REQUEST_N frame: manual mode only.

        Raises:
            LocalProtocolError: ``n`` is below 1 or does not fit into a frame, or the window is
                automatic. Nothing has changed.
        """
        if self._batch:
            raise LocalProtocolError("request_n is for streams opened with prefetch=0")
        if not 1 <= n <= MAX_REQUEST_N:
            raise LocalProtocolError(f"n must be 1 to {MAX_REQUEST_N}, not {n}")
        self.outstanding = min(self.outstanding + n, MAX_CREDIT)
        self.peak = max(self.peak, self.outstanding + self.unread)
