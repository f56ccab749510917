"""Reads runs of onNext messages of one stream: the fast path of the decoder.

A fast stream fills what one read returns with messages that begin with the same octets: the type
and the id. Here these are compared, and nothing is made for a message but its element. Whatever is
unusual ends a run: the slow path reads it, and finds what is wrong.
"""

from __future__ import annotations

from typing import Final

__all__ = ["read_fixed_run", "read_run"]

_LONGEST: Final = 2**14 - 1
"""The longest element in a run, in bytes: its length has one or two octets."""


def read_run(
    data: bytes, at: int, prefix: bytes, at_most: int, longest: int
) -> tuple[list[bytes], int]:
    """Read elements of different sizes.

    Args:
        data: Messages.
        at: Where the first one begins.
        prefix: The type and the id.
        at_most: How many elements are read, at most.
        longest: The limit of an element, in bytes.

    Returns:
        The elements, and where the next message begins.
    """
    elements: list[bytes] = []
    skip = len(prefix)
    end = len(data)
    longest = min(longest, _LONGEST)
    head = b""
    size = 0
    while at_most:
        if head and data.startswith(head, at):
            # The second element of one size: mostly, more of them follow.
            step = len(head) + size
            count = _alike(data, at, head, step, min(at_most, (end - at) // step))
            if not count:
                break
            start = at + len(head)
            stop = at + count * step
            # An empty element begins at the end of its message.
            elements += [data[each : each + size] for each in range(start, stop + 1, step)]
            at = stop
            at_most -= count
            head = b""
            continue
        start = at + skip + 1
        if start >= end or not data.startswith(prefix, at):
            break
        size = data[start - 1]
        if size > 127:
            high = data[start]
            if high > 127 or high == 0:
                break
            start += 1
            size += (high << 7) - 128
        stop = start + size
        if stop > end or size > longest:
            break
        elements.append(data[start:stop])
        head = data[at:start]
        at = stop
        at_most -= 1
    return elements, at


def read_fixed_run(
    data: bytes, at: int, prefix: bytes, at_most: int, size: int
) -> tuple[list[bytes], int]:
    """Read elements of one size, in bytes. The other arguments are those of `read_run`."""
    step = len(prefix) + size
    count = _alike(data, at, prefix, step, min(at_most, (len(data) - at) // step))
    stop = at + count * step
    first = at + len(prefix)
    return [data[each : each + size] for each in range(first, stop, step)], stop


def _alike(data: bytes, at: int, head: bytes, step: int, count: int) -> int:
    """Return how many of the next messages begin with ``head``, one at every ``step`` bytes."""
    for position in range(len(head)):
        if not count:
            break
        column = data[at + position : at + (count - 1) * step + position + 1 : step]
        count -= len(column.lstrip(head[position : position + 1]))
    return count
