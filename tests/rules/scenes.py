"""Real operations on real connections, which a test takes from state to state: `Scene`.

One end of the connection is real, with an application that the test controls; the other is a script
of frames.

There is a scene for each interaction and side, and for each operation on it: a payload that is read
while it arrives has another operation than a whole one. Scenes of requesters are in
requesting_scenes.py, those of responders in answering_scenes.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import trio

from rsocket_trio import ApplicationError, Payload
from rsocket_trio.errors import ErrorCode, RemoteProtocolError, StreamError
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestNFrame,
)
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import Event, Side, State

__all__ = ["FRAMES", "PLENTY", "STREAMS", "Scene"]

PLENTY = 20
"""More items than any test here grants."""
STREAMS = {Interaction.REQUEST_STREAM, Interaction.REQUEST_CHANNEL}

FRAMES = {
    Event.NEXT: lambda stream_id: PayloadFrame(stream_id, next=True, data=b"theirs"),
    Event.NEXT_COMPLETE: lambda stream_id: PayloadFrame(
        stream_id, next=True, complete=True, data=b"theirs"
    ),
    Event.COMPLETE: lambda stream_id: PayloadFrame(stream_id, complete=True),
    Event.ERROR: lambda stream_id: ErrorFrame(stream_id, ErrorCode.APPLICATION_ERROR, b"theirs"),
    Event.CANCEL: CancelFrame,
    Event.REQUEST_N: lambda stream_id: RequestNFrame(stream_id, 1),
}
"""The frames that the peer sends for an event."""


def event_of(frame):
    """Return the event of a frame that was sent on a stream."""
    if isinstance(frame, PayloadFrame):
        both, item = Event.SEND_NEXT_COMPLETE, Event.SEND_NEXT
        if frame.next:
            return both if frame.complete else item
        return Event.SEND_COMPLETE
    return {
        ErrorFrame: Event.SEND_ERROR,
        CancelFrame: Event.SEND_CANCEL,
        RequestNFrame: Event.SEND_REQUEST_N,
    }[type(frame)]


class Scene(ABC):
    """One side of one stream, right after its request.

    Args:
        credit: How many items the peer has granted it, if it sends any.

    Attributes:
        run: All events received and sent on the stream, in order.
        noted: What the application got, and whether it was stopped.
    """

    name: str
    interaction: Interaction
    side: Side

    def __init__(self, credit=PLENTY):
        self.credit = credit
        self.run = []
        self.noted = []
        self._orders, self._told = trio.open_memory_channel(PLENTY)
        self._began = trio.Event()
        self._left = trio.Event()
        self.payloads = None

    @abstractmethod
    def begun(self):
        """An asynchronous context: the request has been made."""

    # -- events -----------------------------------------------------------------------------

    async def receive(self, event, times=1):
        """Let the peer send; return the frames that this end has sent since."""
        self.run += [event] * times
        await self.peer.send(*[FRAMES[event](self.stream_id)] * times)
        return await self.sent()

    async def attempt(self, event):
        """Let the application send the event, if it can leave."""
        if event is Event.SEND_NEXT_COMPLETE and self.interaction in STREAMS:
            # No application here puts an item and the end into one frame.
            return await self.attempt(Event.SEND_NEXT) + await self.attempt(Event.SEND_COMPLETE)
        self.order(event)
        return await self.sent()

    def order(self, event):
        """See `attempt`; does nothing where an application cannot do that."""
        if self.side is Side.RESPONDER and event.name.startswith("SEND_"):
            self._orders.send_nowait(event)

    async def sent(self):
        """Return the frames that this end has sent since the last call, once all tasks wait."""
        events = [
            event_of(frame)
            for frame in await self.peer.drain()
            if not isinstance(frame, KeepaliveFrame)
        ]
        self.run += events
        return events

    def hear(self):
        """Take what has arrived; see `noted`."""
        if self.payloads is None:
            return
        try:
            while True:
                self.noted.append(self.payloads.receive_nowait().data)
        except trio.WouldBlock:
            return
        except (trio.EndOfChannel, trio.ClosedResourceError, StreamError) as end:
            outcome = type(end).__name__
        except RemoteProtocolError:
            outcome = "RemoteProtocolError"
        if outcome not in self.noted:
            self.noted.append(outcome)

    async def wait_for_credit(self):
        """Let the application have an item to send that it has no credit for."""
        if self.interaction in STREAMS:
            await self.attempt(Event.SEND_NEXT)

    # -- the state of the stream ------------------------------------------------------------

    async def state(self):
        """The state of the stream: what this end can still send and receive on it."""
        # In this order: an application that tries to send after its last item may end the stream.
        remote, local = await self.can_hear(), await self.can_say()
        if self.interaction is not Interaction.REQUEST_CHANNEL:
            state = State.OPEN if local or remote else State.CLOSED
        elif local:
            state = State.OPEN if remote else State.REMOTE_DONE
        else:
            state = State.LOCAL_DONE if remote else State.CLOSED
        return state

    async def can_say(self):
        """Return whether an item, or the answer, still leaves."""
        return False

    async def can_hear(self):
        """Return whether an item, or the answer, still arrives."""
        return False

    @property
    def forgotten(self):
        """The connection does not know the id any more."""
        return self.stream_id not in self.end._connection.table.operations

    async def says(self):
        """Return whether one more item leaves: `can_say` of applications that send a stream."""
        await self.receive(Event.REQUEST_N)
        return Event.SEND_NEXT in await self.attempt(Event.SEND_NEXT)

    async def hears(self):
        """Return whether one more item arrives: `can_hear` of applications that read a stream."""
        self.hear()
        before = len(self.noted)
        await self.receive(Event.NEXT)
        self.hear()
        return b"theirs" in self.noted[before:]

    # -- the application --------------------------------------------------------------------

    async def answer(self):
        """The payload of an application that sends one: it waits for an order."""
        self._began.set()
        try:
            event = await self._told.receive()
        except trio.Cancelled:
            self.noted.append("stopped")
            raise
        if event is Event.SEND_ERROR:
            raise ApplicationError("ours")
        return None if event is Event.SEND_COMPLETE else Payload(b"ours")

    async def items(self):
        """The items of an application that sends a stream: one for each order."""
        self._began.set()
        try:
            async for event in self._told:
                if event is Event.SEND_NEXT:
                    yield Payload(b"ours")
                elif event is Event.SEND_ERROR:
                    raise ApplicationError("ours")
                elif event is Event.SEND_COMPLETE:
                    return
        except trio.Cancelled:
            self.noted.append("stopped")
            raise
