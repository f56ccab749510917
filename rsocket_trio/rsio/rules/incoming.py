"""The streams of the peer's publishers, to which we subscribed: `Incoming`."""

from __future__ import annotations

from typing import Final

import attrs

from rsocket_trio.errors import LocalProtocolError

from ..limits import RsioLimits
from ..wire.messages import MessageType
from ..wire.varint import MAX_VARINT
from ..wire.violations import ProtocolViolation, ViolationCode

__all__ = ["Incoming", "Subscription"]

_UNKNOWN: Final = -1
"""The size of the elements of a stream before its `Subscribed`."""

_ELEMENTS: Final = frozenset((MessageType.ON_NEXT, MessageType.ON_NEXT_PACKED))


@attrs.define(eq=False)
class Subscription:
    """One stream of the peer.

    Attributes:
        demand: The elements that we have asked for and that have not begun to arrive; from
            `MAX_VARINT` on there is no limit, and it does not change.
        element_size: The size of all elements, 0 for different ones, -1 before `Subscribed`.
        cancelled: We have cancelled it. What still arrives is checked and dropped.
        ended: Its last message has come. The id is in use until `Incoming.forget_ended`.
        parts: The split elements that have begun and not ended, by their ids.
    """

    demand: int
    element_size: int = _UNKNOWN
    cancelled: bool = False
    ended: bool = False
    parts: dict[int, bytearray] = attrs.field(factory=dict)


