"""The streams of our publishers, to which the peer subscribed: `Outgoing`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from rsocket_trio.errors import LocalProtocolError

from ..limits import RsioLimits
from ..wire.messages import (
    Buffer,
    OnComplete,
    OnError,
    OnNextLastPart,
    OnNextPart,
    Subscribed,
    encode,
    encode_elements,
    encode_packed_header,
    truncated,
)
from ..wire.varint import MAX_VARINT
from ..wire.violations import ProtocolViolation, ViolationCode

__all__ = ["Outgoing"]

_UNKNOWN: Final = -1


@attrs.define(eq=False)
class _Stream:
    """One stream of ours.

    Attributes:
        demand: The elements that the peer has asked for and that we have not begun to send; from
            `MAX_VARINT` on there is no limit, and it does not change.
        element_size: The size of all elements, 0 for different ones, -1 before `subscribed`.
        cancelled: The peer has cancelled it, and we have not confirmed that yet.
        split: The ids of the split elements that have begun and not ended.
    """

    demand: int
    element_size: int = _UNKNOWN
    cancelled: bool = False
    split: set[int] = attrs.field(factory=set)


class Outgoing:
    """The streams of our publishers, to which the peer subscribed.

    Each stream is one `subscribed` first, elements within the demand, and one `complete` or `error`
    last, also after a cancel. What breaks this raises `LocalProtocolError`, and is not sent.
    """

    def __init__(self, limits: RsioLimits) -> None:
        self._limits: Final = limits
        self._streams: Final[dict[int, _Stream]] = {}

    def __contains__(self, subscriber: int) -> bool:
        return subscriber in self._streams

    # What the peer does.

    def check_subscribe(self, subscriber: int) -> None:
        """Check that the id is free, or that its stream was cancelled."""
        stream = self._streams.get(subscriber)
        if stream is not None and not stream.cancelled:
            raise ProtocolViolation(
                ViolationCode.DUPLICATE_ID, f"{subscriber} in SUBSCRIBE, its stream is open"
            )

    def open(self, subscriber: int, demand: int) -> bool:
        """Add a stream. Return whether the peer has too many."""
        self._streams[subscriber] = _Stream(demand)
        return len(self._streams) > self._limits.max_subscriptions

    def add_demand(self, subscriber: int, demand: int) -> bool:
        """Take a request of the peer. Return whether there is such a stream."""
        stream = self._streams.get(subscriber)
        if stream is None or stream.cancelled:
            return False
        stream.demand = min(stream.demand + demand, MAX_VARINT)
        return True

    def cancel(self, subscriber: int) -> bool:
        """Take a cancel of the peer. Return whether there is such a stream."""
        stream = self._streams.get(subscriber)
        if stream is None or stream.cancelled:
            return False
        stream.cancelled = True
        return True

    def close_all(self) -> None:
        """Forget all streams: the connection ends."""
        self._streams.clear()

    # What we do.

    def demand(self, subscriber: int) -> int:
        """Return the elements that the peer has asked for and that were not sent."""
        return self._stream(subscriber).demand

    def subscribed(self, subscriber: int, element_size: int) -> bytes:
        """Return the first message of a stream."""
        stream = self._stream(subscriber)
        if stream.element_size != _UNKNOWN:
            raise LocalProtocolError(f"subscribed was already sent on stream {subscriber}")
        if not 0 <= element_size <= self._limits.max_element_size:
            raise LocalProtocolError(
                f"elementSize {element_size} is not from 0 to {self._limits.max_element_size}"
            )
        stream.element_size = element_size
        return encode(Subscribed(subscriber, element_size))

    def elements(self, subscriber: int, elements: Sequence[Buffer]) -> bytes:
        """Return one message for each element."""
        stream = self._begun(subscriber)
        longest = max(map(len, elements), default=0)
        self._check_size(longest)
        if stream.element_size and longest:
            self._check_fixed(stream, elements)
        self._take(subscriber, stream, len(elements))
        return encode_elements(subscriber, elements, stream.element_size)

    def packed(self, subscriber: int, block: Buffer) -> bytes:
        """Return one message with the elements of a block."""
        stream = self._begun(subscriber)
        size = stream.element_size
        if not size or not block or len(block) % size:
            raise LocalProtocolError(
                f"{len(block)} bytes are not elements of stream {subscriber}, of {size} bytes each"
            )
        self._check_size(len(block))
        self._take(subscriber, stream, len(block) // size)
        return encode_packed_header(subscriber, len(block) // size) + block

    def split(self, subscriber: int, element: Buffer) -> Iterator[bytes]:
        """Return the messages of one element, in parts."""
        stream = self._begun(subscriber)
        self._check_size(len(element))
        if stream.element_size:
            self._check_fixed(stream, [element])
        if len(stream.split) >= self._limits.max_open_elements:
            raise LocalProtocolError(
                f"{len(stream.split)} split elements of stream {subscriber} have not ended"
            )
        self._take(subscriber, stream, 1)
        element_id = next(each for each in range(len(stream.split) + 1) if each not in stream.split)
        stream.split.add(element_id)
        return self._parts(subscriber, stream, element_id, element)

    def _parts(
        self, subscriber: int, stream: _Stream, element_id: int, element: Buffer
    ) -> Iterator[bytes]:
        view = memoryview(element)
        size = min(self._limits.split_size, self._limits.max_part_size)
        # At least one part comes before the last.
        last = max((len(view) - 1) // size * size, 0)
        for at in range(0, last or 1, size):
            yield encode(OnNextPart(subscriber, element_id, view[at : min(at + size, last)]))
        stream.split.discard(element_id)
        yield encode(OnNextLastPart(subscriber, element_id, view[last:]))

    def complete(self, subscriber: int) -> bytes:
        """Return the end of a stream."""
        stream = self._begun(subscriber)
        if stream.split:
            raise LocalProtocolError(f"an element of stream {subscriber} has not ended")
        del self._streams[subscriber]
        return encode(OnComplete(subscriber))

    def error(self, subscriber: int, text: str) -> bytes:
        """Return the failure of a stream."""
        self._begun(subscriber)
        del self._streams[subscriber]
        return encode(OnError(subscriber, truncated(text, self._limits.sent_text_size)))

    def refuse(self, subscriber: int, text: str) -> bytes:
        """Return the failure of a stream that did not begin."""
        return self.subscribed(subscriber, 0) + self.error(subscriber, text)

    def acknowledge_cancel(self, subscriber: int) -> bytes:
        """Return the last message of a stream that the peer has cancelled.

        That is nothing if the stream has ended by itself since the cancel was read.
        """
        stream = self._streams.get(subscriber)
        if stream is None:
            return b""
        if not stream.cancelled:
            raise LocalProtocolError(f"stream {subscriber} was not cancelled")
        first = b""
        if stream.element_size == _UNKNOWN:
            first = self.subscribed(subscriber, 0)
        # An onComplete would promise the rest of an element that has begun. An onError does not.
        if stream.split:
            return first + self.error(subscriber, "cancelled")
        return first + self.complete(subscriber)

    def _stream(self, subscriber: int) -> _Stream:
        try:
            return self._streams[subscriber]
        except KeyError:
            raise LocalProtocolError(f"the peer has no subscription {subscriber}") from None

    def _begun(self, subscriber: int) -> _Stream:
        stream = self._stream(subscriber)
        if stream.element_size == _UNKNOWN:
            raise LocalProtocolError(f"subscribed was not sent on stream {subscriber}")
        return stream

    def _take(self, subscriber: int, stream: _Stream, count: int) -> None:
        if count > stream.demand:
            raise LocalProtocolError(
                f"{count} elements exceed the demand of {stream.demand} on stream {subscriber}"
            )
        if stream.demand != MAX_VARINT:
            stream.demand -= count

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_element_size:
            raise LocalProtocolError(
                f"an element of {size} bytes is longer than {self._limits.max_element_size}"
            )

    def _check_fixed(self, stream: _Stream, elements: Sequence[Buffer]) -> None:
        for element in elements:
            if len(element) != stream.element_size:
                raise LocalProtocolError(
                    f"an element has {len(element)} bytes, those of its stream"
                    f" {stream.element_size}"
                )
