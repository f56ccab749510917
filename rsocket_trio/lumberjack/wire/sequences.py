"""Sequence numbers: 32 bits that roll over from 4294967295 to 0.

lumberjack-v1.md, "Sequence number roll-over". Beats restart at 1 in each window, other senders
continue over windows. So a window may start anywhere, and may contain the roll-over.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import RemoteProtocolError

__all__ = ["MAX_SEQUENCE", "distance", "events_covered", "last_sequence", "next_sequence"]

MAX_SEQUENCE: Final = 2**32 - 1


def next_sequence(sequence: int) -> int:
    """Return the sequence number behind ``sequence``."""
    return (sequence + 1) & MAX_SEQUENCE


def distance(first: int, second: int) -> int:
    """Return how many steps lead forward from ``first`` to ``second``, 0 to 4294967295."""
    return (second - first) & MAX_SEQUENCE


def last_sequence(first: int, count: int) -> int:
    """Return the sequence number of the last of ``count`` events, of which ``first`` is the first.

    Of no events it is the number before ``first``.
    """
    return (first + count - 1) & MAX_SEQUENCE


def events_covered(first: int, count: int, acknowledged: int) -> int:
    """Return how many events of a window an acknowledged sequence number covers, from 1 to count.

    Args:
        first: The sequence number of the first event of the window.
        count: The number of events in the window.
        acknowledged: The sequence number in the ACK.

    Raises:
        RemoteProtocolError: No event of the window has this number.
    """
    covered = distance(first, acknowledged) + 1
    if covered > count:
        raise RemoteProtocolError(
            f"ACK {acknowledged} is outside the window: {count} events from sequence {first}"
        )
    return covered
