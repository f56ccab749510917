"""The transport that outlives connections, by itself.

Modules of rsocket_trio.connection: resumable_link, session_frames, link_watch.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.connection.link_watch import watch_link
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.resumable_link import ResumableLink
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, KeepaliveFrame, PayloadFrame, decode
from rsocket_trio.transports.base import FrameTransport, TransportInfo
from rsocket_trio.transports.memory import memory_transport_pair

LIFETIME = 30.0


def frame(number: int, size: int = 0) -> bytes:
    return PayloadFrame(1, next=True, data=b"%d" % number + b"x" * size).encode()


def new_link(limit: int = 10**6, interval: float | None = None, max_bytes: int = 10**6):
    """A link on one end of a pair, and the other end."""
    near, far = memory_transport_pair(max_bytes=max_bytes)
    link = ResumableLink(near, limit, interval=interval, max_lifetime=LIFETIME)
    link.attach(near)
    return link, far


async def attach(link, **arguments):
    near, far = memory_transport_pair()
    return link.attach(near, **arguments), far


async def test_a_session_that_is_over_takes_no_transport():
    """It sends and receives nothing either."""
    link, _ = new_link()
    await link.aclose()
    link.fail("another reason")
    attachment, _ = await attach(link)
    assert attachment.lost.is_set()
    for operation in (link.send_frames([frame(1)]), link.receive_frames(), link.wait_attached()):
        with pytest.raises(trio.BrokenResourceError, match="closed here"):
            await operation


async def test_late_frames_of_an_old_transport_are_dropped(autojump_clock):
    """The position told to the peer excludes them, so the peer sends them again."""
    link, far = new_link()
    received = []

    async def receive():
        received.extend(await link.receive_frames())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        await far.send_frames([frame(1)])  # wakes the receiver, which has not run yet
        _, new = await attach(link)
        assert link.log.received == 0
        await new.send_frames([frame(2)])
    assert received == [frame(2)]
    assert link.log.received == len(frame(2))


async def test_frames_behind_a_resume_belong_to_its_transport(monkeypatch, autojump_clock):
    """Two RESUMEs come in one turn, with frames behind each: the second's are received."""
    link, _ = new_link()
    await attach(link, received=[frame(1)])
    wait_attached = link.wait_attached
    near, _ = memory_transport_pair()

    async def wait_and_lose():
        """Another task attaches before this one goes on, as it may at any checkpoint."""
        attachment = await wait_attached()
        if link.info is not near.info:
            link.attach(near, received=[frame(2)])
        return attachment

    monkeypatch.setattr(link, "wait_attached", wait_and_lose)
    with trio.fail_after(1):
        assert await link.receive_frames() == [frame(2)]
    assert link.log.received == len(frame(2))


async def test_malformed_frames_reach_the_reader():
    """They pass the link uncounted, and the engine judges them."""
    link, far = new_link()
    junk = [b"", b"abc", bytes([0, 0, 0, 0, 0x0C, 0]), bytes([0, 0, 0, 9, 0x0C, 0]) + bytes(8)]
    await far.send_frames(junk)
    assert await link.receive_frames() == junk
    assert link.log.received == 0
    assert not link.closing


async def test_errors_of_other_codes_do_not_end_a_session():
    """Codes without a meaning on stream 0 have no effect."""
    link, far = new_link()
    await far.send_frames([ErrorFrame(0, 0x201).encode()])
    await link.receive_frames()
    assert not link.closing
    await far.send_frames([ErrorFrame(0, ErrorCode.CONNECTION_CLOSE).encode()])
    await link.receive_frames()
    assert link.closing
    await far.aclose()
    assert await link.receive_frames() == []


async def test_keepalives_have_the_current_position():
    """R-RESUME-03: each KEEPALIVE leaves with the position of that moment."""
    link, far = new_link()
    await far.send_frames([frame(1)])
    await link.receive_frames()
    await link.send_frames([KeepaliveFrame(False, 0, b"data").encode()])
    (sent,) = await far.receive_frames()
    assert decode(sent) == KeepaliveFrame(False, len(frame(1)), b"data")


