"""Two pure peers back to back: state, credit and window of both ends, with delay in between.

Messages wait in one FIFO queue per direction, as on a connection, and arrive when the machine says
so. Each end sends only what its own rules allow. In every order no end overruns its credit, a
message is illegal only if its receiver had already ended that half, and once both ends want to end,
both close.
"""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rsocket_trio.protocol.credit import Credit, Window
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import Event, Side, State
from rsocket_trio.protocol.stream_state import StreamState

ITEMS = {Event.NEXT, Event.NEXT_COMPLETE}
COMPLETIONS = {Event.NEXT_COMPLETE, Event.COMPLETE}
ENDS = [Event.NEXT_COMPLETE, Event.COMPLETE, Event.ERROR, Event.CANCEL]
ENDINGS = [(side, event) for side in Side for event in ENDS]


class End:
    """One end of a stream: the state that an engine keeps for it."""

    def __init__(self, interaction, side, outgoing, window, credit):
        self.side = side
        self.single = interaction is Interaction.REQUEST_RESPONSE
        self.state = StreamState(interaction, side)
        self.outgoing = outgoing
        self.window = window  # what we let the peer send
        self.credit = credit  # what the peer lets us send
        self.unread = 0
        self.items_sent = self.items_received = 0
        self.gave_up = self.completed = False

    def send(self, event, n=0):
        """Send if state and credit allow it; return whether it was sent."""
        sending = Event[f"SEND_{event.name}"]
        if not self.state.may_send(sending):
            return False
        # The answer of a REQUEST_RESPONSE needs no credit.
        if event in ITEMS and not self.single:
            if not self.credit.take():
                return False
            self.items_sent += 1
        assert self.state.send(sending)
        self.gave_up = self.gave_up or event in {Event.CANCEL, Event.ERROR}
        self.completed = self.completed or event in COMPLETIONS
        self.outgoing.append((event, n))
        return True

    def choices(self):
        """The events that may end a half now; the item of N and C needs credit."""
        free = self.single or self.credit.available
        return [
            event
            for event in ENDS
            if self.state.may_send(Event[f"SEND_{event.name}"])
            and (free or event is not Event.NEXT_COMPLETE)
        ]

    def receive(self, event, n):
        before = self.state.state
        if not self.state.receive(event):
            # A message may be without effect only if it crossed one that this end had sent:
            # items and completion if it gave up, credit and CANCEL if it completed.
            assert before is not State.OPEN
            crossed_end = self.completed and event in {Event.REQUEST_N, Event.CANCEL}
            assert self.gave_up or crossed_end, (before, event)
            return
        if event in ITEMS and not self.single:
            assert self.window.received(), "the peer overran its credit"
            self.items_received += 1
            self.unread += 1
        if event is Event.REQUEST_N:
            self.credit.add(n)

    def consume(self, k):
        self.unread -= k
        n = self.window.consumed(k)
        if n and not self.send(Event.REQUEST_N, n):
            assert not self.state.may_send(Event.SEND_REQUEST_N)


