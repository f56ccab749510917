"""Ship the items of a stream: `ship_stream`.

One task reads the stream and collects items into a batch. Others take full batches, or those that
have waited long enough, and send them:

    the stream -> Collector -> in_flight tasks -> Shipper.send
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

import trio

from ..field_checks import COUNT, FUNCTION, argument, instance_of, number, optional
from ..interactions.block import Block
from ..payload import Payload
from .client.bell import Bell

__all__ = ["Collector", "EventSender", "ship_stream"]

T = TypeVar("T")

_Event: TypeAlias = Mapping[str, object] | bytes


@runtime_checkable
class EventSender(Protocol):
    """What `ship_stream` needs of a `Shipper`."""

    async def send(self, events: Iterable[Mapping[str, object] | bytes], /) -> None:
        """Ship events, and return when all of them are acknowledged: see `Shipper.send`.

        Checkpoint: as `Shipper.send`.
        If cancelled: as `Shipper.send`.
        """


class Collector:
    """Collects events into batches. One task adds, several take.

    Args:
        size: The most events of a batch.
        linger: The longest time that an event waits for others, in seconds, if a task is free.
    """

    def __init__(self, size: int, linger: float) -> None:
        self._size: Final = size
        self._linger: Final = linger
        self._events: list[_Event] = []
        self._since = 0.0  # When the first of these was added.
        self._ended = False
        self._bell: Final = Bell()

    async def add(self, event: _Event) -> None:
        """Add an event, when there is room for it.

        Checkpoint: if there is no room.
        If cancelled: it is not added.
        """
        if len(self._events) >= self._size:
            await self._bell.wait_until(lambda: len(self._events) < self._size)
        self._events.append(event)
        if len(self._events) == 1:
            self._since = trio.current_time()
        if len(self._events) in (1, self._size):
            self._bell.ring()

    def end(self) -> None:
        """Add no more: the events that wait are the last batch."""
        self._ended = True
        self._bell.ring()

    async def take(self) -> list[_Event]:
        """Wait for a batch that is full, or whose first event has waited long enough.

        Returns:
            The events; none if there will be no more.

        Checkpoint: if it has to wait.
        If cancelled: no event is lost.
        """
        while True:
            await self._bell.wait_until(lambda: self._events or self._ended)
            waited = self._events
            with trio.move_on_at(self._since + self._linger) as scope:
                await self._bell.wait_until(partial(self._has_news_for, waited))
            # Another task may have taken them, and others may have come since.
            if self._is_complete() or (scope.cancelled_caught and self._events is waited):
                events, self._events = self._events, []
                self._bell.ring()
                return events

    def _has_news_for(self, waited: list[_Event]) -> bool:
        return self._is_complete() or self._events is not waited

    def _is_complete(self) -> bool:
        return self._ended or len(self._events) >= self._size


async def ship_stream(
    source: AsyncIterable[T],
    shipper: EventSender,
    *,
    batch_size: int = 2048,
    linger: float = 1.0,
    in_flight: int = 2,
    convert: Callable[[T], Mapping[str, object] | bytes | Payload] | None = None,
    on_acknowledged: Callable[[int], None] | None = None,
) -> int:
    """Ship the items of a stream, until the stream ends and all of them are acknowledged.

    At most ``(in_flight + 1) * batch_size`` items are in memory. While these are not acknowledged,
    nothing is read from the stream. So a stream of `Requester.request_stream` asks its peer for
    items as fast as the servers acknowledge them.

    If the stream fails, the items that it gave before are shipped first, and then its error is
    raised. If `Shipper.send` fails, reading ends at once and its error is raised. There is no
    group of errors.

    Args:
        source: The stream: an open `PayloadStream`, a ReceiveChannel, or any async iterable. It is
            read in the calling task. An async generator is closed at the end, other streams are
            left as they are.
        shipper: The client that `connect` gives.
        batch_size: The most items of a batch. The order of the items is kept on each connection.
        linger: The longest time that an item waits for others before a batch that is not full is
            sent, in seconds; 0 sends as soon as a call of ``send`` is free.
        in_flight: The calls of ``send`` at once: what one of them waits for, the others use.
        convert: Makes an event of an item. By default an item is an event as `Shipper.send` takes
            it; or a `Payload`, whose data are the JSON text.
        on_acknowledged: Called each time when more of the stream is acknowledged, with the number
            of items: all items up to this one, counted from the first item read. A source that can
            be read again from a position goes on there after a failure.

    Returns:
        The number of items, which are all acknowledged.

    Raises:
        TypeError: An argument or an item is of a wrong type.
        ValueError: ``batch_size`` or ``in_flight`` is less than 1, or ``linger`` less than 0.
        LocalProtocolError: An item can never be sent. The other items of its batch are not sent.
        ShipError: As for `Shipper.send`.
        Exception: The error of the stream, of ``convert`` or of ``on_acknowledged``.

    Checkpoint: always.
    If cancelled: items that are not acknowledged may or may not arrive.
    """
    argument("batch_size", batch_size, COUNT)
    argument("in_flight", in_flight, COUNT)
    argument("linger", linger, number(at_least=0))
    argument("source", source, instance_of(AsyncIterable))
    argument("shipper", shipper, instance_of(EventSender))
    argument("convert", convert, optional(FUNCTION))
    argument("on_acknowledged", on_acknowledged, optional(FUNCTION))
    shipping = _Shipping(shipper, Collector(batch_size, linger), on_acknowledged)
    block = Block()
    try:
        with block.around():
            async with trio.open_nursery() as nursery:
                for _ in range(in_flight):
                    nursery.start_soon(shipping.run, nursery.cancel_scope)
                with block.body():
                    await shipping.read(source, convert)
    except Exception:  # the error of the stream: what was read and is lost is more important
        if shipping.failure is None:
            raise
    failure, shipping.failure = shipping.failure, None
    if failure is not None:
        try:
            raise failure
        finally:
            del failure
    await trio.lowlevel.checkpoint()
    return shipping.acknowledged


class _Shipping:
    """The tasks of one `ship_stream`.

    Attributes:
        acknowledged: Items that are acknowledged, from the first on.
        failure: The first error of sending.
    """

    def __init__(
        self,
        shipper: EventSender,
        collector: Collector,
        on_acknowledged: Callable[[int], None] | None,
    ) -> None:
        self.acknowledged = 0
        self.failure: Exception | None = None
        self._shipper = shipper
        self._collector = collector
        self._on_acknowledged = on_acknowledged
        self._begun = 0  # Items that were given to `send`.
        self._beyond: dict[int, int] = {}  # Acknowledged, but an earlier batch is not: from, to.

    async def read(
        self, source: AsyncIterable[Any], convert: Callable[[Any], _Event | Payload] | None
    ) -> None:
        """Read the stream to its end."""
        try:
            async for item in source:
                event = item if convert is None else convert(item)
                await self._collector.add(event.data if isinstance(event, Payload) else event)
        finally:
            self._collector.end()
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    async def run(self, scope: trio.CancelScope) -> None:
        """Send batches until there are no more. A failure cancels ``scope``."""
        try:
            while events := await self._collector.take():
                first = self._begun
                self._begun += len(events)
                await self._shipper.send(events)
                self._count(first, first + len(events))
        except Exception as error:  # `ship_stream` raises the first one
            if self.failure is None:
                self.failure = error
            scope.cancel(reason="a batch of the stream could not be shipped")

    def _count(self, first: int, end: int) -> None:
        """Count a batch as acknowledged; those behind one that is not do not count yet."""
        self._beyond[first] = end
        before = self.acknowledged
        while (beyond := self._beyond.pop(self.acknowledged, None)) is not None:
            self.acknowledged = beyond
        if self._on_acknowledged is not None and self.acknowledged > before:
            self._on_acknowledged(self.acknowledged)
