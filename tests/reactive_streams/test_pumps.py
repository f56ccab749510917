"""`from_async_iterable`, `from_channel` and `stream_publisher`: a task for each subscription.

They are in `rsocket_trio.reactive_streams.pumps` and `bridges`.
"""

from __future__ import annotations

import gc
import weakref
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from rsocket_trio import Payload
from rsocket_trio.errors import StreamError
from rsocket_trio.reactive_streams import (
    MAX_DEMAND,
    AlreadySubscribed,
    SourceClosed,
    collect,
    from_async_iterable,
    from_channel,
    stream_publisher,
)
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.peer import KnownAnswers
from tests.reactive_streams.recording import Failing, Recorder


class Source:
    """An async generator function that notes what happens to its generators."""

    def __init__(self, n=3, error=None, clean_up=None):
        self.n = n
        self.error = error
        self.clean_up = clean_up
        self.taken = []
        self.opened = self.closed = 0

    async def __call__(self):
        self.opened += 1
        task = trio.lowlevel.current_task()
        try:
            for number in range(self.n):
                await trio.lowlevel.checkpoint()
                self.taken.append(number)
                yield number
            if self.error is not None:
                raise self.error
        finally:
            assert trio.lowlevel.current_task() is task
            self.closed += 1
            if self.clean_up is not None:
                raise self.clean_up


def subscribed(publisher, first=0, more=0):
    recorder = Recorder(first, more)
    publisher.subscribe(recorder)
    return recorder


async def test_it_takes_what_is_requested():
    source = Source()
    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(source, nursery))
        await wait_all_tasks_blocked()
        assert (recorder.signals, source.taken) == (["subscribe"], [])
        for n, elements in ((1, [0]), (2, [0, 1, 2])):
            recorder.request(n)
            await wait_all_tasks_blocked()
            assert recorder.elements == source.taken == elements
        assert recorder.terminals == []
        recorder.request(1)
    assert recorder.terminals == ["complete"]
    assert source.closed == 1


async def test_each_subscriber_has_an_iteration():
    source = Source()
    async with trio.open_nursery() as nursery:
        publisher = from_async_iterable(source, nursery)
        assert await collect(publisher) == await collect(publisher) == [0, 1, 2]
        generator = from_async_iterable(source(), nursery)
        assert await collect(generator) == [0, 1, 2]
        with pytest.raises(AlreadySubscribed):
            await collect(generator)


async def test_cancel_ends_the_task_and_closes_the_source():
    source = Source(10)
    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(source, nursery), 2)
        await wait_all_tasks_blocked()
        recorder.cancel()
    assert source.closed == 1
    assert recorder.signals == ["subscribe", 0, 1]


async def test_cancel_in_on_next():
    class Once(Recorder):
        def on_next(self, element):
            super().on_next(element)
            self.cancel()

    source = Source(10)
    async with trio.open_nursery() as nursery:
        from_async_iterable(source, nursery).subscribe(once := Once(5))
    assert once.signals == ["subscribe", 0]
    assert source.taken == [0]
    assert source.closed == 1


async def test_cancel_before_the_task_has_begun():
    source = Source()
    async with trio.open_nursery() as nursery:
        subscribed(from_async_iterable(source, nursery), 2).cancel()
    assert source.opened == source.closed


@pytest.mark.parametrize("end", ["cancel", "limit", "nursery"])
async def test_a_generator_with_a_nursery_around_its_yield(end):
    """If it is closed early, the nursery in it makes a group, which does not reach ours."""

    async def source():
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            yield 1
            yield 2

    async with trio.open_nursery() as nursery:
        publisher = from_async_iterable(source, nursery)
        if end == "limit":
            assert await collect(publisher, limit=1) == [1]
        else:
            recorder = subscribed(publisher, 1)
            await wait_all_tasks_blocked()
            (nursery.cancel_scope if end == "nursery" else recorder).cancel()
    assert not nursery.child_tasks


@pytest.mark.parametrize(
    "make",
    [
        lambda nursery: from_async_iterable(Source(1, KeyError("x")), nursery),
        lambda nursery: from_async_iterable(lambda: {}["x"], nursery),
        lambda nursery: from_async_iterable(Source(1, ExceptionGroup("", [KeyError()])), nursery),
        lambda nursery: from_async_iterable(Source(1, None, KeyError("x")), nursery),
    ],
    ids=["later", "at once", "group", "clean-up"],
)
async def test_the_error_of_the_source_is_a_signal(make):
    async with trio.open_nursery() as nursery:
        recorder = subscribed(make(nursery), 5)
    assert [type(each) for each in recorder.terminals] == [KeyError]


async def test_none_is_no_element():
    async def source():
        yield 1
        yield None

    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(source, nursery), 5)
    assert recorder.elements == [1]
    assert isinstance(recorder.terminals[0], TypeError)


@pytest.mark.parametrize("demand", [0, 5])
async def test_a_cancelled_nursery_is_an_error(demand):
    """Rule 1.4: the subscriber is told, in the same turn."""

    async def source():
        yield 1
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(source, nursery), demand)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [type(each) for each in recorder.terminals] == [SourceClosed]
    recorder.request(1)
    late = subscribed(from_async_iterable(source, nursery))
    assert late.signals[0] == "subscribe"
    assert isinstance(late.signals[1], SourceClosed)


async def test_a_source_that_fails_as_its_nursery_is_cancelled(caplog):
    async def source():
        try:
            yield 1
            async with trio.open_nursery():
                await trio.sleep_forever()
        finally:
            raise KeyError("x")

    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(source, nursery), 2)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(recorder.terminals) == 1


