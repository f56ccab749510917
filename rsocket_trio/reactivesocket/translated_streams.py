"""The streams of one connection, with their ids in both protocols: `TranslatedStreams`. No I/O.

Stream ids differ: in 1.0 they are odd for clients and even for servers, and the engine checks this.
In the draft it is the other way round, and its implementations did not keep to it. So each stream
has two ids, one in the frames of the draft and one for the engine. An id of the peer may be odd or
even.
"""

from __future__ import annotations

from typing import Final

import attrs

from ..protocol.interaction import Interaction

__all__ = ["Stream", "TranslatedStreams"]

_LAST_ID: Final = 2**31 - 1
_MAX_STRAGGLERS: Final = 1024


@attrs.define(eq=False)
class Stream:
    """One open stream.

    Attributes:
        interaction: The kind of request.
        ours: Whether we are its requester.
        wire_id: Its id in frames of the draft.
        engine_id: Its id in frames of 1.0.
        subscription: It was opened with the draft's REQUEST_SUB.
        requester_done: Channel: the requester has sent C.
    """

    interaction: Interaction
    ours: bool
    wire_id: int
    engine_id: int
    subscription: bool = False
    requester_done: bool = False


class TranslatedStreams:
    """The open streams of one connection, by both of their ids.

    Attributes:
        by_wire: By the id in frames of the draft.
        by_engine: By the id in frames of 1.0.
    """

    def __init__(self, *, client: bool) -> None:
        self.by_wire: dict[int, Stream] = {}
        self.by_engine: dict[int, Stream] = {}
        # For the engine, the peer of a client is a server, with even ids. In the draft, "a client
        # MUST generate even Stream IDs and a server MUST generate odd Stream IDs".
        self._next_engine = self._first_engine = 2 if client else 1
        self._next_wire = self._first_wire = 2 if client else 1
        self._parity_settled = False
        self._stragglers: dict[int, None] = {}

    def open_ours(
        self, interaction: Interaction, engine_id: int, *, subscription: bool = False
    ) -> Stream:
        """Enter a request of ours, with a new id for the draft."""
        self._parity_settled = True
        while self._next_wire in self.by_wire:
            self._next_wire = self._after(self._next_wire, self._first_wire)
        stream = Stream(interaction, True, self._next_wire, engine_id, subscription)
        self._next_wire = self._after(self._next_wire, self._first_wire)
        return self._enter(stream)

    def open_theirs(
        self, interaction: Interaction, wire_id: int, *, subscription: bool = False
    ) -> Stream:
        """Enter a request of the peer, with a new id for the engine."""
        if not self._parity_settled:
            # The two sides must not choose the same ids. We have not sent a request yet, so we can
            # still choose the other parity.
            self._parity_settled = True
            if wire_id & 1 == self._first_wire & 1:
                self._next_wire = self._first_wire = 3 - self._first_wire
        while self._next_engine in self.by_engine:
            self._next_engine = self._after(self._next_engine, self._first_engine)
        stream = Stream(interaction, False, wire_id, self._next_engine, subscription)
        self._next_engine = self._after(self._next_engine, self._first_engine)
        self.forget_straggler(wire_id)
        return self._enter(stream)

    def close(self, stream: Stream) -> None:
        """Remove a stream that is over at both ends."""
        del self.by_wire[stream.wire_id]
        del self.by_engine[stream.engine_id]

    def close_answered(self, stream: Stream) -> None:
        """Remove a request of the peer after its last answer.

        If it is a channel whose requester may still send items, its id becomes a straggler.
        """
        self.close(stream)
        if stream.interaction is Interaction.REQUEST_CHANNEL and not stream.requester_done:
            while len(self._stragglers) >= _MAX_STRAGGLERS:
                del self._stragglers[next(iter(self._stragglers))]
            self._stragglers[stream.wire_id] = None

    def is_straggler(self, wire_id: int) -> bool:
        """Return whether a REQUEST_CHANNEL is a late item of an ended channel.

        In the draft the first and the later frames of a channel have the same type.
        """
        return wire_id in self._stragglers

    def forget_straggler(self, wire_id: int) -> None:
        """Allow a new channel with this id: the requester of the ended one has ended it too."""
        self._stragglers.pop(wire_id, None)

    def _enter(self, stream: Stream) -> Stream:
        self.by_wire[stream.wire_id] = stream
        self.by_engine[stream.engine_id] = stream
        return stream

    @staticmethod
    def _after(stream_id: int, first: int) -> int:
        return stream_id + 2 if stream_id + 2 <= _LAST_ID else first
