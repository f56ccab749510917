"""The translators alone: frames of the draft in, frames of 1.0 out, and the reverse."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio import frames as new
from rsocket_trio.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from rsocket_trio.frames.header import NEXT
from rsocket_trio.protocol.fragmentation import fragment_payload, fragment_request
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.reactivesocket import frames as old
from rsocket_trio.reactivesocket import translated_streams
from rsocket_trio.reactivesocket.incoming import Incoming
from rsocket_trio.reactivesocket.outgoing import Outgoing
from rsocket_trio.reactivesocket.translated_streams import TranslatedStreams
from rsocket_trio.transports.base import SUBSCRIPTION


class Ends:
    """Both translators of one end of a connection."""

    def __init__(self, *, client):
        self.table = TranslatedStreams(client=client)
        self.incoming = Incoming(self.table, client=client)
        self.outgoing = Outgoing(self.table)
        if not client:
            self.incoming.translate(old.SetupFrame(0, 1, 1).encode())

    def receive(self, frame):
        return [new.decode(each) for each in self.incoming.translate(frame.encode())]

    def send(self, frame):
        encoded = frame if isinstance(frame, bytes) else frame.encode()
        return [old.decode(each) for each in self.outgoing.translate(encoded)]

    @property
    def open(self):
        assert len(self.table.by_wire) == len(self.table.by_engine)
        return len(self.table.by_wire)


@pytest.fixture
def client():
    return Ends(client=True)


@pytest.fixture
def server():
    return Ends(client=False)


def test_leases_are_translated(client):
    """Numbers with more than 31 bits become the largest number, in both directions."""
    lease = new.LeaseFrame(1000, 5, b"m")
    assert client.receive(old.LeaseFrame(1000, 5, b"m")) == [lease]
    assert client.send(lease) == [old.LeaseFrame(1000, 5, b"m")]
    assert client.send(new.LeaseFrame(0, 0, b"")) == [old.LeaseFrame(0, 0)]
    assert client.receive(old.LeaseFrame(2**32 - 1, 2**31)) == [
        new.LeaseFrame(2**31 - 1, 2**31 - 1)
    ]


def test_setup_with_a_lease():
    """L is translated both ways; extensions that the draft does not have are left out."""
    table = TranslatedStreams(client=True)
    setup = new.SetupFrame(1, 0, 20, 90, lease=True, metadata=b"", data=b"d")
    (sent,) = Outgoing(table).translate(setup.encode())
    assert old.decode(sent) == old.SetupFrame(0, 20, 90, lease=True, data=b"d")
    (received,) = Incoming(table, client=False).translate(sent)
    assert new.decode(received) == new.SetupFrame(1, 0, 20, 90, lease=True, data=b"d")


@pytest.mark.parametrize(
    "frame",
    [
        new.ResumeFrame(1, 0, b"t", 0, 0),
        new.ResumeOkFrame(0),
        new.ExtFrame(0, 1),
        new.ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"x"),
        new.PayloadFrame(2, next=True),
        new.RequestNFrame(2, 1),
        new.CancelFrame(2),
        new.ErrorFrame(2, ErrorCode.REJECTED),
    ],
    ids=repr,
)
def test_frames_that_are_not_translated(server, frame):
    """Frames without a counterpart in the draft, and frames of streams that are over."""
    assert server.send(frame) == []


@pytest.mark.parametrize(
    ("kind", "n", "expected"),
    [
        (new.FrameType.REQUEST_RESPONSE, None, old.RequestResponseFrame(2, b"m" * 99, b"d" * 99)),
        (new.FrameType.REQUEST_FNF, None, old.RequestFnfFrame(2, b"m" * 99, b"d" * 99)),
        (
            new.FrameType.REQUEST_STREAM,
            5,
            old.RequestStreamFrame(2, 5, b"m" * 99, b"d" * 99, n_flag=True),
        ),
    ],
)
def test_requests_have_no_fragments(client, kind, n, expected):
    """Only RESPONSE and REQUEST_CHANNEL have F (V0-FRAG-01); the translator joins nothing."""
    first, *_ = fragment_request(kind, 1, 0, n, b"m" * 99, b"d" * 99, 64)
    with pytest.raises(LocalProtocolError, match=f"{kind.name} cannot be sent in fragments"):
        client.send(first)
    assert client.open == 0
    (whole,) = fragment_request(kind, 1, 0, n, b"m" * 99, b"d" * 99, 1000)
    assert client.send(whole) == [expected]
    assert client.open == (kind is not new.FrameType.REQUEST_FNF)


def test_a_subscription_is_translated(client):
    """A mark makes a REQUEST_SUB of a REQUEST_STREAM."""
    kind = new.FrameType.REQUEST_STREAM
    (request,) = fragment_request(kind, 1, SUBSCRIPTION, 5, None, b"d", 64)
    assert client.send(request) == [old.RequestSubFrame(2, 5, None, b"d", n_flag=True)]


def test_channel_items_keep_their_fragments(client):
    """REQUEST_CHANNEL has F too: the translator joins nothing."""
    frames = list(fragment_request(new.FrameType.REQUEST_CHANNEL, 1, 0, 4, b"m", b"d" * 99, 64))
    frames += fragment_payload(1, NEXT, None, b"e" * 99, 64)
    sent = [frame for each in frames for frame in client.send(each)]
    assert [frame.follows for frame in sent] == [True, False, True, False]
    assert [frame.initial_request_n for frame in sent] == [4, 0, 0, 0]
    assert b"".join(frame.data for frame in sent) == b"d" * 99 + b"e" * 99


@pytest.mark.parametrize("kind", [old.RequestStreamFrame, old.RequestSubFrame])
def test_a_last_item_without_data(server, kind):
    """C without data would only be a completion, so the item goes before it."""
    (request,) = server.receive(kind(2, 5))
    sent = server.send(new.PayloadFrame(request.stream_id, next=True, complete=True))
    end = old.ResponseFrame(2, complete=True)
    if kind is old.RequestSubFrame:
        end = old.ErrorFrame(2, 0x203, None, b"the subscription is over")
    assert sent == [old.ResponseFrame(2), end]
    assert server.open == 0


@pytest.mark.parametrize(
    "frame",
    [old.RequestStreamFrame(2, 0), old.RequestSubFrame(2, 0), old.RequestChannelFrame(2, None)],
    ids=repr,
)
def test_a_request_without_credit_is_a_request(server, frame):
    """The translator does not wait for the credit."""
    (request,) = server.receive(frame)
    assert request.initial_request_n == 0
    assert server.receive(old.RequestNFrame(2, 3)) == [new.RequestNFrame(request.stream_id, 3)]
    assert server.receive(old.RequestNFrame(2, 0)) == []


def end_early(ends, wire_id):
    """Let the responder complete a channel while the requester goes on."""
    (request,) = ends.receive(old.RequestChannelFrame(wire_id, 1))
    ends.send(new.PayloadFrame(request.stream_id, complete=True))


def test_late_items_of_the_remembered_channels(server):
    """With one channel more, the oldest is forgotten, and its late item is a request."""
    for wire_id in range(1, translated_streams._MAX_STRAGGLERS + 1):
        end_early(server, wire_id)
    late = [
        old.RequestChannelFrame(wire_id) for wire_id in (1, 2, translated_streams._MAX_STRAGGLERS)
    ]
    assert [server.receive(frame) for frame in late] == [[], [], []]
    end_early(server, 5000)
    assert server.receive(late[1]) == []
    assert server.receive(late[2]) == []
    assert server.receive(late[0]) != []


@pytest.mark.parametrize(
    "last",
    [
        old.RequestChannelFrame(2, None, complete=True),
        old.RequestChannelFrame(2, 0, complete=True),
        old.CancelFrame(2),
        old.ErrorFrame(2, 0x201),
    ],
    ids=repr,
)
def test_the_last_late_frame_frees_the_id(server, last):
    """A new channel may use it then, also one without credit."""
    end_early(server, 2)
    for _ in range(2):
        assert server.receive(old.RequestChannelFrame(2, data=b"late")) == []
    assert server.receive(last) == []
    (request,) = server.receive(old.RequestChannelFrame(2, data=b"new"))
    assert (request.initial_request_n, request.data) == (0, b"new")


def test_streams_without_late_items(server):
    """Requesters that had completed, and streams, have no late items."""
    (request,) = server.receive(old.RequestChannelFrame(2, 1, complete=True))
    server.send(new.PayloadFrame(request.stream_id, complete=True))
    assert server.receive(old.RequestChannelFrame(2)) != []
    for wire_id, frame in ((4, old.RequestStreamFrame(4, 1)), (6, old.RequestResponseFrame(6))):
        (request,) = server.receive(frame)
        server.send(new.ErrorFrame(request.stream_id, 0x201))
        assert server.receive(old.RequestChannelFrame(wire_id)) != []
    # A new channel on the id of a closed one is recognized by its credit.
    end_early(server, 8)
    assert server.receive(old.RequestChannelFrame(8)) == []
    assert server.receive(old.RequestChannelFrame(8, 1)) != []
    assert not server.table.is_straggler(8)


def test_ids_are_used_up_and_begin_again(client, monkeypatch):
    """This holds on both sides; ids in use are skipped."""
    monkeypatch.setattr(translated_streams, "_LAST_ID", 6)
    stream = client.table.open_ours(Interaction.REQUEST_RESPONSE, 1)
    theirs = client.table.open_theirs(Interaction.REQUEST_RESPONSE, 101)
    assert (stream.wire_id, theirs.engine_id) == (2, 2)
    for expected in (4, 6, 4, 6):
        ours = client.table.open_ours(Interaction.REQUEST_RESPONSE, 3)
        again = client.table.open_theirs(Interaction.REQUEST_RESPONSE, 103)
        assert (ours.wire_id, again.engine_id) == (expected, expected)
        client.table.close(ours)
        client.table.close(again)


DATA = st.binary(max_size=8)
METADATA = st.none() | DATA
IDS = st.sampled_from([0, 1, 2, 3, 2**32 - 1])
N = st.sampled_from([0, 1, 2, 2**32 - 1])
FLAG = st.booleans()
ANY = st.one_of(
    st.builds(old.RequestResponseFrame, IDS, METADATA, DATA),
    st.builds(old.RequestFnfFrame, IDS, METADATA, DATA),
    st.builds(old.RequestStreamFrame, IDS, N, METADATA, DATA),
    st.builds(old.RequestSubFrame, IDS, N, METADATA, DATA),
    st.builds(old.RequestChannelFrame, IDS, st.none() | N, FLAG, FLAG, METADATA, DATA),
    st.builds(old.RequestNFrame, IDS, N),
    st.builds(old.CancelFrame, IDS, METADATA),
    st.builds(old.ResponseFrame, IDS, FLAG, FLAG, METADATA, DATA),
    st.builds(old.ErrorFrame, IDS, N, METADATA, DATA),
    st.builds(old.LeaseFrame, N, N, METADATA, IDS),
    st.builds(old.KeepaliveFrame, FLAG, DATA, IDS),
    st.builds(old.MetadataPushFrame, DATA, IDS),
    st.builds(old.SetupFrame, N, N, N, FLAG, FLAG, metadata=METADATA, data=DATA, stream_id=IDS),
)
ENGINE = st.one_of(
    st.builds(new.PayloadFrame, st.integers(1, 8), FLAG, FLAG, FLAG, METADATA, DATA),
    st.builds(new.RequestNFrame, st.integers(1, 8), st.integers(1, 5)),
    st.builds(new.CancelFrame, st.integers(1, 8)),
    st.builds(new.ErrorFrame, st.integers(0, 8), st.just(0x201), DATA),
)
OPENING = st.sampled_from(
    [
        new.RequestResponseFrame,
        new.RequestFnfFrame,
        lambda i: new.RequestStreamFrame(i, 1),
        lambda i: new.RequestChannelFrame(i, 1, follows=True),
    ]
)
STEPS = st.lists(
    st.tuples(st.just("in"), ANY)
    | st.tuples(st.just("out"), ENGINE)
    | st.tuples(st.just("open"), OPENING),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(FLAG, STEPS)
def test_any_traffic_is_translated(client, steps):
    """The output is always frames, and the two tables have the same streams."""
    ends = Ends(client=client)
    ours = 1 if client else 2
    for step, frame in steps:
        if step == "in":
            for each in ends.receive(frame):
                assert new.decode(each.encode()) == each
        elif step == "out":
            ends.send(frame)
        else:
            ends.send(frame(ours))
            ours += 2
        for stream in ends.table.by_wire.values():
            assert ends.table.by_engine[stream.engine_id] is stream
            assert stream.engine_id % 2 == (ours % 2 if stream.ours else 1 - ours % 2)
        assert ends.open <= 40


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_raise_the_documented_error_only(frames):
    """This holds before a SETUP and after it."""
    for ends in (Ends(client=True), Ends(client=False)):
        for frame in frames:
            with contextlib.suppress(RemoteProtocolError):
                for each in ends.incoming.translate(frame):
                    new.decode(each)
    fresh = Incoming(TranslatedStreams(client=False), client=False)
    for frame in frames:
        with contextlib.suppress(RemoteProtocolError):
            fresh.translate(frame)
