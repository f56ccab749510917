"""Ship the events of a spool: `ship_from`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from ..errors import single_error
from ..field_checks import COUNT, FLAG, argument, instance_of
from ..spool import Spool, StoredBatch
from .stored import stored_events
from .wire.frames import split_pairs

if TYPE_CHECKING:
    from .client.shipper import Shipper

__all__ = ["ship_from"]

_Events: TypeAlias = list[bytes] | list[dict[str, str]]
"""JSON texts, or the pairs of events of version 1."""


async def ship_from(
    spool: Spool,
    shipper: Shipper,
    *,
    consumer: str = "shipper",
    max_in_flight: int = 8,
    follow: bool = True,
) -> None:
    """Ship the events of a spool to Lumberjack receivers, and remember which are acknowledged.

    It begins at the position of its consumer in the spool; for a new consumer, at the oldest event.
    The position follows the acknowledgements, in order. So after an end of any kind, the next call
    ships the events that were not acknowledged, and those whose acknowledgement was not stored yet.

    Args:
        spool: Its batches are those of `to_store`.
        shipper: Ships them. Pairs of version 1 are shipped as mappings of text.
        consumer: The name under which the spool keeps the position.
        max_in_flight: The stored batches that are sent and not acknowledged, at most. They are in
            memory, so large batches need a small number.
        follow: Wait for more events at the end. If false, return once all events that are stored
            at the time of the call are acknowledged.

    Raises:
        ShipError: The shipper has given up.
        LocalProtocolError: An event cannot be sent, e.g. as it is above a limit of the shipper.
        UnknownEncoding: The spool has a batch that is not one of a Lumberjack receiver.
        OffsetTrimmed: Events were deleted before they were shipped.
        SpoolClosed: The block of the spool has ended.
        SpoolFailed: The database failed for good.

    Checkpoint: always.
    If cancelled: events in flight may arrive, and are shipped again by the next call.
    """
    argument("spool", spool, instance_of(Spool))
    argument("max_in_flight", max_in_flight, COUNT)
    argument("follow", follow, FLAG)
    position = spool.positions().get(consumer)
    if position is None:
        position = spool.oldest
        # Without a position, the spool might delete what is being shipped.
        await spool.commit(consumer, position)
    stop = None if follow else spool.head
    forwarding = _Forwarding(spool, shipper, consumer, trio.Semaphore(max_in_flight))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forwarding.commit)
            await forwarding.read(nursery, position, stop)
    except BaseExceptionGroup as group:  # the nursery makes a group of a single error, too
        failure = group.split(trio.Cancelled)[1]  # a cancellation beside an error does not matter
        if failure is None:
            raise
        error = single_error(failure)
        if error is failure:
            raise
        raise error from error.__cause__


@attrs.define(eq=False)
class _Sent:
    """A stored batch on its way: the offset behind it, and whether it is acknowledged."""

    stop: int
    acknowledged: bool = False


class _Forwarding:
    """One call of `ship_from`: a task that reads, one for each batch on its way, one that commits.

    The first that fails ends all of them.
    """

    def __init__(self, spool: Spool, shipper: Shipper, consumer: str, room: trio.Semaphore) -> None:
        self._spool: Final = spool
        self._shipper: Final = shipper
        self._consumer: Final = consumer
        self._room: Final = room
        self._sent: Final[deque[_Sent]] = deque()
        self._position: int | None = None  # To be committed.
        self._read = False  # Whether all has been read.
        self._changed = trio.Event()

    async def read(self, nursery: trio.Nursery, start: int, stop: int | None) -> None:
        """Read the batches, and start a task for each."""
        async for stored in self._spool.read(start, stop, follow=stop is None):
            await self._room.acquire()
            # In a thread, as a compressed batch may take long.
            events = await trio.to_thread.run_sync(_events_in, stored)
            sent = _Sent(stored.stop)
            self._sent.append(sent)
            # Returns when the batch has its place in the line, so the order is kept.
            await nursery.start(self._ship, events, sent)
        self._read = True
        self._changed.set()

    async def _ship(
        self, events: _Events, sent: _Sent, *, task_status: trio.TaskStatus[None]
    ) -> None:
        await self._shipper.send(events, task_status=task_status)
        sent.acknowledged = True
        while self._sent and self._sent[0].acknowledged:
            self._position = self._sent.popleft().stop
            self._room.release()
            self._changed.set()

    async def commit(self) -> None:
        """Commit the position whenever it has moved on, until all is read and acknowledged."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            position, self._position = self._position, None
            if position is not None:
                await self._spool.commit(self._consumer, position)
            if self._read and not self._sent and self._position is None:
                return


def _events_in(stored: StoredBatch) -> _Events:
    events = stored_events(stored)
    if events.is_json:
        return events.raw
    # Receivers of version 2 take only JSON. A mapping can be sent in both versions.
    return [
        {
            key.decode(errors="replace"): value.decode(errors="replace")
            for key, value in split_pairs(raw)
        }
        for raw in events.raw
    ]
