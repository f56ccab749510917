"""`open_iter`, `iterate` and ``async for`` over a publisher.

They are in `rsocket_trio.reactive_streams.iterating`, and `inbox` has the subscriber.
"""

from __future__ import annotations

import gc
from itertools import count

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionClosed
from rsocket_trio.reactive_streams import (
    ElementStream,
    TooManyElements,
    failed,
    from_iterable,
    iterate,
    just,
    never,
    open_iter,
    pipe,
)
from rsocket_trio.reactive_streams import operators as ops
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from tests.reactive_streams.recording import ByHand, Requests


async def test_it_reads_all_elements():
    async with open_iter(from_iterable(range(500)), 7) as elements:
        assert [each async for each in elements] == list(range(500))
    assert [each async for each in from_iterable(range(500))] == list(range(500))


async def test_the_demand_is_a_window():
    publisher = ByHand()
    async with open_iter(publisher, 8) as elements:
        requested = publisher.subscription.requested
        assert requested == [8]
        for number in range(8):
            publisher.subscriber.on_next(number)
        assert elements.statistics().unread == 8
        for n in ([8], [8, 2], [8, 2], [8, 2, 2]):
            await elements.receive()
            assert requested == n
        assert elements.statistics().outstanding == 4
        assert elements.statistics().received == 8
    assert publisher.subscription.cancelled == 1


async def test_elements_come_before_the_error():
    publisher = ByHand()
    error = KeyError("x")
    async with open_iter(publisher) as elements:
        publisher.subscriber.on_next(1)
        publisher.subscriber.on_error(error)
        assert await anext(elements) == 1
        with pytest.raises(KeyError) as caught:
            await anext(elements)
        assert caught.value is error
        with pytest.raises(KeyError):
            elements.receive_nowait()
    assert publisher.subscription.cancelled == 0  # rule 2.4


async def test_an_error_wakes_the_reader():
    publisher = ByHand()
    async with open_iter(publisher) as elements, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def read():
            with pytest.raises(KeyError):
                await anext(elements)

        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await elements.receive()
        publisher.subscriber.on_error(KeyError())


@pytest.mark.parametrize("error", [OSError("broken"), ConnectionClosed("over")])
async def test_only_the_end_of_a_connection_gives_way_to_a_cancellation(error):
    """A reader that is cancelled behind an error, but in the same turn, does not lose it."""
    seen = []
    publisher = ByHand()
    scope = trio.CancelScope()

    async def read():
        with scope:
            try:
                async with open_iter(publisher) as elements:
                    await elements.receive()
            except BaseException as caught:  # raised again, if it is the cancellation
                seen.append(type(caught))
                if isinstance(caught, trio.Cancelled):
                    raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        publisher.subscriber.on_error(error)
        scope.cancel()
    assert seen == [trio.Cancelled if isinstance(error, ConnectionClosed) else OSError]


async def test_more_than_requested_is_an_error():
    """Rule 1.1."""
    publisher = ByHand()
    async with open_iter(publisher, 2) as elements:
        for number in range(5):
            publisher.subscriber.on_next(number)
        assert publisher.subscription.cancelled == 1
        assert [await anext(elements), await anext(elements)] == [0, 1]
        with pytest.raises(TooManyElements):
            await anext(elements)


async def test_leaving_cancels():
    """Rule 2.6; signals on their way do no harm (rule 2.8)."""
    publisher = ByHand()
    async with open_iter(publisher, 2) as elements:
        publisher.subscriber.on_next(1)
    assert publisher.subscription.cancelled == 1
    publisher.subscriber.on_next(2)
    publisher.subscriber.on_complete()
    with pytest.raises(trio.ClosedResourceError):
        await elements.receive()
    assert elements.statistics().unread == 0


async def test_a_second_subscription_is_cancelled():
    """Rule 2.5."""
    publisher = ByHand()
    second = Requests()
    async with open_iter(publisher):
        publisher.subscriber.on_subscribe(second)
        assert second.cancelled == 1
        assert second.requested == []
        assert publisher.subscription.cancelled == 0


async def test_nothing_is_no_argument():
    """Rule 2.13."""
    publisher = ByHand()
    async with open_iter(publisher):
        for signal in ("on_subscribe", "on_next", "on_error"):
            with pytest.raises(TypeError):
                getattr(publisher.subscriber, signal)(None)
        with pytest.raises(TypeError):
            publisher.subscriber.on_error(KeyboardInterrupt())
        with pytest.raises(TypeError):
            publisher.subscriber.on_subscribe(object())


