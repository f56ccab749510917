"""The frames that one end of a session keeps: when it asks the peer, and when payloads wait."""

from __future__ import annotations

import pytest

from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.retention import Retention
from rsocket_trio.frames import KeepaliveFrame, PayloadFrame, decode
from rsocket_trio.protocol.resume_log import FRAME_COST

LIMIT = 6400
ROOM = LIMIT // 64


def retained(limit: int = LIMIT, room: int = 10**6):
    """A `Retention`, its outbox, and the times that it woke the writer."""
    woken: list[None] = []
    retention = Retention(limit, lambda: woken.append(None))
    outbox = Outbox(room, 10**6, 10**9)
    retention.bind(outbox)
    return retention, outbox.room, woken


def record(retention: Retention, cost: int) -> None:
    """Retain frames that the log counts as ``cost`` bytes together."""
    while cost:
        each = cost if cost < 200 else 100
        data = b"x" * (each - FRAME_COST - 6)
        retention.record(PayloadFrame(1, next=True, data=data).encode())
        cost -= each


def asked(retention: Retention) -> KeepaliveFrame | None:
    """The KEEPALIVE that is sent now."""
    batch: list[bytes] = []
    retention.ask(batch)
    return decode(batch[0]) if batch else None


def answer(retention: Retention, question: KeepaliveFrame, position: int | None = None) -> None:
    at = retention.log.sent if position is None else position
    retention.confirmed(KeepaliveFrame(False, at, question.data))


@pytest.mark.parametrize(
    ("limit", "room", "expected"), [(LIMIT, 10**6, 100), (LIMIT, 50, 50), (63, 10**6, 1)]
)
async def test_the_room_is_a_part_of_the_log(limit, room, expected):
    """It is a 64th of the log, at least a byte, and not more than before."""
    assert retained(limit, room)[1].limit == expected


@pytest.mark.parametrize("rounds", [1, 2, 3])
async def test_a_quarter_of_the_log_is_asked_for(rounds):
    """The frames since the last question count, each with its cost, and none of them twice."""
    retention, room, _ = retained()
    retention.log.received = 7
    for _ in range(rounds - 1):
        record(retention, LIMIT // 4)
        question = asked(retention)
        assert question == KeepaliveFrame(True, 7, retention.log.sent.to_bytes(8, "big"))
        answer(retention, question)
    record(retention, LIMIT // 4 - 1)
    assert asked(retention) is None
    assert retention.asked_since is None
    assert room.limit == ROOM


@pytest.mark.parametrize("after", ["a start", "a new connection"])
async def test_one_question_at_a_time(after):
    """The next one waits for the answer; a new connection forgets the question, not the frames."""
    retention, _, _ = retained()
    record(retention, LIMIT // 4)
    first = asked(retention)
    record(retention, LIMIT // 4 - 1)
    assert asked(retention) is None
    if after == "a start":
        answer(retention, first)
        assert asked(retention) is None
        record(retention, 71)
        assert asked(retention).data == retention.log.sent.to_bytes(8, "big")
    else:
        retention.restart(0)
        assert asked(retention).data == retention.log.sent.to_bytes(8, "big")


async def test_a_new_connection_counts_the_retained_frames():
    """They are sent again, so they are asked for, unless the peer has said that it has them."""
    for size, expected in [(LIMIT // 4, True), (LIMIT // 4 - 1, False)]:
        retention, _, _ = retained()
        record(retention, LIMIT // 4 + 1000)
        answer(retention, asked(retention))
        assert retention.log.size == 0
        record(retention, size)
        retention.restart(0)
        assert (asked(retention) is not None) == expected
        retention.restart(retention.log.sent)
        assert asked(retention) is None


@pytest.mark.parametrize(("size", "expected"), [(LIMIT // 2 - 1, ROOM), (LIMIT // 2, 0)])
async def test_payloads_wait_while_half_of_the_log_is_full(size, expected):
    """The frames that leave until then fit into the other half."""
    retention, room, _ = retained()
    record(retention, size)
    assert asked(retention)
    assert room.limit == expected


async def test_payloads_go_on_below_half_of_the_log():
    """Frames behind the question may still fill half of it: then there is another question."""
    retention, room, woken = retained()
    record(retention, LIMIT // 4)
    question = asked(retention)
    position = retention.log.sent
    record(retention, LIMIT // 2)
    assert asked(retention) is None
    assert room.limit == 0
    retention.confirmed(KeepaliveFrame(False, 0, b""))
    assert not woken
    answer(retention, question, position)
    assert retention.log.size == LIMIT // 2
    assert (room.limit, len(woken)) == (0, 1)
    question = asked(retention)
    first = len(retention.log.replay()[0])
    retention.confirmed(KeepaliveFrame(False, position + first, b""))
    assert retention.log.size < LIMIT // 2
    assert (room.limit, len(woken)) == (ROOM, 1)
    answer(retention, question)
    assert (room.limit, len(woken)) == (ROOM, 1)


@pytest.mark.parametrize("missing", [0, 1])
async def test_an_answer_must_have_the_position(missing):
    """Payloads do not wait for a peer that answers a question and has not received the frames."""
    retention, room, _ = retained()
    record(retention, LIMIT // 2)
    answer(retention, asked(retention), retention.log.sent - missing)
    assert room.limit == ROOM
    record(retention, LIMIT // 2)
    asked(retention)
    assert room.limit == (ROOM if missing else 0)


async def test_only_the_answer_with_the_data_of_the_question_counts():
    """Other KEEPALIVEs confirm frames, and the question stays open."""
    retention, room, _ = retained()
    record(retention, LIMIT // 2)
    question = asked(retention)
    since = retention.asked_since
    for other in (KeepaliveFrame(True, 0, question.data), KeepaliveFrame(False, 0, b"other")):
        retention.confirmed(other)
        assert (retention.asked_since, room.limit) == (since, 0)


async def test_giving_up_lets_payloads_through():
    """The question is forgotten: the next one is sent, and nothing waits for its answer."""
    retention, room, _ = retained()
    record(retention, LIMIT // 2)
    assert asked(retention)
    retention.give_up()
    assert (retention.asked_since, room.limit) == (None, ROOM)
    assert asked(retention)
    assert room.limit == ROOM


async def test_a_new_connection_lets_payloads_through():
    """The peer has said that it has the frames; if it has not, there is another question."""
    retention, room, woken = retained()
    record(retention, LIMIT // 2)
    assert asked(retention)
    retention.restart(0)
    assert (room.limit, len(woken)) == (0, 1)
    assert asked(retention)
    retention.restart(retention.log.sent)
    assert (room.limit, len(woken)) == (ROOM, 1)


async def test_a_confirmation_while_payloads_leave_wakes_no_writer():
    """The writer asks with the frames that it is about to send."""
    retention, room, woken = retained()
    record(retention, LIMIT // 2)
    retention.confirmed(KeepaliveFrame(False, 0, b""))
    assert (room.limit, woken) == (ROOM, [])


async def test_without_an_outbox():
    """Until the engine begins there is none, and yet frames are retained and asked for."""
    retention = Retention(LIMIT, lambda: None)
    record(retention, LIMIT // 2)
    answer(retention, asked(retention))
    assert retention.log.size == 0


async def test_the_warning_comes_once(caplog):
    """The first frame that is dropped too early is logged, and no other."""
    retention, _, _ = retained()
    record(retention, LIMIT)
    assert not caplog.records
    for evicted in (1, 2, 3):
        record(retention, 100)
        assert retention.log.evicted == evicted
        (warning,) = caplog.records
    assert "the session may be lost" in warning.message
