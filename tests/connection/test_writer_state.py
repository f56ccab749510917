"""The states of the writer, and the effect of each call to the outbox in each of them.

It checks the table of `rsocket_trio.connection.outbox`, and the drawing of
`rsocket_trio.connection.writer_state`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionLost
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.writer_state import State

PUTS = ["put", "put_reserved", "put_control", "put_urgent"]


class Scene:
    """An outbox whose writer is in some state.

    Attributes:
        marks: How often the loop was asked to flush.
        batches: What the writer has taken.
    """

    def __init__(self, *, flushed_by_loop=True):
        self.outbox = Outbox(100, 100, 10**9)
        self.marks = []
        self.batches = []
        if flushed_by_loop:
            self.outbox.writer.mark = lambda: self.marks.append(1)

    @asynccontextmanager
    async def at(self, state):
        async with trio.open_nursery() as nursery:
            if state in {State.ASLEEP, State.MARKED}:
                nursery.start_soon(self._write)
                await trio.testing.wait_all_tasks_blocked()
            if state is State.MARKED:
                self.outbox.put(b"before")
            if state is State.GONE:
                self.outbox.discard()
            assert self.state is state
            yield self.outbox
            nursery.cancel_scope.cancel()

    async def _write(self):
        self.batches.append(await self.outbox.take())

    @property
    def state(self):
        return self.outbox.writer.state

    def queued(self):
        return self.outbox._urgent + self.outbox._frames


@pytest.mark.parametrize("put", PUTS)
@pytest.mark.parametrize(
    ("state", "after"),
    [
        (State.AWAKE, State.AWAKE),
        (State.ASLEEP, State.MARKED),
        (State.MARKED, State.MARKED),
        (State.GONE, State.GONE),
    ],
)
async def test_put_queues_a_frame(put, state, after):
    """The frame is queued; a sleeping writer is marked once, and the loop called once."""
    scene = Scene()
    async with scene.at(state) as outbox:
        getattr(outbox, put)(b"frame")
        assert scene.state is after
        assert b"frame" in scene.queued()
        assert len(scene.marks) == (state in {State.ASLEEP, State.MARKED})
        assert not scene.batches


@pytest.mark.parametrize("put", PUTS)
async def test_put_where_the_loop_does_not_flush(put):
    """The writer is woken, and takes the frame."""
    scene = Scene(flushed_by_loop=False)
    async with scene.at(State.ASLEEP) as outbox:
        getattr(outbox, put)(b"frame")
        assert scene.state is State.AWAKE
        await trio.testing.wait_all_tasks_blocked()
        assert scene.batches == [[b"frame"]]


@pytest.mark.parametrize("waits", ["room", "idle"])
async def test_put_where_a_task_waits_for_the_writer(waits):
    """A flush would not wake a task that waits for room, or for an idle outbox."""
    scene = Scene()
    async with scene.at(State.ASLEEP) as outbox, trio.open_nursery() as nursery:
        if waits == "room":
            outbox.room.set_limit(0)
            nursery.start_soon(outbox.reserve, 1)
        else:
            outbox.writing = True  # as while a batch is on its way
            nursery.start_soon(outbox.wait_idle)
        await trio.testing.wait_all_tasks_blocked()
        outbox.put_control(b"frame")
        assert scene.state is State.AWAKE
        assert not scene.marks
        nursery.cancel_scope.cancel()


async def test_take_returns_all_frames():
    """An awake writer takes all frames; without any it sleeps until it is woken."""
    scene = Scene()
    async with scene.at(State.AWAKE) as outbox:
        outbox.put(b"one")
        outbox.put_urgent(b"zero")
        assert await outbox.take() == [b"zero", b"one"]
        assert scene.state is State.AWAKE
        assert outbox.writing
    async with scene.at(State.ASLEEP) as outbox:
        assert not outbox.writing


async def test_a_cancelled_writer_is_awake():
    """So later frames are queued for the next writer, and no writer is woken."""
    scene = Scene()
    async with scene.at(State.ASLEEP):
        pass
    assert scene.state is State.AWAKE
    scene.outbox.wake_writer()
    assert await scene.outbox.take() == []


@pytest.mark.parametrize("state", [State.AWAKE, State.GONE])
async def test_flush_where_the_writer_does_not_wait(state):
    """The writer sends the frames, if there is one."""
    scene = Scene()
    async with scene.at(state) as outbox:
        outbox.put(b"frame")
        assert outbox.flush(pytest.fail)
        assert scene.state is state
        assert scene.queued() == [b"frame"]


@pytest.mark.parametrize("state", [State.ASLEEP, State.MARKED])
@pytest.mark.parametrize("outcome", ["all", "some", "error"])
async def test_flush_sends_in_place_of_the_writer(state, outcome):
    """Queued frames are sent in the writer's place; it gets the rest, and errors."""
    scene = Scene()
    sent = []

    def send_nowait(frames):
        if outcome == "error":
            raise OSError("no")
        sent.extend(frames)
        return outcome == "all"

    async with scene.at(state) as outbox:
        queued = scene.queued()
        assert outbox.flush(send_nowait) is (outcome == "all")
        if outcome == "error":
            assert scene.state is state
            assert scene.queued() == queued
        else:
            assert sent == queued
            assert outbox.batches == 1
            assert not scene.queued()
            assert outbox.writing is (outcome == "some")
        if outcome == "all":
            assert scene.state is State.ASLEEP
            outbox.put(b"next")
            assert scene.state is State.MARKED
        else:
            outbox.wake_writer()
            assert scene.state is State.AWAKE
            await trio.testing.wait_all_tasks_blocked()
            assert scene.batches == [[] if outcome == "some" else queued]


@pytest.mark.parametrize("state", State)
async def test_wake_writer_in_each_state(state):
    """A waiting writer runs; an awake one looks once more; one that is gone stays so."""
    scene = Scene()
    async with scene.at(state) as outbox:
        queued = scene.queued()
        outbox.wake_writer()
        assert scene.state is (State.GONE if state is State.GONE else State.AWAKE)
        await trio.testing.wait_all_tasks_blocked()
        if state is State.AWAKE:
            assert await outbox.take() == []
        elif state is not State.GONE:
            assert scene.batches == [queued]


@pytest.mark.parametrize("state", State)
async def test_close_refuses_waiting_tasks(state):
    """Tasks that wait for room get the reason; there is no other change."""
    scene = Scene()
    async with scene.at(state) as outbox:
        queued = scene.queued()
        outbox.close(ConnectionLost("over"))
        assert scene.state is state
        assert scene.queued() == queued
        with pytest.raises(ConnectionLost, match="over"):
            await outbox.reserve(1)
        outbox.put_urgent(b"last words")
        assert b"last words" in scene.queued()


@pytest.mark.parametrize("state", [State.AWAKE, State.GONE])
async def test_discard_drops_the_queue(state):
    """Queued frames are dropped; the outbox is idle then, and the writer gone."""
    scene = Scene()
    async with scene.at(state) as outbox:
        outbox.put(b"one")
        outbox.put_urgent(b"zero")
        outbox.writing = True
        outbox.discard()
        assert scene.state is State.GONE
        assert not scene.queued()
        assert not outbox.writing
        await outbox.wait_idle()