def test_outside_of_trio():
    nurseries = []

    async def main():
        async with trio.open_nursery() as nursery:
            nurseries.append(nursery)

    trio.run(main)
    recorder = subscribed(from_async_iterable(Source(), nurseries[0]))
    assert isinstance(recorder.terminals[0], SourceClosed)


@pytest.mark.parametrize("name", ["on_subscribe", "on_next", "on_complete", "on_error"])
async def test_a_hostile_subscriber_harms_nobody(name, caplog):
    source = Source(3, KeyError() if name == "on_error" else None)
    async with trio.open_nursery() as nursery:
        publisher = from_async_iterable(source, nursery)
        publisher.subscribe(hostile := Failing(name))
        other = subscribed(publisher, 9)
    assert len(other.terminals) == 1
    assert other.elements == [0, 1, 2]
    assert source.opened == source.closed
    assert len(hostile.elements) == {"on_subscribe": 0, "on_next": 1}.get(name, 3)
    assert name in caplog.text


async def test_references_go():
    """Rule 3.13."""
    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(Source(), nursery), 1)
        await wait_all_tasks_blocked()
        subscription = recorder.subscription
        recorder.cancel()
        gone = weakref.ref(recorder)
        del recorder
        await wait_all_tasks_blocked()  # until the task has seen its cancellation
        gc.collect()
        assert gone() is None
        subscription.cancel()


async def test_other_tasks_run_beside_a_source_without_checkpoints():
    async def source():
        number = 0
        while True:
            yield (number := number + 1)

    turns = 0
    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(source, nursery), MAX_DEMAND)
        while len(recorder.elements) < 64 * 20:
            turns += 1
            await trio.lowlevel.checkpoint()
        recorder.cancel()
    assert turns > 15


async def test_a_channel():
    send, receive = trio.open_memory_channel(10)
    for number in range(3):
        send.send_nowait(number)
    async with trio.open_nursery() as nursery:
        publisher = from_channel(receive, nursery)
        recorder = subscribed(publisher, 2)
        await wait_all_tasks_blocked()
        assert receive.statistics().current_buffer_used == 1
        second = subscribed(publisher)
        await wait_all_tasks_blocked()
        assert isinstance(second.terminals[0], AlreadySubscribed)
        recorder.cancel()
        await wait_all_tasks_blocked()
    with pytest.raises(trio.BrokenResourceError):
        send.send_nowait(1)


@pytest.mark.parametrize("nursery_too", [False, True])
async def test_a_channel_is_closed_if_the_task_has_not_begun(nursery_too):
    send, receive = trio.open_memory_channel(0)
    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_channel(receive, nursery), 1)
        if nursery_too:
            nursery.cancel_scope.cancel()
        else:
            recorder.cancel()
    with pytest.raises(trio.BrokenResourceError):
        send.send_nowait(1)


async def test_a_channel_completes():
    send, receive = trio.open_memory_channel(10)
    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_channel(receive, nursery), 5)
        await send.send(1)
        await send.aclose()
    assert recorder.signals == ["subscribe", 1, "complete"]


async def test_a_stream_of_the_network():
    opened = []

    async with connected_pair(KnownAnswers()) as requester, trio.open_nursery() as nursery:

        @asynccontextmanager
        async def stream(data):
            async with requester.request_stream(Payload(data), prefetch=4) as items:
                opened.append(items)
                yield items

        publisher = stream_publisher(partial(stream, b"20"), nursery)
        assert len(await collect(publisher)) == len(await collect(publisher)) == 20
        # It is one element ahead, so the end of an empty one needs no demand.
        recorder = subscribed(stream_publisher(partial(stream, b"0"), nursery))
        await wait_all_tasks_blocked()
        assert recorder.terminals == ["complete"]
        recorder = subscribed(publisher, 1)
        await wait_all_tasks_blocked()
        assert len(recorder.elements) == 1
        recorder.cancel()
        await wait_all_tasks_blocked()
        assert requester.statistics().open_streams == 0
    assert len(opened) == 4


async def test_a_stream_that_fails():
    class Refusing(KnownAnswers):
        async def request_stream(self, payload):
            yield Payload(b"1")
            raise StreamError("no", code=0x301)

    async with connected_pair(Refusing()) as requester, trio.open_nursery() as nursery:
        recorder = subscribed(stream_publisher(requester.request_stream, nursery), 5)
        await wait_all_tasks_blocked()
    assert len(recorder.elements) == 1
    assert "no" in str(recorder.terminals[0])


@pytest.mark.parametrize("end", ["cancel", "complete", "leave"])
async def test_cancelled_everywhere(end):
    source = Source(5)
    recorders = []

    async def operation():
        async with trio.open_nursery() as nursery:
            recorders.append(subscribed(from_async_iterable(source, nursery), 9))
            if end == "cancel":
                await trio.lowlevel.checkpoint()
                recorders[-1].cancel()
            elif end == "leave":
                await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

    async def check():
        assert source.opened == source.closed
        while recorders:
            recorder = recorders.pop()
            assert len(recorder.terminals) == (end != "cancel") or (
                end == "cancel" and recorder.elements != [0, 1, 2, 3, 4]
            )

    assert await cancel_everywhere(operation, check, every_task=True) > 3


async def test_a_nursery_is_needed():
    for make in (from_async_iterable, from_channel, stream_publisher):
        with pytest.raises(TypeError, match="nursery"):
            make(Source(), None)


async def test_the_error_says_that_a_scope_of_the_source_has_cancelled_it():
    """No nursery was cancelled here."""

    async def source():
        with trio.CancelScope() as scope:
            yield 1
            scope.cancel()
            yield 2

    async with trio.open_nursery() as nursery:
        recorder = subscribed(from_async_iterable(source, nursery), 2)
    (error,) = recorder.terminals
    assert isinstance(error, SourceClosed)
    assert "a scope of its own" in str(error)
