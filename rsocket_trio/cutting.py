"""Frames out of bytes, however these come: `StreamCutter`, `Incomplete`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

__all__ = ["MAX_HELD", "Cut", "Incomplete", "StreamCutter"]

Cut: TypeAlias = Callable[[bytes], Iterator[bytes | ValueError]]
"""Cuts bytes into frames; yields an error for the rest, if it is not a frame."""

MAX_HELD: Final = 64 * 2**20
"""The most bytes of a frame that is not whole: several times as many as a frame of RSocket has."""

_SMALL: Final = 64 * 2**10


class Incomplete(ValueError):
    """Bytes end inside of a frame.

    Attributes:
        rest: How many bytes of this frame there are.
        whole: How many it has at least, as far as they say.
    """

    def __init__(self, text: str, *, rest: int, whole: int = 0) -> None:
        super().__init__(text)
        self.rest = rest
        self.whole = whole


class StreamCutter:
    """Cuts a stream of bytes into frames. It keeps one frame that is not whole, of 64 MiB at most.

    Args:
        cut: Cuts bytes that begin with a frame, and yields `Incomplete` for one that is cut off.
    """

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._held = bytearray()
        self._needed = 1
        self._broken = False

    def feed(self, data: bytes) -> Iterator[bytes | ValueError]:
        """Yield the frames that are whole now. An error is the last that is ever yielded."""
        if self._broken:
            return
        self._held += data
        if len(self._held) < self._needed:
            return
        held = bytes(self._held)
        self._held.clear()
        self._needed = 1
        for each in self._cut(held):
            if not isinstance(each, Incomplete):
                self._broken = isinstance(each, ValueError)
                yield each
            elif max(each.rest, each.whole) > MAX_HELD:
                self._broken = True
                yield ValueError(f"a frame of more than {MAX_HELD} bytes is not read")
            else:
                self._held += held[len(held) - each.rest :]
                # Where the size is not known, it is looked for again each time that much more is
                # there, so the time is linear in the size of the frame.
                more = each.rest // 4 if each.rest > _SMALL else 1
                self._needed = max(each.whole, each.rest + more)

    def end(self) -> Iterator[bytes | ValueError]:
        """Yield what is left when no more bytes come: an error for a frame that is cut off."""
        if self._held:
            held = bytes(self._held)
            self._held.clear()
            yield from self._cut(held)
