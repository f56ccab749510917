"""Republish received events as a stream with demand: `EventRelay`.

`EventRelay.publish` offers a *list* of events, and waits. A `RelayedEvents` holds one list at a
time, and hands out its events one after the other. A list is *taken* when its subscriber asks for
the event after its last one. If the subscriber leaves before, the whole list goes back to the front
of the line: some of its events may have been on their way, and lost.

    publish -> the line of lists -> a subscriber that holds a list -> taken
                    ^-------------- it leaves ----------/
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Generic, TypeVar, final

import attrs
import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..entrance import Home, over
from ..field_checks import argument, instance_of
from ..sealed import Sealed, make

__all__ = ["EventRelay", "RelayStatistics", "RelayedEvents"]

T = TypeVar("T")

_IN_A_ROW: Final = 64
"""Events that a loop gets before other tasks run."""


@attrs.frozen(kw_only=True)
class RelayStatistics:
    """Numbers about an `EventRelay`.

    Attributes:
        waiting: Lists of events that no subscriber holds.
        held: Lists of events that a subscriber holds.
        subscribers: Subscribers that wait for events.
        taken: Events of the lists that were taken since the start.
    """

    waiting: int
    held: int
    subscribers: int
    taken: int


@attrs.define(eq=False)
class _List(Generic[T]):
    """The events of one call of `EventRelay.publish`.

    Attributes:
        events: The events.
        over: Set when it is taken, or the relay was closed.
        position: Which event its holder gets next, or has got and not finished; the first is 0.
        taken: Whether it is taken.
        holder: The subscriber that holds it.
    """

    events: tuple[T, ...]
    over: trio.Event = attrs.field(factory=trio.Event)
    position: int = 0
    taken: bool = False
    holder: RelayedEvents[T] | None = None


class EventRelay(Generic[T]):
    """Publishes events to subscribers that take them at their own speed.

    Call `publish` in a handler of `serve`, and return `subscribe` from a request_stream handler.
    There is no queue of events: a publisher waits until its events are taken. So without a
    subscriber no batch is acknowledged, the server reads no more, and TCP stops the senders.

    Of several subscribers each event goes to one. To give all events to several, use a relay for
    each, and publish to all of them.
    """

    def __init__(self) -> None:
        self._line: OrderedDict[_List[T], None] = OrderedDict()
        self._waiters: OrderedDict[RelayedEvents[T], None] = OrderedDict()
        self._held: set[_List[T]] = set()
        self._taken = 0
        self._closed = False
        self._home: Home | None = None  # of the first user: it may be made outside of trio

    async def publish(self, events: Iterable[T]) -> None:
        """Offer a list of events, and return when it is taken.

        It is taken when a subscriber has received all of it, in order, and asks for more. In a
        request_stream handler this means that the peer has asked for every event, and that the
        connection has taken them to be sent. It does not mean that they have arrived.

        The lists of several callers are offered in the order of the calls.

        Args:
            events: The events. If a subscriber leaves in the middle, the next one gets all of them
                again.

        Raises:
            TypeError: It is one event and not several.
            trio.ClosedResourceError: `close` was called.

        Checkpoint: always.
        If cancelled: the list is withdrawn. A subscriber may have received some events.
        """
        self._check_home()
        argument("events", events, instance_of(Iterable))
        if isinstance(events, str | bytes | bytearray | memoryview | dict):
            raise TypeError(
                f"publish takes several events, not one {type(events).__name__}: put it into a list"
            )
        offered: _List[T] = _List(tuple(events))
        await self._refuse_if_closed()
        await checkpoint_if_cancelled()
        if not offered.events:
            offered.over.set()
        else:
            self._offer(offered)
        try:
            await offered.over.wait()
        finally:
            self._withdraw(offered)
        if offered.events and not offered.taken:
            await self._refuse_if_closed()

    def subscribe(self) -> RelayedEvents[T]:
        """Return a new subscriber. It gets events when it asks for them."""
        subscriber: RelayedEvents[T] = make(RelayedEvents, self)
        return subscriber

    def close(self) -> None:
        """End all streams, and fail all publishers, so that their batches are not acknowledged.

        Later calls of `publish` raise `trio.ClosedResourceError`, and new streams end at once.

        Raises:
            RuntimeError: The caller is in another thread than those who wait here. This holds for
                all methods of this class and of `RelayedEvents` that wait or wake somebody.
        """
        self._check_home()
        self._closed = True
        for waiter in list(self._waiters):
            waiter._wake()  # noqa: SLF001 - the two classes are one mechanism
        for offered in [*self._line, *self._held]:
            self._withdraw(offered)
            offered.over.set()

    def statistics(self) -> RelayStatistics:
        """Return numbers about this relay."""
        return RelayStatistics(
            waiting=len(self._line),
            held=len(self._held),
            subscribers=len(self._waiters),
            taken=self._taken,
        )

    async def _refuse_if_closed(self) -> None:
        if self._closed:
            await over(trio.ClosedResourceError("the relay is closed"))

    def _check_home(self) -> None:
        if self._home is None:
            self._home = Home()
        self._home.check("this relay")

    def _offer(self, offered: _List[T], *, first: bool = False) -> None:
        """Put a list into the line, or give it to the subscriber that waits longest."""
        self._line[offered] = None
        if first:
            self._line.move_to_end(offered, last=False)
        if self._waiters:
            waiter = next(iter(self._waiters))
            self._give_to(waiter)
            waiter._wake()  # noqa: SLF001 - as above

    def _give_to(self, subscriber: RelayedEvents[T]) -> bool:
        """Give the first list of the line to a subscriber; whether there is one."""
        if not self._line:
            return False
        offered, _ = self._line.popitem(last=False)
        offered.holder = subscriber
        self._held.add(offered)
        subscriber._list = offered  # noqa: SLF001 - as above
        return True

    def _withdraw(self, offered: _List[T]) -> None:
        """Take a list out of the line, or away from its holder."""
        self._line.pop(offered, None)
        self._held.discard(offered)
        if offered.holder is not None:
            offered.holder._lose()  # noqa: SLF001 - as above
            offered.holder = None

    def _give_back(self, offered: _List[T]) -> None:
        self._held.discard(offered)
        offered.holder = None
        offered.position = 0
        self._offer(offered, first=True)

    def _finish(self, offered: _List[T]) -> None:
        """The holder has finished an event; behind the last one the list is taken."""
        offered.position += 1
        if offered.position == len(offered.events):
            self._taken += len(offered.events)
            self._withdraw(offered)
            offered.taken = True
            offered.over.set()


@final
class RelayedEvents(
    trio.abc.ReceiveChannel[T], Generic[T], metaclass=Sealed, given="EventRelay.subscribe gives one"
):
    """The events of an `EventRelay`, for one subscriber; return it from a request_stream handler.

    One task receives from it, and closes it at the end. If it leaves in the middle of a list, the
    next subscriber gets that list from its first event.
    """

    def __init__(self, relay: EventRelay[T]) -> None:
        self._relay: Final = relay
        self._list: _List[T] | None = None
        self._handed = False  # Whether an event was received and is not finished yet.
        self._woken: trio.Event | None = None
        self._in_a_row = 0
        self._closed = False

    async def receive(self) -> T:
        """Finish the event that was received before, and wait for the next one.

        Raises:
            trio.EndOfChannel: The relay was closed.
            trio.ClosedResourceError: This stream was closed.
            trio.BusyResourceError: Another task waits for an event.

        Checkpoint: always.
        If cancelled: no event is lost.
        """
        self._relay._check_home()  # noqa: SLF001 - the two classes are one mechanism
        if self._closed:
            await self._refuse()
        self._finish()
        self._in_a_row = 0
        await checkpoint()
        while self._list is None:
            if self._closed:
                await self._refuse()
            if self._relay._closed:  # noqa: SLF001 - the two classes are one mechanism
                raise trio.EndOfChannel
            if not self._relay._give_to(self):  # noqa: SLF001 - as above
                await self._wait()
                if self._list is None:  # the end is still here for the next call
                    await checkpoint_if_cancelled()
        # From here on nothing waits, so no cancellation can lose the event.
        return self._hand(self._list)

    async def __anext__(self) -> T:
        self._relay._check_home()  # noqa: SLF001 - the two classes are one mechanism
        self._finish()
        if self._list is not None and self._in_a_row < _IN_A_ROW:
            self._in_a_row += 1
            await checkpoint_if_cancelled()
            return self._hand(self._list)
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Leave. A list that is not taken is offered to the next subscriber."""
        if not self._closed:
            self._relay._check_home()  # noqa: SLF001 - the two classes are one mechanism
        self._closed = True
        self._give_back()
        self._wake()

    async def aclose(self) -> None:
        """Leave, as `close` does.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        self.close()
        await checkpoint()

    def _finish(self) -> None:
        if self._woken is not None:
            raise trio.BusyResourceError("another task waits for an event of this stream")
        if self._handed and self._list is not None:
            self._handed = False
            self._relay._finish(self._list)  # noqa: SLF001 - as above

    def _hand(self, held: _List[T]) -> T:
        self._handed = True
        return held.events[held.position]

    async def _wait(self) -> None:
        waiters = self._relay._waiters  # noqa: SLF001 - as above
        self._woken = trio.Event()
        waiters[self] = None
        try:
            await self._woken.wait()
        except trio.Cancelled:
            self._give_back()  # of a list that came just now
            raise
        finally:
            self._woken = None
            waiters.pop(self, None)

    def _wake(self) -> None:
        self._relay._waiters.pop(self, None)  # noqa: SLF001 - as above
        if self._woken is not None:
            self._woken.set()

    def _give_back(self) -> None:
        held, self._list, self._handed = self._list, None, False
        if held is not None:
            self._relay._give_back(held)  # noqa: SLF001 - as above

    def _lose(self) -> None:
        """The publisher of the list was cancelled, or the list is taken."""
        self._list = None
        self._handed = False

    async def _refuse(self) -> None:
        await over(trio.ClosedResourceError("this stream was closed"))
