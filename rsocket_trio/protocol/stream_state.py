"""The state of one stream, driven by the table of `rsocket_trio.protocol.legality`.

Holds no rules of its own. One object per open stream, used by the task that owns the stream's
bookkeeping; every call is a dictionary look-up, because channels pass here for every item.
"""

from __future__ import annotations

from typing import Final

from .interaction import Interaction
from .legality import INITIAL_STATES, TABLES, Event, Side, State

__all__ = ["StreamState"]

_CLOSED: Final = State.CLOSED


class StreamState:
    """What has ended on a stream, and so what may still come or be sent.

    Attributes:
        state: The present state; only `receive` and `send` change it.
    """

    __slots__ = ("_table", "state")

    def __init__(self, interaction: Interaction, side: Side) -> None:
        """Begin right after the request frame was sent (requester) or received (responder).

        Args:
            interaction: Which of the four. A FIRE_AND_FORGET is closed from the beginning.
            side: Whether we are the requester or the responder of this stream.
        """
        self._table = TABLES[interaction, side]
        self.state = INITIAL_STATES[interaction]

    def __repr__(self) -> str:
        return f"<StreamState {self.state.name}>"

    @property
    def closed(self) -> bool:
        """Both halves have ended: the stream's id is free."""
        return self.state is _CLOSED

    def receive(self, event: Event) -> bool:
        """Take note of something received.

        Returns:
            False if it makes no sense now and is to be ignored: nothing has changed then.
        """
        after = self._table.get((self.state, event))
        if after is None:
            return False
        self.state = after
        return True

    def expects(self, event: Event) -> bool:
        """Whether `receive` of that event would make sense now. Changes nothing."""
        return (self.state, event) in self._table

    def send(self, event: Event) -> bool:
        """Take note of something about to be sent.

        Returns:
            False if it must not be sent: nothing has changed then.
        """
        after = self._table.get((self.state, event))
        if after is None:
            return False
        self.state = after
        return True

    def may_send(self, event: Event) -> bool:
        """Whether `send` of that event would be allowed now. Changes nothing."""
        return (self.state, event) in self._table
