"""The legality rules of a stream, stated a second time: from two flags instead of a table.

The tables of `rsocket_trio.protocol.legality` and the operations are checked against this module.
So a fault in one of the three is seen even where another repeats it.
"""

from __future__ import annotations

from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import STREAM_INTERACTIONS, Event, Side, State

__all__ = ["ROWS", "next_state"]

ROWS = [
    (interaction, side, state, event)
    for interaction in STREAM_INTERACTIONS
    for side in Side
    for state in State
    for event in Event
]
"""Every cell that is possible."""

_COMPLETIONS = {Event.NEXT_COMPLETE, Event.COMPLETE}
_SEND_COMPLETIONS = {Event.SEND_NEXT_COMPLETE, Event.SEND_COMPLETE}


def next_state(interaction: Interaction, side: Side, state: State, event: Event) -> State | None:
    """Return the next state; ``None`` for an event that is not legal."""
    requester = side is Side.REQUESTER
    channel = interaction is Interaction.REQUEST_CHANNEL
    if interaction is Interaction.FIRE_AND_FORGET or state is State.CLOSED:
        return None
    if not channel and state is not State.OPEN:
        return None
    local = state in {State.OPEN, State.REMOTE_DONE} and (channel or not requester)
    remote = state in {State.OPEN, State.LOCAL_DONE} and (channel or requester)
    single = interaction is Interaction.REQUEST_RESPONSE
    match event:
        case Event.NEXT | Event.NEXT_COMPLETE | Event.COMPLETE:
            if not remote:
                return None
            remote = not (single or event in _COMPLETIONS)
        case Event.ERROR:
            return State.CLOSED if channel or requester else None
        case Event.CANCEL:
            if not requester:
                return State.CLOSED
            if not (channel and local):
                return None
            local = False
        case Event.REQUEST_N:
            if not local or single:
                return None
        case Event.SEND_NEXT | Event.SEND_NEXT_COMPLETE | Event.SEND_COMPLETE:
            if not local or (single and event is Event.SEND_NEXT):
                return None
            local = event not in _SEND_COMPLETIONS
        case Event.SEND_ERROR:
            return State.CLOSED if local else None
        case Event.SEND_CANCEL:
            if requester:
                return State.CLOSED
            if not (channel and remote):
                return None
            remote = False
        case Event.SEND_REQUEST_N:
            if not remote or single:
                return None
    if not channel:
        return State.OPEN if local or remote else State.CLOSED
    return {
        (True, True): State.OPEN,
        (False, True): State.LOCAL_DONE,
        (True, False): State.REMOTE_DONE,
        (False, False): State.CLOSED,
    }[local, remote]
