"""The state of one stream, driven by the table of `rsocket_trio.protocol.legality`.

This module has no rules of its own. There is one object per channel, and every call is one
dictionary look-up, because a channel makes a call for every item.
"""

from __future__ import annotations

from typing import Final

from .interaction import Interaction
from .legality import INITIAL_STATES, TABLES, Event, Side, State

__all__ = ["StreamState"]

_CLOSED: Final = State.CLOSED


class StreamState:
    """The state of one stream: which halves have ended, and which events are still legal.

    Attributes:
        state: The present state; only `receive` and `send` change it.
    """

    __slots__ = ("_table", "state")

    def __init__(self, interaction: Interaction, side: Side) -> None:
        """Begin right after the request frame was sent (requester) or received (responder).

        Args:
            interaction: One of the four with a stream. A FIRE_AND_FORGET begins closed.
            side: Whether we are the requester or the responder of this stream.
        """
        self._table = TABLES[interaction, side]
        self.state = INITIAL_STATES[interaction]

    def __repr__(self) -> str:
        return f"<StreamState {self.state.name}>"

    @property
    def closed(self) -> bool:
        """Whether both halves have ended, so that the stream's id is free."""
        return self.state is _CLOSED

    def receive(self, event: Event) -> bool:
        """Record a received event.

        Returns:
            False if the event is not legal now: it must be ignored, and nothing has changed.
        """
        after = self._table.get((self.state, event))
        if after is None:
            return False
        self.state = after
        return True

    def expects(self, event: Event) -> bool:
        """Whether it is legal to receive that event now. Changes nothing."""
        return (self.state, event) in self._table

    def send(self, event: Event) -> bool:
        """Record an event that is about to be sent.

        Returns:
            False if it must not be sent: nothing has changed.
        """
        after = self._table.get((self.state, event))
        if after is None:
            return False
        self.state = after
        return True

    def may_send(self, event: Event) -> bool:
        """Whether it is legal to send that event now. Changes nothing."""
        return (self.state, event) in self._table
