"""Implied positions, retained frames, and whether a session can be resumed."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.protocol.resume_log import FRAME_COST, ResumeLog, is_tracked, possible

TRACKED = [
    RequestResponseFrame(1),
    RequestFnfFrame(1),
    RequestStreamFrame(1, 1),
    RequestChannelFrame(1, 1),
    RequestNFrame(1, 1),
    CancelFrame(1),
    ErrorFrame(1, 0x201),
    PayloadFrame(1, next=True),
]
UNTRACKED = [
    SetupFrame(1, 0, 1, 1),
    KeepaliveFrame(False),
    LeaseFrame(1, 1),
    MetadataPushFrame(b"m"),
    ErrorFrame(0, 0x102),
    ResumeFrame(1, 0, b"t", 0, 0),
    ResumeOkFrame(0),
    b"\0\0\0\1\xfc\0\0\0\0\1",  # EXT
    b"\0\0\0\0\x28\x20data",  # PAYLOAD on stream 0
]


def payload(size: int) -> bytes:
    """A tracked frame of ``size`` bytes."""
    return PayloadFrame(1, next=True, data=b"x" * (size - 6)).encode()


def log_of(*sizes: int, limit: int = 10**6) -> ResumeLog:
    log = ResumeLog(limit)
    for size in sizes:
        log.record(payload(size))
    return log


@pytest.mark.parametrize("frame", TRACKED, ids=lambda frame: frame.frame_type.name)
def test_frames_of_streams_are_tracked(frame):
    """R-RESUME-02: each type that has a position is tracked."""
    assert is_tracked(frame.encode())


@pytest.mark.parametrize("frame", UNTRACKED, ids=repr)
def test_other_frames_are_not_tracked(frame):
    """R-RESUME-02, R-RESUME-26: stream 0 has no positions, also its ERRORs, and EXT has none."""
    assert not is_tracked(frame if isinstance(frame, bytes) else frame.encode())


def test_positions_are_bytes():
    """R-RESUME-03: a frame of 10 bytes moves the position by 10, in each direction by itself."""
    log = log_of(10, 7)
    log.count_received(payload(12))
    assert (log.sent, log.received, log.first_retained) == (17, 12, 0)
    assert repr(log) == "<ResumeLog sent=17 retained from 0 received=12>"


def test_acknowledged_frames_are_dropped():
    """R-RESUME-22: frames that the peer has are not retained; a frame it has in part is."""
    log = log_of(10, 10, 10)
    assert log.acknowledge(19)
    assert (log.first_retained, log.size) == (10, 2 * (10 + FRAME_COST))
    assert log.acknowledge(5)  # An old position changes nothing.
    assert log.first_retained == 10
    assert log.acknowledge(30)
    assert (log.first_retained, log.size, log.replay()) == (30, 0, [])


def test_a_position_past_what_was_sent_is_impossible():
    """The peer cannot have received more than was sent: no frame is dropped."""
    log = log_of(10)
    assert not log.acknowledge(11)
    assert log.first_retained == 0


def test_the_limit_holds_by_eviction():
    """The oldest frames go first, they are counted, and the positions stay right."""
    log = log_of(10, 20, 30, limit=50 + 2 * FRAME_COST)
    assert (log.evicted, log.first_retained, log.sent) == (1, 10, 60)
    assert log.replay() == [payload(20), payload(30)]
    log.record(payload(1000))  # larger than the limit alone
    assert (log.evicted, log.first_retained, log.size) == (4, 1060, 0)


@pytest.mark.parametrize(
    ("last_received", "first_available", "expected"),
    [
        (10, 0, True),
        (20, 0, True),
        (30, 0, True),
        (9, 0, False),  # evicted here
        (31, 0, False),  # never sent
        (15, 0, False),  # inside a frame
        (20, 7, True),
        (20, 8, False),  # lost there
        (0, 0, False),
    ],
)
def test_when_resumption_is_possible(last_received, first_available, expected):
    """R-RESUME-15: no gap in either direction, and only at the boundary of a frame."""
    log = log_of(10, 10, 10)
    log.acknowledge(10)
    log.count_received(payload(7))
    answer = possible(log, last_received=last_received, first_available=first_available)
    assert answer is expected


class TwoEnds(RuleBasedStateMachine):
    """Two ends of a session whose connection is cut at any byte, and resumed."""

    def __init__(self):
        super().__init__()
        self.logs = (ResumeLog(10**6), ResumeLog(10**6))
        self.wires: tuple[list[bytes], list[bytes]] = ([], [])  # towards the end of that index
        self.sent: tuple[list[bytes], list[bytes]] = ([], [])  # by the end of that index
        self.delivered: tuple[list[bytes], list[bytes]] = ([], [])

    @rule(end=st.integers(0, 1), size=st.integers(6, 40), tag=st.binary(min_size=4, max_size=4))
    def send(self, end, size, tag):
        frame = PayloadFrame(1, next=True, data=tag + b"x" * size).encode()
        self.logs[end].record(frame)
        self.sent[end].append(frame)
        self.wires[1 - end].append(frame)

    @rule(end=st.integers(0, 1), count=st.integers(1, 5))
    def arrive(self, end, count):
        for frame in self.wires[end][:count]:
            self.logs[end].count_received(frame)
            self.delivered[end].append(frame)
        del self.wires[end][:count]

    @rule(end=st.integers(0, 1))
    def keepalive(self, end):
        assert self.logs[1 - end].acknowledge(self.logs[end].received)

    @rule()
    def cut_and_resume(self):
        client, server = self.logs
        assert possible(
            server, last_received=client.received, first_available=client.first_retained
        )
        assert client.can_replay_from(server.received)
        server.acknowledge(client.received)
        client.acknowledge(server.received)
        self.wires[0][:] = server.replay()
        self.wires[1][:] = client.replay()

    @invariant()
    def frames_arrive_once_and_in_order(self):
        for end in (0, 1):
            assert self.delivered[end] + self.wires[end] == self.sent[1 - end]


TestTwoEnds = TwoEnds.TestCase
TestTwoEnds.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
