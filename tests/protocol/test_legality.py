"""The legality table against a second, independent statement of its rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.protocol.legality import (
    INITIAL_STATES,
    TABLES,
    Event,
    Interaction,
    Side,
    State,
)

ITEMS = {Event.NEXT, Event.NEXT_COMPLETE}
COMPLETIONS = {Event.NEXT_COMPLETE, Event.COMPLETE}
SEND_COMPLETIONS = {Event.SEND_NEXT_COMPLETE, Event.SEND_COMPLETE}
SEND_ITEMS = {Event.SEND_NEXT, Event.SEND_NEXT_COMPLETE}

ROWS = [
    (interaction, side, state, event)
    for interaction in Interaction
    for side in Side
    for state in State
    for event in Event
]


def expected(interaction, side, state, event):
    """The next state by the rules, from two flags instead of a table; None for not legal."""
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
            remote = not (single or event in COMPLETIONS)
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
            local = event not in SEND_COMPLETIONS
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


@pytest.mark.parametrize(("interaction", "side", "state", "event"), ROWS)
def test_every_cell_follows_the_rules(interaction, side, state, event):
    """Each cell of each table is what the rules say, a missing one included."""
    after = TABLES[interaction, side].get((state, event))
    assert after is expected(interaction, side, state, event)


@pytest.mark.parametrize("interaction", Interaction)
@pytest.mark.parametrize("side", Side)
def test_closed_is_closed(interaction, side):
    """Nothing is legal on a stream that is over."""
    assert not [key for key in TABLES[interaction, side] if key[0] is State.CLOSED]


def test_fire_and_forget_never_answers():
    """A FIRE_AND_FORGET is over with its request, on both sides."""
    assert INITIAL_STATES[Interaction.FIRE_AND_FORGET] is State.CLOSED
    assert not TABLES[Interaction.FIRE_AND_FORGET, Side.REQUESTER]
    assert not TABLES[Interaction.FIRE_AND_FORGET, Side.RESPONDER]


@pytest.mark.parametrize(
    "events",
    [
        (Event.NEXT,),  # without C counts as with C
        (Event.NEXT_COMPLETE,),
        (Event.COMPLETE,),
        (Event.ERROR,),
        (Event.SEND_CANCEL,),
    ],
)
def test_one_answer_ends_a_request_response(events):
    """Whatever answers a REQUEST_RESPONSE ends it, a PAYLOAD without C too."""
    state = INITIAL_STATES[Interaction.REQUEST_RESPONSE]
    for event in events:
        state = TABLES[Interaction.REQUEST_RESPONSE, Side.REQUESTER][state, event]
    assert state is State.CLOSED


def test_a_payload_without_complete_is_never_sent_as_response():
    """We answer REQUEST_RESPONSE with C set, though we take answers without."""
    table = TABLES[Interaction.REQUEST_RESPONSE, Side.RESPONDER]
    assert (State.OPEN, Event.SEND_NEXT) not in table


def test_the_two_cancels_of_a_channel_differ():
    """The requester's CANCEL ends a channel; the responder's ends the requester's half only."""
    requester = TABLES[Interaction.REQUEST_CHANNEL, Side.REQUESTER]
    responder = TABLES[Interaction.REQUEST_CHANNEL, Side.RESPONDER]
    assert requester[State.OPEN, Event.SEND_CANCEL] is State.CLOSED
    assert responder[State.OPEN, Event.CANCEL] is State.CLOSED
    assert responder[State.OPEN, Event.SEND_CANCEL] is State.REMOTE_DONE
    assert requester[State.OPEN, Event.CANCEL] is State.LOCAL_DONE


def test_tables_cannot_be_changed():
    """The table is shared by all streams of a process and is read-only."""
    with pytest.raises(TypeError):
        TABLES[Interaction.REQUEST_STREAM, Side.REQUESTER][State.OPEN, Event.CANCEL] = State.OPEN


@given(st.sampled_from(Interaction), st.sampled_from(Side), st.lists(st.sampled_from(Event)))
def test_no_run_reopens_a_half(interaction, side, events):
    """Along any run of events the set of halves that have ended only grows."""
    ended = {
        State.OPEN: set(),
        State.LOCAL_DONE: {"local"},
        State.REMOTE_DONE: {"remote"},
        State.CLOSED: {"local", "remote"},
    }
    state = INITIAL_STATES[interaction]
    for event in events:
        after = TABLES[interaction, side].get((state, event), state)
        assert ended[state] <= ended[after]
        state = after
