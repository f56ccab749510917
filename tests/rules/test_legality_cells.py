"""Every cell of the legality tables against what the real operations do.

A real end of a connection is taken into each state, by every possible way. Then each event is
received, or the application tries to send it. The visible effect has to be what the cell says:
whether the event had an effect or left, and what can be sent and received afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import INITIAL_STATES, TABLES, Event, Side, State
from tests.rules.answering_scenes import ANSWERING, CompleteChannel
from tests.rules.legality_statement import ROWS, next_state
from tests.rules.requesting_scenes import REQUESTING
from tests.rules.scenes import PLENTY, STREAMS

E = Event
SCENES = [*REQUESTING, *ANSWERING]
ROUTES = {
    (Interaction.REQUEST_RESPONSE, Side.REQUESTER): {
        State.OPEN: [[]],
        State.CLOSED: [[E.NEXT], [E.NEXT_COMPLETE], [E.COMPLETE], [E.ERROR], [E.SEND_CANCEL]],
    },
    (Interaction.REQUEST_RESPONSE, Side.RESPONDER): {
        State.OPEN: [[]],
        State.CLOSED: [[E.CANCEL], [E.SEND_NEXT_COMPLETE], [E.SEND_COMPLETE], [E.SEND_ERROR]],
    },
    (Interaction.FIRE_AND_FORGET, Side.REQUESTER): {State.CLOSED: [[]]},
    (Interaction.FIRE_AND_FORGET, Side.RESPONDER): {State.CLOSED: [[]]},
    (Interaction.REQUEST_STREAM, Side.REQUESTER): {
        State.OPEN: [[]],
        State.CLOSED: [[E.NEXT_COMPLETE], [E.COMPLETE], [E.ERROR], [E.SEND_CANCEL]],
    },
    (Interaction.REQUEST_STREAM, Side.RESPONDER): {
        State.OPEN: [[]],
        State.CLOSED: [[E.CANCEL], [E.SEND_COMPLETE], [E.SEND_ERROR]],
    },
    (Interaction.REQUEST_CHANNEL, Side.REQUESTER): {
        State.OPEN: [[]],
        State.LOCAL_DONE: [[E.SEND_COMPLETE], [E.CANCEL]],
        State.REMOTE_DONE: [[E.COMPLETE], [E.NEXT_COMPLETE]],
        State.CLOSED: [
            [E.ERROR],
            [E.SEND_ERROR],
            [E.SEND_CANCEL],
            [E.SEND_COMPLETE, E.COMPLETE],
            [E.COMPLETE, E.SEND_COMPLETE],
            [E.COMPLETE, E.CANCEL],
        ],
    },
    (Interaction.REQUEST_CHANNEL, Side.RESPONDER): {
        State.OPEN: [[]],
        State.LOCAL_DONE: [[E.SEND_COMPLETE]],
        State.REMOTE_DONE: [[E.COMPLETE], [E.NEXT_COMPLETE], [E.SEND_CANCEL]],
        State.CLOSED: [
            [E.ERROR],
            [E.CANCEL],
            [E.SEND_ERROR],
            [E.SEND_COMPLETE, E.COMPLETE],
            [E.SEND_COMPLETE, E.SEND_CANCEL],
            [E.COMPLETE, E.SEND_COMPLETE],
        ],
    },
}
"""How to get into each state. A state that is not here cannot be reached: see the last test."""


def routes(scene):
    """(state, route) for one scene."""
    if scene is CompleteChannel:
        yield State.REMOTE_DONE, []
        return
    for state, ways in ROUTES[scene.interaction, scene.side].items():
        for way in ways:
            yield state, way


def name_of(scene, state, route, *events):
    by = "+".join(event.name for event in route) or "request"
    return "-".join([scene.name, scene.side.name, state.name, by, *(e.name for e in events)])


WAYS = [
    pytest.param(scene, state, route, id=name_of(scene, state, route))
    for scene in SCENES
    for state, route in routes(scene)
]
CELLS = [
    pytest.param(scene, state, route, event, id=name_of(scene, state, route, event))
    for scene in SCENES
    for state, route in routes(scene)
    for event in Event
]


def table_of(scene):
    return TABLES[scene.interaction, scene.side]


def is_sent(event):
    return event.name.startswith("SEND_")


def illegal(scene):
    """The events that left in a scene although the statement forbids them."""
    state = INITIAL_STATES[scene.interaction]
    found = []
    for event in scene.run:
        after = next_state(scene.interaction, scene.side, state, event)
        if after is None and is_sent(event):
            found.append(event)
        state = after or state
    return found


class Seen(NamedTuple):
    """The visible effect of one event.

    Attributes:
        legal: It had an effect; or it left.
        state: The state after it.
        forgotten: Whether the connection has forgotten the id then.
        illegal: What left in the whole run although it was not legal.
    """

    legal: bool
    state: State
    forgotten: bool
    illegal: list[Event]


async def go(scene, route):
    """Take a scene into a state."""
    for step in route:
        await (scene.attempt(step) if is_sent(step) else scene.receive(step))


async def look(scene, event):
    """Let an event happen, or try to; return its visible effect."""
    if is_sent(event):
        sent = await scene.attempt(event)
        streamed = sent[:2] == [Event.SEND_NEXT, Event.SEND_COMPLETE]
        return sent[:1] == [event] or (streamed and event is Event.SEND_NEXT_COMPLETE)
    if event is Event.REQUEST_N:
        await scene.wait_for_credit()
    scene.hear()
    await scene.sent()
    before = len(scene.noted)
    sent = await scene.receive(event)
    scene.hear()
    return bool(sent) or len(scene.noted) > before


async def observe(make, route, event):
    """Take a new scene to a state and observe one event there."""
    scene = make(credit=0 if event is Event.REQUEST_N else PLENTY)
    async with scene.begun():
        await go(scene, route)
        legal = await look(scene, event)
        forgotten = scene.forgotten
        state = await scene.state()
    return Seen(legal, state, forgotten, illegal(scene))


@pytest.mark.parametrize(("make", "state", "route"), WAYS)
async def test_every_route_leads_to_its_state(make, state, route):
    """Each route of the next test leads to the state that the test assumes."""
    scene = make()
    async with scene.begun():
        await go(scene, route)
        if not route and make is not CompleteChannel:
            assert INITIAL_STATES[scene.interaction] is state
        assert scene.forgotten is (state is State.CLOSED)
        assert await scene.state() is state


@pytest.mark.parametrize(("make", "state", "route", "event"), CELLS)
async def test_every_cell(make, state, route, event):
    """The table, the statement of its rules and the operation agree."""
    cell = table_of(make).get((state, event))
    assert cell is next_state(make.interaction, make.side, state, event)
    seen = await observe(make, route, event)
    assert seen.legal is (cell is not None)
    assert not seen.illegal
    if cell is not None or not is_sent(event):
        assert seen.state is (cell or state)
        assert seen.forgotten is (seen.state is State.CLOSED)


@pytest.mark.parametrize(("make", "state", "route"), WAYS)
async def test_answers_to_items_beyond_the_credit_are_legal(make, state, route):
    """The frames that leave upon items beyond the credit are legal in that state."""
    scene = make()
    async with scene.begun():
        await go(scene, route)
        sent = await scene.receive(Event.NEXT, times=PLENTY)
        forgotten = scene.forgotten
    assert not illegal(scene)
    rules = table_of(make)
    if make.interaction in STREAMS and (state, Event.NEXT) in rules:
        error, cancel = Event.SEND_ERROR, Event.SEND_CANCEL
        assert sent == [error if (state, error) in rules else cancel]
        assert forgotten
    else:
        assert not sent


@pytest.mark.parametrize(("interaction", "side", "state", "event"), ROWS)
def test_tables_have_no_rows_for_impossible_states(interaction, side, state, event):
    """A table has a state only if one of its events leads to it."""
    reached = {INITIAL_STATES[interaction], *TABLES[interaction, side].values()}
    assert {*ROUTES[interaction, side]} == reached
    if state not in reached:
        assert (state, event) not in TABLES[interaction, side]