async def test_a_limit_is_never_exceeded():
    publisher = ByHand()
    async with open_iter(publisher, 4, limit=6) as elements:
        for number in range(6):
            publisher.subscriber.on_next(number)
            await elements.receive()
        assert sum(publisher.subscription.requested) == 6
        assert publisher.subscription.cancelled == 1
        with pytest.raises(trio.EndOfChannel):
            await elements.receive()


@pytest.mark.parametrize("wrong", [0, -1, 2**63, 1.5, None, "1"])
async def test_wrong_arguments(wrong):
    if wrong != 0:  # 0 is manual demand
        with pytest.raises((TypeError, ValueError), match="prefetch"):
            iterate(just(1), wrong)
    if wrong is not None:
        with pytest.raises((TypeError, ValueError), match="limit"):
            iterate(just(1), limit=wrong)
    with pytest.raises(TypeError, match="Publisher"):
        iterate(wrong)


async def test_manual_demand():
    """With ``prefetch=0`` nothing is requested but what the reader requests."""
    publisher = ByHand()
    async with open_iter(publisher, 0) as elements:
        requested = publisher.subscription.requested
        assert requested == []
        elements.request_n(3)
        elements.request_n(2)
        assert requested == [3, 2]
        for number in range(5):
            publisher.subscriber.on_next(number)
        assert await elements.receive_many() == [0, 1, 2, 3, 4]
        assert requested == [3, 2]
        publisher.subscriber.on_next(5)  # it was not requested
        with pytest.raises(TooManyElements):
            await elements.receive()
        elements.request_n(1)  # after the end it does nothing
    with pytest.raises(trio.ClosedResourceError):
        elements.request_n(1)
    assert requested == [3, 2]


async def test_demand_from_before_the_subscription():
    """`iterate` subscribes with the first element, and requests what was requested before."""
    elements = iterate(from_iterable(range(10)), 0)
    elements.request_n(2)
    elements.request_n(1)
    assert await elements.receive_many() == [0, 1, 2]
    with pytest.raises(trio.WouldBlock):
        elements.receive_nowait()
    await elements.aclose()


async def test_many_elements_at_once():
    """All that have arrived, or some of them."""
    async with open_iter(from_iterable(range(10)), 8) as elements:
        assert await elements.receive_many(3) == [0, 1, 2]
        # By then two more have been requested, as a quarter of the window has been read.
        assert await elements.receive_many() == [3, 4, 5, 6, 7, 8, 9]
        with pytest.raises(ValueError, match="limit must be at least 1"):
            await elements.receive_many(0)
        with pytest.raises(trio.EndOfChannel):
            await elements.receive_many()


@pytest.mark.parametrize("wrong", [0, -1, 2**63, 1.5, None])
async def test_wrong_manual_demand(wrong):
    """It raises here: it is a mistake of the reader, and not one of the publisher."""
    async with open_iter(just(1), 0) as elements:
        with pytest.raises((TypeError, ValueError), match="n must be"):
            elements.request_n(wrong)
    async with open_iter(just(1), 1) as elements:
        with pytest.raises(ValueError, match="prefetch=0"):
            elements.request_n(1)


async def test_other_tasks_run_while_it_reads():
    turns = 0
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def tick():
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with open_iter(from_iterable(count(1))) as elements:
            async for number in elements:
                if number == 64 * 50:
                    break
        nursery.cancel_scope.cancel()
    assert turns > 45


async def test_every_element_is_a_cancellation_point():
    with trio.move_on_after(5) as scope:
        async for number in from_iterable(count(1)):
            if number == 10:
                scope.cancel()
            assert number <= 10
    assert number == 10


async def test_break_cancels():
    """Rule 2.6, without a block: when the iterator goes."""
    publisher = ByHand()
    async for _ in _started(publisher):
        break
    gc.collect()
    assert publisher.subscription.cancelled == 1


def _started(publisher):
    stream = iterate(publisher)
    with pytest.raises(trio.WouldBlock):
        stream.receive_nowait()
    publisher.subscriber.on_next(1)
    return stream


async def test_receive_nowait_and_aclose():
    stream = iterate(just(1))
    assert stream.receive_nowait() == 1
    with pytest.raises(trio.EndOfChannel):
        stream.receive_nowait()
    await stream.aclose()
    with pytest.raises(trio.ClosedResourceError):
        stream.receive_nowait()
    unused = iterate(publisher := ByHand())
    await unused.aclose()
    assert publisher.subscriber is None
    with pytest.raises(TypeError, match="constructor"):
        ElementStream()


