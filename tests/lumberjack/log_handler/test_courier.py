"""The sending side, in virtual time, with a shipper of the test's."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rsocket_trio.lumberjack import ShipError
from rsocket_trio.lumberjack.log_handler.buffer import Buffer
from rsocket_trio.lumberjack.log_handler.courier import Courier, Pace, Signals
from rsocket_trio.lumberjack.log_handler.drops import DropReports
from rsocket_trio.lumberjack.log_handler.handover import Handover
from rsocket_trio.testing import cancel_everywhere


class Scene:
    """A courier, and a shipper that keeps what it sends."""

    def __init__(self, **pace):
        self.called = []
        self.sent = []
        self.times = []
        self.opened = 0
        self.answer = None
        self.hold = None
        self.signals = Signals()
        self.handover = Handover(
            Buffer(1000, 10**9, drop_oldest=False),
            block_timeout=None,
            wake=self.signals.wake,
        )
        self.reports = DropReports("test", lambda text, counts: json.dumps([text]).encode())
        usual = {"linger": 1, "max_records": 10, "max_size": 10**9, "calls": 2}
        self.courier = self.new_courier(**usual | pace)

    def new_courier(self, **pace):
        self.pace = pace
        return Courier(self.handover, self.signals, self.connect, Pace(**pace), self.reports)

    @asynccontextmanager
    async def connect(self):
        self.opened += 1
        if self.opened == 1 and self.answer == "no connection":
            raise OSError("no connection")
        yield self
        await trio.lowlevel.checkpoint()

    async def send(self, events):
        self.called.append(list(events))  # A shipper keeps the order of its calls.
        await trio.lowlevel.checkpoint()
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(self.answer, Exception):
            answer, self.answer = self.answer, None
            raise answer
        self.sent.append(list(events))
        self.times.append(trio.current_time())

    def put(self, *numbers):
        for number in numbers:
            self.handover.put(b"%d" % number)

    @property
    def counts(self):
        found = self.handover.counts()
        assert found.offered == found.acknowledged + found.pending + sum(found.dropped.values())
        return found

    async def finish(self):
        self.handover.close()
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def running(**settings):
    scene = Scene(**settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.courier.run)
        yield scene
        scene.handover.close()


async def test_signals_let_other_tasks_run():
    """Also if there is nothing to wait for: many short calls must not keep the loop."""
    with trio.testing.assert_checkpoints():
        await Signals().wait(lambda: False)


async def test_events_linger(autojump_clock):
    async with running() as scene:
        begin = trio.current_time()
        await trio.sleep(5)
        scene.put(1)
        await trio.sleep(0.5)
        scene.put(2)
        await trio.sleep(5)
        scene.put(3)
        await trio.sleep(5)
    assert scene.sent == [[b"1", b"2"], [b"3"]]
    assert scene.times == [begin + 6, begin + 11.5]


async def test_a_full_batch_does_not_linger(autojump_clock):
    async with running(linger=60) as scene:
        begin = trio.current_time()
        scene.put(*range(25))
        await trio.sleep(1)
        assert [len(each) for each in scene.sent] == [10, 10]
        assert scene.times == [begin, begin]
        assert scene.counts.pending == 5
        await trio.sleep(60)
        assert [len(each) for each in scene.sent] == [10, 10, 5]


async def test_exactly_one_full_batch_does_not_linger(autojump_clock):
    async with running(linger=60) as scene:
        begin = trio.current_time()
        scene.put(*range(10))
        await trio.sleep(1)
        assert ([len(each) for each in scene.sent], scene.times) == ([10], [begin])


async def test_a_batch_has_a_size(autojump_clock):
    async with running(linger=60, max_size=130) as scene:
        scene.put(*range(5))
        await trio.sleep(0)
    assert [len(each) for each in scene.called] == [2, 2, 1]


async def test_so_many_calls_at_the_same_time(autojump_clock):
    """Events stay in the queue until a call is free, so that newer ones can replace them."""
    async with running(linger=0, max_records=1) as scene:
        scene.hold = trio.Event()
        scene.put(*range(5))
        await trio.sleep(1)
        assert (scene.counts.pending, scene.counts.waiting) == (5, 3)
        scene.hold.set()
        await trio.sleep(1)
        assert scene.counts.acknowledged == 5
    assert scene.called == [[b"%d" % number] for number in range(5)]


async def test_the_end_sends_what_waits(autojump_clock):
    async with running(linger=60) as scene:
        scene.put(1, 2)
        await trio.sleep(1)
        begin = trio.current_time()
    assert trio.current_time() == begin
    assert scene.sent == [[b"1", b"2"]]


async def test_attempts_that_are_used_up(autojump_clock):
    """What is acknowledged counts so, the rest is dropped, and later events are sent."""
    async with running(linger=0) as scene:
        scene.answer = ShipError("gave up", 2)
        scene.put(1, 2, 3)
        await trio.sleep(0.5)
        assert (scene.counts.acknowledged, scene.counts.dropped) == (2, {"undeliverable": 1})
        scene.put(4)
        await trio.sleep(0.4)
        assert scene.sent == [[b"4"]]


async def test_an_error_of_a_call(autojump_clock, capsys):
    async with running(linger=0) as scene:
        scene.answer = KeyError("a fault")
        scene.put(1)
        await trio.sleep(0.5)
        scene.put(2)
        await trio.sleep(0.4)
        assert scene.counts.dropped == {"undeliverable": 1}
        assert scene.sent == [[b"2"]]
    assert "cannot send 1 log records: KeyError('a fault')" in capsys.readouterr().err


async def test_a_shipper_that_ends_loses_nothing(autojump_clock):
    """Its calls fail with the reason that it is closed: the events are sent again."""
    async with running(linger=0) as scene:
        ended = ShipError("the block has ended", 1)
        ended.__cause__ = trio.ClosedResourceError()
        scene.answer = ended
        scene.put(1, 2, 3)
        await trio.sleep(0.9)
        assert (scene.opened, scene.counts.waiting) == (1, 2)
        await trio.sleep(0.2)
        assert (scene.opened, scene.sent) == (2, [[b"2", b"3"]])
        assert scene.counts.acknowledged == 3


async def test_a_shipper_that_is_over_is_replaced(autojump_clock):
    """It would refuse each further call, too."""
    async with running(linger=0) as scene:
        scene.answer = trio.ClosedResourceError()
        scene.put(1, 2)
        await trio.sleep(0.9)
        assert (scene.opened, scene.sent, scene.counts.waiting) == (1, [], 2)
        await trio.sleep(0.2)
        assert (scene.opened, scene.sent) == (2, [[b"1", b"2"]])


async def test_a_shipper_that_cannot_be_opened(autojump_clock, capsys):
    scene = Scene(linger=0)
    scene.answer = "no connection"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.courier.run)
        scene.put(1)
        await trio.sleep(0.9)
        assert not scene.sent
        await trio.sleep(0.2)
        assert scene.sent == [[b"1"]]
        scene.handover.close()
    assert "OSError('no connection'); the next attempt is in 1 s" in capsys.readouterr().err


async def test_drops_are_reported_once_in_each_interval(autojump_clock, capsys):
    async with running(linger=0) as scene:
        buffer = scene.handover._buffer
        await trio.sleep(3)
        for number in range(600):
            for _ in range(number % 2):
                buffer.drop("full")
            scene.handover.drop("full")
            await trio.sleep(0.1)
        notices = [json.loads(event)[0] for each in scene.sent for event in each]
        assert scene.times[0] == pytest.approx(4, abs=0.11)
        assert len(notices) == 6
    notices = [json.loads(event)[0] for each in scene.sent for event in each]
    assert sum(int(text.split()[0]) for text in notices) == 900
    assert len(capsys.readouterr().err.splitlines()) == 7
    assert scene.counts.dropped == {"full": 900}


async def test_a_notice_that_is_lost_comes_later(autojump_clock):
    async with running(linger=0) as scene:
        scene.answer = ShipError("gave up", 0)
        scene.handover.drop("full")
        await trio.sleep(2)
        scene.put(1)
        await trio.sleep(1)
        assert scene.sent == [[b"1", b'["1 log records were dropped (full 1)"]']]


async def test_nothing_runs_while_nothing_happens(autojump_clock):
    """An idle handler does not wake the processor."""
    steps = []

    class Count(trio.abc.Instrument):
        def task_scheduled(self, task):
            if "Courier" in task.name:
                steps.append(task.name)

    async with running() as scene:
        await trio.testing.wait_all_tasks_blocked()
        steps.clear()
        count = Count()
        trio.lowlevel.add_instrument(count)
        await trio.sleep(100_000)
        trio.lowlevel.remove_instrument(count)
        assert not steps
        assert scene.opened == 1


@pytest.mark.parametrize("every_task", [False, True])
async def test_cancelled_at_every_step(autojump_clock, every_task):
    """No event is lost or counted twice: those that were taken wait again."""
    scene = Scene()
    number = 0
    usual = dict(scene.pace)

    async def ship():
        nonlocal number
        scene.put(*range(number, number + 15))
        number += 15
        courier = scene.new_courier(**usual)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(courier.run)
            await trio.sleep(3)
            nursery.cancel_scope.cancel()

    async def check():
        counts = scene.counts
        assert counts.waiting == counts.pending
        assert counts.acknowledged == sum(map(len, scene.sent))
        assert not counts.dropped

    assert await cancel_everywhere(ship, check, every_task=every_task) > 1
    sent = [int(event) for each in scene.sent for event in each]
    assert sorted(sent) == sorted(set(sent))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.new_courier(**usual).run)
        scene.handover.close()
    sent = [int(event) for each in scene.sent for event in each]
    assert sorted(sent) == list(range(number))
