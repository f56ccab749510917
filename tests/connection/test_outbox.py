"""The outbox: order, room, fairness, and its end."""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import ConnectionLost
from rsocket_trio.connection.outbox import Outbox


def error():
    failure = ConnectionLost("gone")
    failure.__cause__ = OSError("cable")
    return failure


async def test_urgent_frames_go_first():
    """Frames of stream 0 overtake; all others leave in the order they were put, control or not."""
    outbox = Outbox(100, 100, 10**9)
    outbox.put(b"one")
    outbox.put_control(b"two")
    outbox.put_urgent(b"zero")
    await outbox.reserve(5)
    outbox.put_reserved(b"three")
    outbox.put_urgent(b"null")
    assert (outbox.room.used, outbox.control_size) == (8, 11)
    assert await outbox.take() == [b"zero", b"null", b"one", b"two", b"three"]
    assert (outbox.room.used, outbox.control_size, outbox.batches) == (0, 0, 1)


async def test_the_writer_is_woken():
    """A writer that waits gets the frame at once, and an empty batch on a bare wake-up."""
    outbox = Outbox(100, 100, 10**9)
    taken = []

    async def write():
        while True:
            taken.append(await outbox.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        for put in (outbox.put, outbox.put_control, outbox.put_urgent, outbox.put_reserved):
            put(b"frame")
            await trio.testing.wait_all_tasks_blocked()
        outbox.wake_writer()
        await trio.testing.wait_all_tasks_blocked()
        assert taken == [[b"frame"]] * 4 + [[]]
        nursery.cancel_scope.cancel()
    outbox.put(b"late")  # A cancelled writer is not woken again.
    assert await outbox.take() == [b"late"]


async def producer(outbox, name, size, log):
    await outbox.reserve(size)
    log.append(name)
    outbox.put_reserved(b"x" * size)


async def test_room_is_handed_out_in_order():
    """Producers that wait for room are served in order, within the limit."""
    outbox = Outbox(10, 100, 10**9)
    log = []
    outbox.put(b"x" * 10)
    async with trio.open_nursery() as nursery:
        for name in range(6):
            nursery.start_soon(producer, outbox, name, 6, log)
            await trio.testing.wait_all_tasks_blocked()
        assert log == []
        for expected in ([0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5]):
            await outbox.take()
            assert outbox.room.used == 12
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(log) == expected


async def test_a_cancelled_waiter_takes_no_room():
    """A waiter that gives up is forgotten, and those behind it move up."""
    outbox = Outbox(10, 100, 10**9)
    log = []
    outbox.put(b"x" * 10)
    scope = trio.CancelScope()

    async def give_up():
        with scope:
            await producer(outbox, "never", 10, log)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(producer, outbox, "next", 10, log)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        await outbox.take()
    assert log == ["next"]
    assert outbox.room.used == 10


async def test_returned_room_goes_to_the_next_producer():
    """Reserved room that is not used does not get lost."""
    outbox = Outbox(10, 100, 10**9)
    log = []
    await outbox.reserve(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(producer, outbox, "next", 10, log)
        await trio.testing.wait_all_tasks_blocked()
        assert log == []
        outbox.release(10)
    assert log == ["next"]
    assert outbox.room.used == 10


async def test_assigned_room_is_counted_after_a_quick_batch():
    """A writer that takes again before a woken producer has run does not forget its room."""
    outbox = Outbox(10, 100, 10**9)
    log = []
    outbox.put(b"x" * 10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(producer, outbox, "a", 10, log)
        await trio.testing.wait_all_tasks_blocked()
        await outbox.take()
        outbox.put_control(b"!")
        await outbox.take()
        assert log == []
        assert outbox.room.used == 10
    assert outbox.room.used == 10
    assert await outbox.take() == [b"x" * 10]
    assert outbox.room.used == 0


async def test_an_empty_outbox_is_idle():
    """It is idle once the writer has come back and found no frame."""
    outbox = Outbox(10, 100, 10**9)
    outbox.put(b"x")
    steps = []

    async def wait():
        await outbox.wait_idle()
        steps.append("idle")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await outbox.take()
        await trio.testing.wait_all_tasks_blocked()
        assert steps == []
        assert outbox.writing
        nursery.start_soon(outbox.take)
        await trio.testing.wait_all_tasks_blocked()
        assert steps == ["idle"]
        nursery.cancel_scope.cancel()
    with trio.CancelScope() as scope:
        outbox.put(b"x")
        scope.cancel()
        await outbox.wait_idle()
    assert scope.cancelled_caught
    with trio.move_on_after(0):
        await outbox.wait_idle()
    assert await outbox.take() == [b"x"]


async def test_a_clogged_outbox():
    """It is clogged while the waiting control bytes exceed their limit, and not once they leave."""
    outbox = Outbox(10, 3, 10**9)
    outbox.put_control(b"123")
    assert not outbox.clogged
    await outbox.wait_unclogged()
    outbox.put_urgent(b"4")
    assert outbox.clogged
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.wait_unclogged)
        await trio.testing.wait_all_tasks_blocked()
        assert len(await outbox.take()) == 2
    assert not outbox.clogged


async def test_a_cancelled_watcher_of_a_clogged_outbox():
    """Cancelling it changes nothing."""
    outbox = Outbox(10, 1, 10**9)
    outbox.put_control(b"12")
    with trio.move_on_after(0) as scope:
        await outbox.wait_unclogged()
    assert scope.cancelled_caught
    assert await outbox.take() == [b"12"]


async def test_a_closed_outbox_refuses_producers():
    """Producers that wait for room get the reason, each its own; queued frames still leave."""
    outbox = Outbox(10, 100, 10**9)
    outbox.put(b"x" * 10)
    failure = error()
    caught = []

    async def wait():
        try:
            await outbox.reserve(1)
        except ConnectionLost as reason:
            caught.append(reason)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        outbox.close(failure)
        outbox.room.fail_waiting(1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(caught) == 1  # one task, as the call says
        outbox.room.fail_waiting()
    await wait()
    assert len({id(reason) for reason in [failure, *caught]}) == 4
    assert all(reason.__cause__ is failure.__cause__ for reason in caught)
    outbox.put_urgent(b"last words")
    assert await outbox.take() == [b"last words", b"x" * 10]


async def test_a_broken_outbox_is_idle():
    """When no frame can be sent any more, no task waits for it, with later frames or without."""
    outbox = Outbox(10, 100, 10**9)
    outbox.put(b"x")
    await outbox.take()
    outbox.put(b"y")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.wait_idle)
        await trio.testing.wait_all_tasks_blocked()
        outbox.close(error())
        outbox.discard()
    outbox.put_urgent(b"z")
    with trio.fail_after(30):
        await outbox.wait_idle()


@given(
    sizes=st.lists(st.integers(1, 30), max_size=12),
    quits=st.sets(st.integers(0, 11)),
    drops=st.sets(st.integers(0, 11)),
)
def test_room_is_never_lost(sizes, quits, drops):
    """Producers come, give up and return room: in the end there is room, and all were served."""
    limit = 20

    async def run():
        outbox = Outbox(limit, 100, 10**9)
        served = []

        async def produce(number, size, scope):
            with scope:
                await outbox.reserve(size)
                assert outbox.room.used < limit + 30
                if number in drops:
                    outbox.release(size)
                else:
                    outbox.put_reserved(b"x" * size)
                served.append(number)

        async with trio.open_nursery() as nursery:
            scopes = [trio.CancelScope() for _ in sizes]
            for number, size in enumerate(sizes):
                nursery.start_soon(produce, number, size, scopes[number])
            await trio.testing.wait_all_tasks_blocked()
            for number in quits & set(range(len(sizes))):
                scopes[number].cancel()
            for _ in sizes:
                outbox.wake_writer()
                await outbox.take()
                await trio.testing.wait_all_tasks_blocked()
        outbox.wake_writer()
        await outbox.take()
        assert outbox.room.used == 0
        assert set(range(len(sizes))) - quits <= set(served)

    trio.run(run)


def test_more_control_frames_than_the_limit_clog_it():
    """The limit itself may be reached; with one more byte, no new answer is made."""
    outbox = Outbox(100, 10, 10**9)
    outbox.put_control(bytes(5))
    outbox.put_urgent(bytes(5))
    assert not outbox.clogged
    outbox.put_control(bytes(1))
    assert outbox.clogged


def test_an_overrun_is_told_with_the_first_frame_behind_the_limit():
    """One frame of any size may exceed it, so the frames before count; it is told once."""
    outbox = Outbox(100, 10, 10)
    told = []
    outbox.on_overrun = told.append
    for size in (10, 90, 1, 1):
        outbox.put_control(bytes(size))
    assert told == [100]
