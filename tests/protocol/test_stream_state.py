"""`StreamState` does what the table says, and two of them agree with each other."""

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
from rsocket_trio.protocol.stream_state import StreamState

RECEIVED = [event for event in Event if not event.name.startswith("SEND_")]
SENT = [event for event in Event if event.name.startswith("SEND_")]


@given(
    st.sampled_from(STREAM_INTERACTIONS), st.sampled_from(Side), st.lists(st.sampled_from(Event))
)
def test_a_stream_state_follows_the_table(interaction, side, events):
    """A legal event moves the state and returns True; others change nothing and return False."""
    stream = StreamState(interaction, side)
    assert stream.state is INITIAL_STATES[interaction]
    for event in events:
        before = stream.state
        after = TABLES[interaction, side].get((before, event))
        assert stream.may_send(event) is (after is not None)
        assert stream.state is before
        done = stream.receive(event) if event in RECEIVED else stream.send(event)
        assert done is (after is not None)
        assert stream.state is (after or before)
        assert stream.closed is (stream.state is State.CLOSED)


@given(
    st.sampled_from([i for i in STREAM_INTERACTIONS if i is not Interaction.FIRE_AND_FORGET]),
    st.lists(st.tuples(st.booleans(), st.sampled_from(SENT), st.integers(0, 4)), max_size=30),
)
def test_two_ends_agree(interaction, script):
    """The two ends agree once all frames have arrived, with any frames and any delay.

    An ignored frame had crossed a frame that its receiver had sent.
    """
    ends = {side: StreamState(interaction, side) for side in Side}
    queues = {side: [] for side in Side}  # on the way to that side

    def deliver(side):
        ends[side].receive(Event[queues[side].pop(0).name.removeprefix("SEND_")])

    for requester, event, arrivals in script:
        me, you = (
            (Side.REQUESTER, Side.RESPONDER) if requester else (Side.RESPONDER, Side.REQUESTER)
        )
        if ends[me].send(event):
            queues[you].append(event)
        for _ in range(min(arrivals, len(queues[me]))):
            deliver(me)
    for side in Side:
        while queues[side]:
            deliver(side)
    mirror = {
        State.OPEN: State.OPEN,
        State.LOCAL_DONE: State.REMOTE_DONE,
        State.REMOTE_DONE: State.LOCAL_DONE,
        State.CLOSED: State.CLOSED,
    }
    assert ends[Side.RESPONDER].state is mirror[ends[Side.REQUESTER].state]


def test_repr_names_the_state():
    """The repr shows the state in a log."""
    assert repr(StreamState(Interaction.REQUEST_STREAM, Side.REQUESTER)) == "<StreamState OPEN>"


def test_a_stream_state_has_no_dict():
    """There is one per open stream, so it is kept small."""
    with pytest.raises(AttributeError):
        StreamState(Interaction.REQUEST_STREAM, Side.REQUESTER).extra = 1


@pytest.mark.parametrize(
    "interaction", [i for i in STREAM_INTERACTIONS if i is not Interaction.FIRE_AND_FORGET]
)
def test_every_crossing_of_two_ends(interaction):
    """With up to two messages on the way in each direction, the ends always agree at last.

    Every state of both ends and of the messages on the way is visited. From each of them, once all
    has arrived, the ends mirror each other, and an item is ignored only by an end that had given
    up.
    """
    requester, responder = (TABLES[interaction, side] for side in Side)
    mirror = {State.LOCAL_DONE: State.REMOTE_DONE, State.REMOTE_DONE: State.LOCAL_DONE}
    start = INITIAL_STATES[interaction]
    # Per end: its state, whether it gave up (sent ERROR or CANCEL), and the messages on the way to
    # it.
    first = ((start, False, ()), (start, False, ()))
    seen, todo = {first}, [first]
    while todo:
        ends = todo.pop()
        reached = []
        for me, table in ((0, requester), (1, responder)):
            state, gave_up, arriving = ends[me]
            other = ends[1 - me]
            if arriving:
                event = arriving[0]
                after = table.get((state, event))
                crossed = event in {Event.REQUEST_N, Event.CANCEL} and state is not State.OPEN
                assert after or gave_up or crossed, (ends, me)
                reached.append((me, (after or state, gave_up, arriving[1:]), other))
            if len(other[2]) < 2:
                for sending in SENT:
                    after = table.get((state, sending))
                    if after is not None:
                        event = Event[sending.name.removeprefix("SEND_")]
                        gives_up = gave_up or event in {Event.ERROR, Event.CANCEL}
                        sent = (other[0], other[1], (*other[2], event))
                        reached.append((me, (after, gives_up, arriving), sent))
        for me, mine, others in reached:
            pair = (mine, others) if me == 0 else (others, mine)
            if not pair[0][2] and not pair[1][2]:
                assert pair[0][0] is mirror.get(pair[1][0], pair[1][0]), ends
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    assert {end[0] for pair in seen for end in pair} >= {State.OPEN, State.CLOSED}
