"""Elements of one size in one block of bytes: `PackedElements`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

__all__ = ["PackedElements"]


class PackedElements(Sequence[bytes]):
    """Elements of one size, one after the other. A sequence of them, made as they are needed.

    Args:
        block: The bytes of all elements.
        size: The bytes of one element.

    Raises:
        ValueError: The block is no whole number of elements.
    """

    def __init__(self, block: bytes | bytearray | memoryview, size: int) -> None:
        self.block = block
        self.size = size
        self._count, rest = divmod(len(block), size)
        if rest:
            raise ValueError(f"{len(block)} bytes are no whole number of elements of {size} bytes")

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> PackedElements: ...
    def __getitem__(self, index: int | slice) -> bytes | PackedElements:
        size = self.size
        if isinstance(index, slice):
            first, last, step = index.indices(self._count)
            if step != 1:
                raise ValueError("elements of a block are sliced without gaps")
            return PackedElements(self.block[first * size : max(first, last) * size], size)
        place = range(self._count)[index] * size
        return bytes(self.block[place : place + size])