async def test_a_peer_that_does_not_read_loses_its_transport(autojump_clock):
    """R-KEEP-06: a send that is stuck for the max lifetime drops the transport, not the session."""
    link, far = new_link(max_bytes=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_link, link)
        nursery.start_soon(link.send_frames, [frame(1), frame(2)])

        async def stay_alive():
            while True:
                await trio.sleep(10)
                await far.send_frames([KeepaliveFrame(False).encode()])

        async def receive():
            while True:
                await link.receive_frames()

        nursery.start_soon(stay_alive)
        nursery.start_soon(receive)
        attachment = await link.wait_attached()
        with trio.fail_after(2 * LIFETIME):
            await attachment.lost.wait()
        assert link.failure is None
        nursery.cancel_scope.cancel()


async def test_a_client_sends_keepalives_on_each_transport(autojump_clock):
    """R-KEEP-01: one per interval, by the engine's writer, anew on each transport."""
    link, far = new_link(interval=10)
    outbox = Outbox(10**6, 10**6, 10**9)
    link.wake_writer = outbox.wake_writer

    async def write():
        while True:
            await link.send_frames(await outbox.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_link, link)
        nursery.start_soon(write)
        for _ in range(2):
            before = trio.current_time()
            (sent,) = await far.receive_frames()
            assert decode(sent) == KeepaliveFrame(True)
            assert trio.current_time() - before == pytest.approx(10)
            _, far = await attach(link)
        nursery.cancel_scope.cancel()


async def test_payloads_wait_for_the_confirmation(autojump_clock):
    """With half a log of unconfirmed frames the outbox closes; a confirmation opens it."""
    link, far = new_link(limit=10_000)
    outbox = Outbox(10**6, 10**6, 10**9)
    link.retention.bind(outbox)
    room = outbox.room.limit
    assert 0 < room <= 10_000 // 64
    await link.send_frames([frame(n, 900) for n in range(8)])
    assert outbox.room.limit == 0
    question = decode((await far.receive_frames())[-1])
    assert question.respond
    # Another KEEPALIVE is no answer, and it does not confirm enough.
    await far.send_frames([KeepaliveFrame(False, len(frame(0, 900)), b"").encode()])
    await link.receive_frames()
    assert outbox.room.limit == 0
    await far.send_frames([KeepaliveFrame(False, link.log.sent, question.data).encode()])
    await link.receive_frames()
    assert outbox.room.limit == room
    assert link.log.size == 0


async def test_the_keepalive_is_sent_again_on_a_new_connection(autojump_clock):
    """The pending KEEPALIVE is forgotten with the connection; the retained frames are not."""
    link, _far = new_link(limit=10_000)
    outbox = Outbox(10**6, 10**6, 10**9)
    link.retention.bind(outbox)
    sent = [frame(n, 900) for n in range(6)]
    await link.send_frames(sent)
    _, new = await attach(link)
    assert outbox.room.limit == 0
    await link.send_frames([])
    *again, question = await new.receive_frames()
    assert again == sent
    await new.send_frames([KeepaliveFrame(False, link.log.sent, decode(question).data).encode()])
    await link.receive_frames()
    assert outbox.room.limit


@pytest.mark.parametrize("answers", [True, False])
async def test_a_peer_that_confirms_nothing_is_not_waited_for(answers, autojump_clock):
    """It answers without a position, or not at all: the session goes on, with less safety."""
    link, far = new_link(limit=10_000)
    outbox = Outbox(10**6, 10**6, 10**9)
    link.retention.bind(outbox)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_link, link)
        await link.send_frames([frame(n, 900) for n in range(6)])
        question = decode((await far.receive_frames())[-1])
        assert outbox.room.limit == 0
        if answers:
            await far.send_frames([KeepaliveFrame(False, 0, question.data).encode()])
            await link.receive_frames()
        else:
            for _ in range(7):
                await trio.sleep(LIFETIME / 3)
                await far.send_frames([frame(0)])
                await link.receive_frames()
        assert outbox.room.limit
        await link.send_frames([frame(n, 900) for n in range(20)])
        assert outbox.room.limit
        assert link.log.evicted
        assert link.log.size <= link.log.limit
        nursery.cancel_scope.cancel()