class TwoPeers(RuleBasedStateMachine):
    """Requester and responder of one stream."""

    interaction: Interaction
    ends: dict

    @initialize(
        windows=st.tuples(st.integers(0, 6), st.integers(0, 6)),
        initial=st.integers(1, 4),
        complete=st.booleans(),
        endings=st.sets(st.sampled_from(ENDINGS), max_size=2),
    )
    def open(self, windows, initial, complete, endings):
        """The request frame has just arrived; the responder has answered a channel's."""
        interaction = self.interaction
        # Each run has only a few ways to end. With all of them, almost every run would soon end by
        # the strongest, an ERROR or the requester's CANCEL, and never show the others' effects.
        self.endings = endings
        channel = interaction is Interaction.REQUEST_CHANNEL
        to_responder, to_requester = deque(), deque()
        answers = Window(windows[0], initial=initial)
        items = Window(windows[1], initial=initial, uncredited=1)
        requester = End(interaction, Side.REQUESTER, to_responder, answers, Credit())
        responder = End(
            interaction, Side.RESPONDER, to_requester, items, Credit(answers.initial_request_n)
        )
        self.ends = {Side.REQUESTER: requester, Side.RESPONDER: responder}
        self.queues = {Side.REQUESTER: to_requester, Side.RESPONDER: to_responder}
        if channel:
            responder.unread = 1  # the item of the request frame
            if complete:  # C on the request frame itself: no frame is sent for it.
                assert requester.state.send(Event.SEND_COMPLETE)
                requester.completed = True
                assert responder.state.receive(Event.COMPLETE)
            else:
                assert responder.send(Event.REQUEST_N, items.initial_request_n)

    def deliver(self, side):
        self.ends[side].receive(*self.queues[side].popleft())

    @rule(side=st.sampled_from(Side), n=st.integers(1, 5))
    def send_items(self, side, n):
        for _ in range(n):
            self.ends[side].send(Event.NEXT)

    def possible_endings(self):
        return sorted(
            ((side, event) for side, event in self.endings if event in self.ends[side].choices()),
            key=ENDINGS.index,
        )

    @precondition(possible_endings)
    @rule(data=st.data())
    def end_something(self, data):
        """Complete, fail or cancel: one event that an end may send now."""
        side, event = data.draw(st.sampled_from(self.possible_endings()))
        assert self.ends[side].send(event)

    @rule(side=st.sampled_from(Side), n=st.integers(1, 5))
    def grant(self, side, n):
        end = self.ends[side]
        if end.window.manual and end.state.may_send(Event.SEND_REQUEST_N):
            end.window.grant(n)
            assert end.send(Event.REQUEST_N, n)

    @precondition(lambda self: any(self.queues.values()))
    @rule(side=st.sampled_from(Side), n=st.integers(1, 6))
    def arrive(self, side, n):
        for _ in range(min(n, len(self.queues[side]))):
            self.deliver(side)

    @precondition(lambda self: any(end.unread for end in self.ends.values()))
    @rule(side=st.sampled_from(Side), n=st.integers(1, 6))
    def consume(self, side, n):
        end = self.ends[side]
        if end.unread:
            end.consume(min(n, end.unread))

    @invariant()
    def no_end_overruns(self):
        """Memory is bounded by the window, and the granted items are the counted ones."""
        if not hasattr(self, "ends"):
            return
        for end in self.ends.values():
            window = end.window
            assert window.overruns == 0
            assert window.outstanding + window.unread <= window.peak
            assert end.credit.available >= 0
            if not window.manual:
                assert window.peak == window.initial_request_n

    @invariant()
    def a_closed_end_sends_nothing(self):
        """An end that is closed may send no event."""
        if not hasattr(self, "ends"):
            return
        for end in self.ends.values():
            if end.state.closed:
                assert not any(end.state.may_send(event) for event in Event)

    def teardown(self):
        """Both ends finish their halves: then both are closed and agree on the items sent."""
        if not hasattr(self, "ends"):
            return
        for side in Side:
            self.ends[side].send(Event.COMPLETE)
        while any(self.queues.values()):
            for side in Side:
                while self.queues[side]:
                    self.deliver(side)
        requester, responder = self.ends[Side.REQUESTER], self.ends[Side.RESPONDER]
        assert requester.state.closed
        assert responder.state.closed
        for sender, receiver in [(requester, responder), (responder, requester)]:
            assert receiver.items_received <= sender.items_sent


def machine(interaction):
    """The machine for one interaction, so that each gets its share of examples."""
    case = type(interaction.name, (TwoPeers,), {"interaction": interaction}).TestCase
    case.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
    return case


TestRequestResponse = machine(Interaction.REQUEST_RESPONSE)
TestFireAndForget = machine(Interaction.FIRE_AND_FORGET)
TestRequestStream = machine(Interaction.REQUEST_STREAM)
TestRequestChannel = machine(Interaction.REQUEST_CHANNEL)


def test_a_stream_flows_without_end_through_a_small_window():
    """With automatic windows no item is stuck: a thousand pass through a window of three."""
    queue, back = deque(), deque()
    window = Window(3)
    requester = End(Interaction.REQUEST_STREAM, Side.REQUESTER, back, window, Credit())
    responder = End(Interaction.REQUEST_STREAM, Side.RESPONDER, queue, Window(1), Credit(3))
    for _ in range(1000):
        assert responder.send(Event.NEXT)
        requester.receive(*queue.popleft())
        requester.consume(1)
        while back:
            responder.receive(*back.popleft())
    assert requester.items_received == 1000
    assert responder.send(Event.COMPLETE)  # completion needs no credit
    requester.receive(*queue.popleft())
    assert requester.state.closed


def test_completion_needs_no_credit():
    """A responder whose credit is used up can still complete, and still fail."""
    for event in (Event.COMPLETE, Event.ERROR):
        queue = deque()
        responder = End(Interaction.REQUEST_STREAM, Side.RESPONDER, queue, Window(1), Credit(1))
        assert responder.send(Event.NEXT)
        assert not responder.send(Event.NEXT)
        assert responder.send(event)
        assert responder.state.closed
