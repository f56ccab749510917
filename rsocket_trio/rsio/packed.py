"""Many elements of one size in one object: `PackedElements`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import final

from ..sealed import Sealed

__all__ = ["PackedElements"]


@final
class PackedElements(metaclass=Sealed, given="RemotePublisher.open_packed gives them"):
    """Elements of one size, one behind the other. Iterate over it for the elements as bytes.

    Attributes:
        data: The octets of all elements, read-only.
        size: The octets of one element.
        count: How many elements there are; at least 1.
    """

    __slots__ = ("_octets", "count", "data", "size")

    def __init__(self, octets: bytes, size: int, count: int) -> None:
        self._octets = octets
        self.data = memoryview(octets)
        self.size = size
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        octets, size = self._octets, self.size
        return iter([octets[at : at + size] for at in range(0, len(octets), size)])

    def __getitem__(self, index: int) -> bytes:
        at = range(self.count)[index] * self.size
        return self._octets[at : at + self.size]

    def __bytes__(self) -> bytes:
        return self._octets

    def __repr__(self) -> str:
        return f"PackedElements({self.count} of {self.size} octets)"

    def array(self, typecode: str) -> array:  # type: ignore[type-arg]  # at run time it takes no types in brackets
        """Return the elements as numbers, in the byte order of this machine.

        Args:
            typecode: See `array.array`; its numbers must have the size of the elements, e.g. ``q``
                for signed numbers of 8 octets. Call ``byteswap`` on the result if the publisher
                has another byte order.

        Raises:
            ValueError: The numbers have another size, or there is no such typecode.
        """
        numbers: array[int] | array[float] = array(typecode)
        if numbers.itemsize != self.size:
            raise ValueError(
                f"the numbers of {typecode!r} have {numbers.itemsize} octets, and the elements "
                f"have {self.size}"
            )
        numbers.frombytes(self._octets)
        return numbers