async def test_closing_sends_connection_close_once():
    """CONNECTION_CLOSE is sent unless an end was announced already."""
    link, far = new_link()
    assert await link.close_sending()
    assert [decode(each) for each in await far.receive_frames()] == [
        ErrorFrame(0, ErrorCode.CONNECTION_CLOSE)
    ]
    link, far = new_link()
    await link.send_frames([ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"you").encode()])
    assert await link.close_sending()
    assert len(await far.receive_frames()) == 1


class Immediate(FrameTransport):
    """Sends without waiting, as far as there is room; fails if it is broken."""

    sends_nowait = True

    def __init__(self, room: int = 10**9) -> None:
        self.info = TransportInfo(scheme="memory")
        self.room = room
        self.sent: list[bytes] = []
        self.rest: list[bytes] = []
        self.broken = False

    def send_frames_nowait(self, frames):
        if self.broken:
            raise ValueError("internal")
        self.sent += frames[: self.room]
        self.rest = frames[self.room :]
        return not self.rest

    async def send_frames(self, frames):
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise trio.BrokenResourceError("broken")
        self.sent += self.rest + frames
        self.rest = []

    async def receive_frames(self):
        raise NotImplementedError

    async def aclose(self):
        raise NotImplementedError


async def test_sending_without_waiting():
    """It works once sending has begun, on a transport that can; sent frames are retained."""
    near = Immediate(room=1)
    link = ResumableLink(near, 10**6, interval=None, max_lifetime=LIFETIME)
    assert link.sends_nowait
    with pytest.raises(trio.WouldBlock):
        link.send_frames_nowait([frame(1)])
    link.attach(near, first=[b"first"])
    with pytest.raises(trio.WouldBlock):
        link.send_frames_nowait([frame(1)])
    await link.send_frames([frame(1)])
    assert near.sent == [b"first", frame(1)]
    assert link.send_frames_nowait([frame(2)])
    assert not link.send_frames_nowait([frame(3), frame(4)])
    await link.send_frames([frame(5)])
    assert near.sent == [b"first", *(frame(number) for number in range(1, 6))]
    assert list(link.log.replay()) == near.sent[1:]
    # The next transport cannot: the link was asked before about the first one.
    _, far = await attach(link)
    await link.send_frames([])
    with pytest.raises(trio.WouldBlock):
        link.send_frames_nowait([frame(6)])
    assert await far.receive_frames() == near.sent[1:]
    assert link.log.sent == sum(map(len, near.sent[1:]))


async def test_a_transport_that_breaks_without_waiting():
    """The frames it did not take are retained once; `send_frames` finds the break, and drops it."""
    near = Immediate()
    link = ResumableLink(near, 10**6, interval=None, max_lifetime=LIFETIME)
    attachment = link.attach(near)
    await link.send_frames([])
    near.broken = True
    assert not link.send_frames_nowait([frame(1)])
    assert link.attachment is attachment
    await link.send_frames([])
    assert link.attachment is None
    assert attachment.lost.is_set()
    _, far = await attach(link)
    await link.send_frames([frame(2)])
    assert await far.receive_frames() == [frame(1), frame(2)]


@pytest.mark.parametrize("attempt", range(5))  # trio runs ready tasks in any order.
async def test_a_loop_that_stood_still_loses_no_transport(attempt, mock_clock):
    """R-KEEP-06: frames that have arrived meanwhile are read before a peer is called dead."""
    link, far = new_link()
    async with trio.open_nursery() as nursery:

        async def receive():
            while True:
                await link.receive_frames()

        nursery.start_soon(receive)
        nursery.start_soon(watch_link, link)
        attachment = await link.wait_attached()
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked()
            await far.send_frames([KeepaliveFrame(False).encode()])
            mock_clock.jump(2 * LIFETIME)  # as a handler that computes would do
        await trio.testing.wait_all_tasks_blocked()
        assert not attachment.lost.is_set()
        nursery.cancel_scope.cancel()


async def test_a_question_that_a_dead_connection_has_not_answered(autojump_clock):
    """Payloads still wait for its answer: it is asked again on the next connection."""
    link, _ = new_link(limit=10_000)
    outbox = Outbox(10**6, 10**6, 10**9)
    link.retention.bind(outbox)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_link, link)
        await link.send_frames([frame(n, 900) for n in range(6)])
        attachment = await link.wait_attached()
        await attachment.lost.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert outbox.room.limit == 0
        nursery.cancel_scope.cancel()
