"""The legality table, checked with a second, independent statement of its rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import (
    INITIAL_STATES,
    STREAM_INTERACTIONS,
    TABLES,
    Event,
    Side,
    State,
)
from tests.rules.legality_statement import ROWS, next_state


@pytest.mark.parametrize(("interaction", "side", "state", "event"), ROWS)
def test_every_cell_follows_the_rules(interaction, side, state, event):
    """Each cell of each table follows the rules, missing ones included."""
    after = TABLES[interaction, side].get((state, event))
    assert after is next_state(interaction, side, state, event)


@pytest.mark.parametrize("interaction", STREAM_INTERACTIONS)
@pytest.mark.parametrize("side", Side)
def test_nothing_is_legal_on_a_closed_stream(interaction, side):
    """No event is legal on a stream that is over."""
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
    """Each answer to a REQUEST_RESPONSE ends it, also a PAYLOAD without C."""
    state = INITIAL_STATES[Interaction.REQUEST_RESPONSE]
    for event in events:
        state = TABLES[Interaction.REQUEST_RESPONSE, Side.REQUESTER][state, event]
    assert state is State.CLOSED


def test_a_payload_without_complete_is_never_sent_as_response():
    """We answer REQUEST_RESPONSE with C set, though we accept answers without."""
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


@given(
    st.sampled_from(STREAM_INTERACTIONS), st.sampled_from(Side), st.lists(st.sampled_from(Event))
)
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
