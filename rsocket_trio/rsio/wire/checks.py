"""What the decoder asks as soon as it has read a type, an id or a count: `Checks`.

Most violations show before a message is whole: by its type, by the id of its stream, by a length.
The decoder asks at these places, so that a peer is refused before it has sent, and we have stored,
what no rule allows. An answer is an exception or nothing. A question may be asked again if the
octets arrive one by one, so an answer changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from .messages import FIRST_EXTENSION_TYPE, LAST_EXTENSION_TYPE, MessageType
from .varint import MAX_VARINT
from .violations import ProtocolViolation, ViolationCode

__all__ = ["ALL_TYPES", "Checks"]

ALL_TYPES: Final = frozenset(map(int, MessageType)) | frozenset(
    range(FIRST_EXTENSION_TYPE, LAST_EXTENSION_TYPE + 1)
)


class Checks:
    """Allows every message that can be decoded. `rsocket_trio.rsio.rules` has a stricter one.

    Args:
        element_size_of: Returns the size of the elements of a stream by its id, in bytes; 0 if
            they have different sizes.

    Attributes:
        types: The types of messages that may come now.

    The methods raise `ProtocolViolation` if the peer may not send this now.
    """

    def __init__(self, element_size_of: Callable[[int], int]) -> None:
        self.element_size_of = element_size_of
        self.types: frozenset[int] = ALL_TYPES

    def credit(self, subscriber: int) -> int:
        """Return how many onNext may come now for a stream, as far as nothing has to be refused."""
        return MAX_VARINT

    def refuse_type(self, code: int) -> NoReturn:
        """Refuse a message whose type is not in ``types``."""
        raise ProtocolViolation(ViolationCode.UNKNOWN_TYPE, f"0x{code:02x}")

    def subscribe(self, subscriber: int) -> None:
        """Check the id of a subscribe."""

    def signal(self, code: int, subscriber: int) -> None:
        """Check the id of a message of a publisher."""

    def packed(self, subscriber: int, count: int) -> None:
        """Check the number of elements of an onNextPacked."""

    def part(self, code: int, subscriber: int, element_id: int) -> None:
        """Check the id of the element of a part."""

    def part_size(self, code: int, subscriber: int, element_id: int, size: int) -> None:
        """Check the size of a part, in bytes."""