class Incoming:
    """The streams of the peer's publishers, to which we subscribed.

    An id is free again when the publisher has sent the last message of its stream, also after our
    cancel: until then, messages of the old stream may arrive. The lowest free ids are used, because
    they are short on the wire.
    """

    def __init__(self, limits: RsioLimits) -> None:
        self._limits: Final = limits
        self._streams: Final[dict[int, Subscription]] = {}
        self._free: Final[list[int]] = []
        self._ended: Final[list[int]] = []
        self._next_id = 0
        self._parts_memory = 0
        self._cancelled = 0

    # What we do.

    def open(self, demand: int) -> int:
        """Add a stream and return its id."""
        if self._free:
            subscriber = self._free.pop()
        else:
            subscriber = self._next_id
            self._next_id += 1
        self._streams[subscriber] = Subscription(demand)
        return subscriber

    def add_demand(self, subscriber: int, demand: int) -> bool:
        """Ask for more elements. Return whether a request has to be sent."""
        stream = self._streams.get(subscriber)
        if stream is None or stream.cancelled or stream.ended:
            return False
        stream.demand = min(stream.demand + demand, MAX_VARINT)
        return True

    def cancel(self, subscriber: int) -> bool:
        """Want no more. Return whether a cancel has to be sent."""
        stream = self._streams.get(subscriber)
        if stream is None or stream.cancelled or stream.ended:
            return False
        stream.cancelled = True
        self._cancelled += 1
        self._drop_parts(stream)
        return True

    def close_all(self) -> None:
        """Drop the elements of all streams: the connection ends."""
        for stream in self._streams.values():
            if not (stream.cancelled or stream.ended):
                stream.cancelled = True
                self._cancelled += 1
                self._drop_parts(stream)

    def check_room(self) -> None:
        """Check that the peer has confirmed enough of what was cancelled to begin a stream."""
        if self._cancelled >= self._limits.max_cancelled:
            raise LocalProtocolError(
                f"the peer has yet to confirm {self._cancelled} cancelled streams"
                " (RsioLimits.max_cancelled)"
            )

    # What the peer may do. These change nothing.

    def element_size(self, subscriber: int) -> int:
        """Return the size of the elements of a stream that has passed `check_signal`."""
        return self._streams[subscriber].element_size

    def credit(self, subscriber: int) -> int:
        """Return how many elements may come now; 0 for a stream that has none now."""
        stream = self._streams.get(subscriber)
        if stream is None or stream.ended or stream.element_size == _UNKNOWN:
            return 0
        return stream.demand

    def check_signal(self, code: int, subscriber: int) -> None:
        """Check that a message of this type may come now for this stream."""
        stream = self._streams.get(subscriber)
        if stream is None or stream.ended:
            raise ProtocolViolation(
                ViolationCode.UNKNOWN_ID, f"{subscriber} in {MessageType(code).name}"
            )
        if code == MessageType.SUBSCRIBED:
            if stream.element_size != _UNKNOWN:
                raise ProtocolViolation(ViolationCode.SUBSCRIBED_TWICE, f"on stream {subscriber}")
        elif stream.element_size == _UNKNOWN:
            raise ProtocolViolation(
                ViolationCode.NOT_SUBSCRIBED, f"{MessageType(code).name} on stream {subscriber}"
            )
        elif code in _ELEMENTS:
            if not stream.demand:
                _refuse_excess(subscriber, 1, 0)
        elif code == MessageType.ON_COMPLETE and stream.parts:
            raise ProtocolViolation(ViolationCode.PARTS_OPEN, f"ON_COMPLETE on stream {subscriber}")

    def check_packed(self, subscriber: int, count: int) -> None:
        """Check that we have asked for so many elements."""
        demand = self._streams[subscriber].demand
        if count > demand:
            _refuse_excess(subscriber, count, demand)

    def check_part(self, code: int, subscriber: int, element_id: int) -> None:
        """Check that the element has begun, or may begin."""
        stream = self._streams[subscriber]
        if stream.cancelled or element_id in stream.parts:
            return
        where = f"element {element_id} of stream {subscriber}"
        if code == MessageType.ON_NEXT_LAST_PART:
            raise ProtocolViolation(ViolationCode.PART_MISSING, f"before the last of {where}")
        if not stream.demand:
            _refuse_excess(subscriber, 1, 0)
        if len(stream.parts) >= self._limits.max_open_elements:
            raise ProtocolViolation(
                ViolationCode.LIMIT,
                f"open split elements of stream {subscriber}, at most"
                f" {self._limits.max_open_elements}",
            )

    def check_part_size(self, code: int, subscriber: int, element_id: int, size: int) -> None:
        """Check the size of an element with this part, and the memory of all parts."""
        stream = self._streams[subscriber]
        if stream.cancelled:
            return
        whole = len(stream.parts.get(element_id, b"")) + size
        exact = stream.element_size
        last = code == MessageType.ON_NEXT_LAST_PART
        if exact and (whole > exact or (last and whole != exact)):
            raise ProtocolViolation(
                ViolationCode.ELEMENT_SIZE,
                f"parts of element {element_id} of stream {subscriber} have {whole} octets,"
                f" elements have {exact}",
            )
        longest = self._limits.max_element_size
        if whole > longest:
            raise ProtocolViolation(ViolationCode.LIMIT, f"element {whole}, at most {longest}")
        memory = self._parts_memory + size
        if memory > self._limits.max_parts_memory:
            raise ProtocolViolation(
                ViolationCode.LIMIT,
                f"open split elements {memory}, at most {self._limits.max_parts_memory}",
            )

    # What the peer did. It was checked before.

    def subscribed(self, subscriber: int, element_size: int) -> bool:
        """Note the first message of a publisher. Return whether the stream is of interest."""
        stream = self._streams[subscriber]
        stream.element_size = element_size
        return not stream.cancelled

    def take(self, subscriber: int, count: int) -> bool:
        """Count elements against the demand. Return whether they are of interest."""
        stream = self._streams[subscriber]
        if stream.demand != MAX_VARINT:
            stream.demand -= count
        return not stream.cancelled

    def part(self, subscriber: int, element_id: int, data: bytes) -> None:
        """Add a part to its element. The first one takes a unit of the demand."""
        stream = self._streams[subscriber]
        if stream.cancelled:
            return
        element = stream.parts.get(element_id)
        if element is None:
            self.take(subscriber, 1)
            # A list of parts would take fifty times the memory, if each part has one octet.
            element = stream.parts[element_id] = bytearray()
        element += data
        self._parts_memory += len(data)

    def last_part(self, subscriber: int, element_id: int, data: bytes) -> bytes | None:
        """Return the whole element; ``None`` if it is of no interest."""
        stream = self._streams[subscriber]
        if stream.cancelled:
            return None
        element = stream.parts.pop(element_id)
        self._parts_memory -= len(element)
        element += data
        return bytes(element)

    def end(self, subscriber: int) -> bool:
        """Note the last message of a stream. Return whether the stream is of interest."""
        stream = self._streams[subscriber]
        stream.ended = True
        self._ended.append(subscriber)
        self._drop_parts(stream)
        if stream.cancelled:
            self._cancelled -= 1
            return False
        return True

    def forget_ended(self) -> None:
        """Let the ids of streams that have ended be used again."""
        for subscriber in self._ended:
            del self._streams[subscriber]
        self._free.extend(self._ended)
        self._ended.clear()

    def _drop_parts(self, stream: Subscription) -> None:
        self._parts_memory -= sum(map(len, stream.parts.values()))
        stream.parts.clear()


def _refuse_excess(subscriber: int, count: int, demand: int) -> None:
    raise ProtocolViolation(
        ViolationCode.DEMAND, f"{demand} on stream {subscriber}, elements {count}"
    )