async def test_publishers_that_raise_from_requests(caplog):
    """Rules 3.15 and 3.16, broken by the other side."""

    class Hostile(Requests):
        def request(self, n):
            raise OSError("request")

        def cancel(self):
            raise OSError("cancel")

    publisher = ByHand()
    publisher.subscription = Hostile()
    async with open_iter(publisher) as elements:
        with pytest.raises(OSError, match="request"):
            await elements.receive()
    assert "cancel" in caplog.text


async def test_a_publisher_that_has_failed():
    with pytest.raises(OSError, match="x"):
        async with open_iter(failed(OSError("x"))) as elements:
            await elements.receive()


async def test_cancelled_everywhere():
    publishers = []

    async def operation():
        publishers.append(ByHand())
        async with open_iter(publishers[-1], 2) as elements:
            publishers[-1].subscriber.on_next(1)
            assert await anext(elements) == 1
            publishers[-1].subscriber.on_next(2)
            assert await elements.receive() == 2

    async def check():
        for each in publishers:
            assert each.subscriber is None or each.subscription.cancelled == 1
        publishers.clear()

    assert await cancel_everywhere(operation, check) > 2


async def test_never_waits(autojump_clock):
    with trio.move_on_after(1) as scope:
        async for _ in never():
            raise AssertionError
    assert scope.cancelled_caught


async def test_following_another_demand():
    """Only what may be passed on is requested, but at least one element, at most the window."""
    publisher = ByHand()
    elements = iterate(publisher, 8)
    available = 0
    known = []
    elements.follow(lambda: available)
    # One at first, then twice as many each time, if so many may be passed on.
    for available, n in ((3, 1), (1, 1), (3, 3), (0, 1), (100, 8), (100, 8)):  # noqa: B007 - above
        known.append(n)
        with trio.move_on_after(0):
            await elements.receive()
        assert publisher.subscription.requested == known
        while elements.statistics().outstanding:
            publisher.subscriber.on_next(7)
            assert await elements.receive() == 7
        assert publisher.subscription.requested == known
    await elements.aclose()


async def test_large_elements_are_requested_few_at_a_time():
    """Those that are requested for another's demand have 64 KiB, judged by those before."""
    publisher = ByHand()
    elements = iterate(publisher, 64)
    elements.follow(lambda: 1000)
    asked = []
    for size in (0, 0, 0, 0, 20_000, 20_000, 70_000, 70_000, 0, 0, 0):
        with trio.move_on_after(0):
            await elements.receive()
        asked.append(publisher.subscription.requested[-1])
        while elements.statistics().outstanding:
            publisher.subscriber.on_next(bytes(size))
            await elements.receive()
    assert asked == [1, 2, 4, 8, 16, 3, 3, 1, 1, 2, 4]
    await elements.aclose()


async def test_following_a_publisher_that_is_late():
    """A publisher may signal on_subscribe later. Until then the reader waits as any task does."""
    late = []
    publisher = ByHand()
    publisher.subscribe = late.append
    elements = iterate(publisher, 8)
    elements.follow(lambda: 3)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(elements.receive)
            await trio.testing.wait_all_tasks_blocked()
            late[0].on_subscribe(publisher.subscription)
            await trio.testing.wait_all_tasks_blocked()
            assert publisher.subscription.requested == [1]
            late[0].on_next(7)
    await elements.aclose()


async def test_a_publisher_that_raises_from_subscribe():
    """The first call raises that, and the next one does not wait for what never comes."""
    publisher = ByHand()
    publisher.subscribe = {}.__getitem__
    elements = iterate(publisher)
    with pytest.raises(KeyError):
        await elements.receive()
    with pytest.raises(trio.ClosedResourceError), trio.fail_after(30):
        await elements.receive()


async def test_manual_demand_follows_nobody():
    publisher = ByHand()
    async with open_iter(publisher, 0) as elements:
        elements.follow(lambda: 5)
        with trio.move_on_after(0):
            await elements.receive()
        assert publisher.subscription.requested == []


@pytest.mark.parametrize(
    "error", [StopAsyncIteration, StopIteration, trio.EndOfChannel, trio.WouldBlock]
)
async def test_an_error_is_not_taken_for_the_end(error):
    """A reader would take these for a completion, or for a reason to ask again."""

    def numbers():
        yield 1
        yield 2

    def fails(number):
        if number == 2:
            raise error
        return number

    publisher = pipe(from_iterable(numbers), ops.map(fails))
    with pytest.raises(RuntimeError, match=f"failed with {error.__name__}") as caught:
        async for each in publisher:
            assert each == 1
    assert isinstance(caught.value.__cause__, error)
    async with open_iter(publisher) as elements:
        assert elements.receive_nowait() == 1
        for _ in range(2):
            with pytest.raises(RuntimeError):
                elements.receive_nowait()
