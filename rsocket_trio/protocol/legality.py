"""The legal events on a stream: one table per interaction and side.

Theory of operation
-------------------
A stream has two halves. *Our* half is what we send, the *remote* half is what the peer sends. A
half ends when its owner completes it, and the stream is closed when both halves have ended, or at
once by an ERROR or by the requester's CANCEL (Protocol.md, "Stream Sequences and Lifetimes").

    OPEN         neither half has ended
    LOCAL_DONE   we have completed our half (or the peer does not want the rest of it)
    REMOTE_DONE  the peer has completed its half (or we do not want the rest of it)
    CLOSED       the stream is over here; its id is free

`TABLES` maps (interaction, side) to a table of (state, event) -> next state. An event is either
received or sent (``SEND_...``). An event that is not in the table is not legal, which means:

* a *received* event that is missing is **ignored**: no error, no change
  (Protocol.md, "Handling the Unexpected");
* a *sent* event that is missing **must not be sent**.

The rules of this file
----------------------
1. An event is a whole item, never a fragment: fragments are put together before.
2. The table begins when the request frame has left or arrived. A request whose last fragment is
   still to come may be cancelled too; the table applies as for a whole request.
3. Only a channel needs two separate halves. In REQUEST_RESPONSE and REQUEST_STREAM the requester
   sends no items after its request, so OPEN means "the responder's half is open", and LOCAL_DONE
   and REMOTE_DONE do not occur.
4. FIRE_AND_FORGET is over with its request and begins CLOSED. There is no answer.
5. Credit is not in the table: completion, errors and CANCEL need none, and items are counted in
   `rsocket_trio.protocol.credit`.
6. A REQUEST_CHANNEL with the C flag is two events: the request and then ``SEND_COMPLETE`` for the
   requester, or ``COMPLETE`` for the responder.

Choices where the text is silent
--------------------------------
* A responder's CANCEL on a channel stops the requester's half only; the responder's own half
  goes on. (The text describes CANCEL only from the requester.)
* A PAYLOAD without C that answers REQUEST_RESPONSE counts as one with C (this is a MUST, see
  "Handling the Unexpected"); we never send one.
* A received ERROR ends the stream even after its sender's completion. We do not send one after our
  completion: to stop the peer's half, we send CANCEL then.
* An ERROR from the requester of a REQUEST_RESPONSE or REQUEST_STREAM is in no sequence of the
  text, so it is ignored.

The users of the tables
-----------------------
A channel uses its table for every event. The other interactions have the same rules in a few lines
of code, because a look-up would cost more than the rest of their work.
`tests/rules/test_legality_cells.py` compares each cell with the real operations and with a second
statement of these rules; `scripts/table_mutants.py` shows that a test fails if any cell changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from .interaction import Interaction

__all__ = ["INITIAL_STATES", "STREAM_INTERACTIONS", "TABLES", "Event", "Side", "State"]


STREAM_INTERACTIONS: Final = (
    Interaction.REQUEST_RESPONSE,
    Interaction.FIRE_AND_FORGET,
    Interaction.REQUEST_STREAM,
    Interaction.REQUEST_CHANNEL,
)
"""The interactions that have a stream: all but metadata_push."""


class Side(Enum):
    """Our role on this stream; each end of a connection may have each role."""

    REQUESTER = auto()
    RESPONDER = auto()


class State(Enum):
    """The state of a stream, as seen from this end."""

    OPEN = auto()
    LOCAL_DONE = auto()
    REMOTE_DONE = auto()
    CLOSED = auto()

    # Members are singletons, so identity is a correct hash; Enum's own hash is a Python call for
    # every item.
    __hash__ = object.__hash__


class Event(Enum):
    """An event on a stream: received from the peer, or (``SEND_...``) sent by us."""

    NEXT = auto()
    NEXT_COMPLETE = auto()
    COMPLETE = auto()
    ERROR = auto()
    CANCEL = auto()
    REQUEST_N = auto()
    SEND_NEXT = auto()
    SEND_NEXT_COMPLETE = auto()
    SEND_COMPLETE = auto()
    SEND_ERROR = auto()
    SEND_CANCEL = auto()
    SEND_REQUEST_N = auto()

    # As in State.
    __hash__ = object.__hash__


Table = Mapping[tuple[State, Event], State]


def _table(rows: Mapping[State, Mapping[Event, State]]) -> Table:
    return MappingProxyType(
        {(state, event): after for state, row in rows.items() for event, after in row.items()}
    )


_OPEN, _LOCAL_DONE, _REMOTE_DONE, _CLOSED = State

# Protocol.md, "Request Response".
_RESPONSE_REQUESTER: Final = _table(
    {
        _OPEN: {
            Event.NEXT: _CLOSED,  # "Handling the Unexpected": a missing C is assumed
            Event.NEXT_COMPLETE: _CLOSED,
            Event.COMPLETE: _CLOSED,
            Event.ERROR: _CLOSED,
            Event.SEND_CANCEL: _CLOSED,
        }
    }
)
_RESPONSE_RESPONDER: Final = _table(
    {
        _OPEN: {
            Event.CANCEL: _CLOSED,
            Event.SEND_NEXT_COMPLETE: _CLOSED,
            Event.SEND_COMPLETE: _CLOSED,
            Event.SEND_ERROR: _CLOSED,
        }
    }
)

# Protocol.md, "Request Stream".
_STREAM_REQUESTER: Final = _table(
    {
        _OPEN: {
            Event.NEXT: _OPEN,
            Event.NEXT_COMPLETE: _CLOSED,
            Event.COMPLETE: _CLOSED,
            Event.ERROR: _CLOSED,
            Event.SEND_REQUEST_N: _OPEN,
            Event.SEND_CANCEL: _CLOSED,
        }
    }
)
_STREAM_RESPONDER: Final = _table(
    {
        _OPEN: {
            Event.REQUEST_N: _OPEN,
            Event.CANCEL: _CLOSED,
            Event.SEND_NEXT: _OPEN,
            Event.SEND_NEXT_COMPLETE: _CLOSED,
            Event.SEND_COMPLETE: _CLOSED,
            Event.SEND_ERROR: _CLOSED,
        }
    }
)

# Protocol.md, "Request Channel". The two sides differ in CANCEL only: the requester's ends the
# stream, the responder's ends the requester's half.
_CHANNEL_REQUESTER: Final = _table(
    {
        _OPEN: {
            Event.NEXT: _OPEN,
            Event.NEXT_COMPLETE: _REMOTE_DONE,
            Event.COMPLETE: _REMOTE_DONE,
            Event.ERROR: _CLOSED,
            Event.CANCEL: _LOCAL_DONE,
            Event.REQUEST_N: _OPEN,
            Event.SEND_NEXT: _OPEN,
            Event.SEND_NEXT_COMPLETE: _LOCAL_DONE,
            Event.SEND_COMPLETE: _LOCAL_DONE,
            Event.SEND_ERROR: _CLOSED,
            Event.SEND_CANCEL: _CLOSED,
            Event.SEND_REQUEST_N: _OPEN,
        },
        _LOCAL_DONE: {
            Event.NEXT: _LOCAL_DONE,
            Event.NEXT_COMPLETE: _CLOSED,
            Event.COMPLETE: _CLOSED,
            Event.ERROR: _CLOSED,
            Event.SEND_CANCEL: _CLOSED,
            Event.SEND_REQUEST_N: _LOCAL_DONE,
        },
        _REMOTE_DONE: {
            Event.ERROR: _CLOSED,
            Event.CANCEL: _CLOSED,
            Event.REQUEST_N: _REMOTE_DONE,
            Event.SEND_NEXT: _REMOTE_DONE,
            Event.SEND_NEXT_COMPLETE: _CLOSED,
            Event.SEND_COMPLETE: _CLOSED,
            Event.SEND_ERROR: _CLOSED,
            Event.SEND_CANCEL: _CLOSED,
        },
    }
)
_CHANNEL_RESPONDER: Final = _table(
    {
        _OPEN: {
            Event.NEXT: _OPEN,
            Event.NEXT_COMPLETE: _REMOTE_DONE,
            Event.COMPLETE: _REMOTE_DONE,
            Event.ERROR: _CLOSED,
            Event.CANCEL: _CLOSED,
            Event.REQUEST_N: _OPEN,
            Event.SEND_NEXT: _OPEN,
            Event.SEND_NEXT_COMPLETE: _LOCAL_DONE,
            Event.SEND_COMPLETE: _LOCAL_DONE,
            Event.SEND_ERROR: _CLOSED,
            Event.SEND_CANCEL: _REMOTE_DONE,
            Event.SEND_REQUEST_N: _OPEN,
        },
        _LOCAL_DONE: {
            Event.NEXT: _LOCAL_DONE,
            Event.NEXT_COMPLETE: _CLOSED,
            Event.COMPLETE: _CLOSED,
            Event.ERROR: _CLOSED,
            Event.CANCEL: _CLOSED,
            Event.SEND_CANCEL: _CLOSED,
            Event.SEND_REQUEST_N: _LOCAL_DONE,
        },
        _REMOTE_DONE: {
            Event.ERROR: _CLOSED,
            Event.CANCEL: _CLOSED,
            Event.REQUEST_N: _REMOTE_DONE,
            Event.SEND_NEXT: _REMOTE_DONE,
            Event.SEND_NEXT_COMPLETE: _CLOSED,
            Event.SEND_COMPLETE: _CLOSED,
            Event.SEND_ERROR: _CLOSED,
        },
    }
)

TABLES: Final[Mapping[tuple[Interaction, Side], Table]] = MappingProxyType(
    {
        (Interaction.REQUEST_RESPONSE, Side.REQUESTER): _RESPONSE_REQUESTER,
        (Interaction.REQUEST_RESPONSE, Side.RESPONDER): _RESPONSE_RESPONDER,
        # Protocol.md, "Request Fire-n-Forget": over when sent, over when received.
        (Interaction.FIRE_AND_FORGET, Side.REQUESTER): _table({}),
        (Interaction.FIRE_AND_FORGET, Side.RESPONDER): _table({}),
        (Interaction.REQUEST_STREAM, Side.REQUESTER): _STREAM_REQUESTER,
        (Interaction.REQUEST_STREAM, Side.RESPONDER): _STREAM_RESPONDER,
        (Interaction.REQUEST_CHANNEL, Side.REQUESTER): _CHANNEL_REQUESTER,
        (Interaction.REQUEST_CHANNEL, Side.RESPONDER): _CHANNEL_RESPONDER,
    }
)
"""(interaction, side) -> (state, event) -> state. Missing: ignored, or must not be sent."""

INITIAL_STATES: Final[Mapping[Interaction, State]] = MappingProxyType(
    {
        Interaction.REQUEST_RESPONSE: State.OPEN,
        Interaction.FIRE_AND_FORGET: State.CLOSED,
        Interaction.REQUEST_STREAM: State.OPEN,
        Interaction.REQUEST_CHANNEL: State.OPEN,
    }
)
"""The state right after the request frame, on both sides."""
