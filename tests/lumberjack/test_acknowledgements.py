"""The task that writes ACKs: hand over, wait, backlog, a broken stream, the end."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionLost
from rsocket_trio.lumberjack.server.acknowledgements import AckWriter
from rsocket_trio.testing.leaks import assert_no_leaks


class Ends:
    """A writer on a stream that holds nothing before it is read."""

    def __init__(self, *, lockstep=True):
        pair = trio.testing.lockstep_stream_one_way_pair
        if not lockstep:
            pair = trio.testing.memory_stream_one_way_pair
        send, self.receive = pair()
        self.lost = []
        self.owes = self.gone = False
        self.writer = AckWriter(
            send,
            keepalive_interval=5,
            send_timeout=30,
            awaited=lambda: self.owes,
            wants_keepalive=lambda: self.owes,
            departed=lambda: self.gone,
            lost=self.lost.append,
        )

    async def wait(self, frames, outcomes):
        try:
            await self.writer.hand_over(frames).wait()
        except ConnectionLost as error:
            outcomes.append(str(error))
        else:
            outcomes.append(frames)


async def test_callers_wait_until_their_frames_have_left(autojump_clock):
    """Frames that are handed over during a write leave together with the next one, in order."""
    ends, outcomes = Ends(), []
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        nursery.start_soon(ends.writer.run)
        for frames in (b"a", b"b", b"c"):
            nursery.start_soon(ends.wait, frames, outcomes)
            await trio.testing.wait_all_tasks_blocked()
        assert await ends.receive.receive_some() == b"a"
        await trio.testing.wait_all_tasks_blocked()
        assert outcomes == [b"a"]
        assert await ends.receive.receive_some() == b"bc"
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(outcomes) == [b"a", b"b", b"c"]
        ends.writer.finish(1)
    with pytest.raises(ConnectionLost, match="is over"):
        ends.writer.hand_over(b"d")


async def test_finish_lets_frames_leave(autojump_clock):
    """Frames handed over before `finish` leave, if they leave in time."""
    for patience, left in ((10, True), (0.5, False)):
        ends, outcomes = Ends(), []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.writer.run)
            nursery.start_soon(ends.wait, b"a", outcomes)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ends.wait, b"b", outcomes)
            await trio.testing.wait_all_tasks_blocked()
            ends.writer.finish(patience)
            await trio.sleep(1)
            if left:
                assert await ends.receive.receive_some() == b"a"
                assert await ends.receive.receive_some() == b"b"
        if left:
            assert sorted(outcomes) == [b"a", b"b"]
        else:
            assert outcomes == ["the connection broke before the ACK had left"] * 2


async def test_the_writer_is_shielded(autojump_clock):
    """A cancellation does not stop it; `finish` does."""
    ends, outcomes = Ends(), []
    async with trio.open_nursery() as outer:
        outer.start_soon(ends.wait, b"a", outcomes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.writer.run)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
                assert await ends.receive.receive_some() == b"a"
                await trio.testing.wait_all_tasks_blocked()
            ends.writer.finish(0)
    assert outcomes == [b"a"]


async def test_a_broken_stream(autojump_clock):
    """All callers hear of it, and so does the connection, once."""
    ends, outcomes = Ends(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.writer.run)
        for frames in (b"a", b"b"):
            nursery.start_soon(ends.wait, frames, outcomes)
            await trio.testing.wait_all_tasks_blocked()
        await ends.receive.aclose()
    assert outcomes == ["the connection broke before the ACK had left"] * 2
    assert len(ends.lost) == 1


async def test_backlog(autojump_clock):
    """A sender that does not read 4 KiB of ACKs stops the handling of further batches."""
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.writer.run)
        await ends.writer.wait_backlog()
        ends.writer.hand_over(b"a")
        await trio.testing.wait_all_tasks_blocked()
        ends.writer.hand_over(b"b" * 4096)
        await ends.writer.wait_backlog()
        ends.writer.hand_over(b"b")
        with trio.move_on_after(1) as waited:
            await ends.writer.wait_backlog()
        assert waited.cancelled_caught
        await ends.receive.receive_some()
        nursery.start_soon(ends.writer.wait_backlog)
        await ends.receive.receive_some()
        ends.writer.finish(1)


async def test_arming(autojump_clock):
    """A keep-alive comes an interval after the arming, and stops when none is owed."""
    ends = Ends(lockstep=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.writer.run)
        await trio.sleep(100)
        ends.writer.arm()  # Nothing is owed.
        await trio.sleep(100)
        ends.owes = True
        ends.writer.arm()
        await trio.sleep(1)
        ends.writer.arm()
        assert await ends.receive.receive_some() == b"2A\0\0\0\0"
        assert trio.current_time() == pytest.approx(205)
        assert await ends.receive.receive_some() == b"2A\0\0\0\0"
        ends.owes = False
        with trio.move_on_after(100) as waited:
            await ends.receive.receive_some()
        assert waited.cancelled_caught
        ends.writer.finish(0)


async def test_a_sender_that_is_gone(autojump_clock):
    """It is noticed in place of a keep-alive, and the task ends."""
    ends = Ends()
    async with trio.open_nursery() as nursery:
        ends.owes = ends.gone = True
        nursery.start_soon(ends.writer.run)
    assert trio.current_time() == pytest.approx(5)
    assert ends.lost == ["it closed the connection"]
    with pytest.raises(ConnectionLost):
        ends.writer.hand_over(b"a")
