"""Each operator that can pass on what it gets passes the verification of processors."""

from __future__ import annotations

import trio

from rsocket_trio.protocol.retry import Retry
from rsocket_trio.reactive_streams import (
    MAX_DEMAND,
    Broadcast,
    Relay,
    as_processor,
    from_iterable,
    just,
    pipe,
)
from rsocket_trio.reactive_streams import operators as ops
from rsocket_trio.reactive_streams.tck import (
    ProcessorVerification,
    PublisherVerification,
    verify_processor,
)


def itself(element):
    return element


def always(_element):
    return True


def processor_of(operator, **capabilities):
    return verify_processor(lambda: as_processor(operator), subscribers="one", **capabilities)


TestRelay = verify_processor(Relay, subscribers="one", buffer_size=0)
TestMap = processor_of(ops.map(itself), buffer_size=0)
TestFilter = processor_of(ops.filter(always), buffer_size=0)
TestTake = processor_of(ops.take(MAX_DEMAND), buffer_size=0)
TestThree = processor_of(
    lambda source: pipe(source, ops.map(itself), ops.filter(always), ops.map(itself)),
    buffer_size=0,
)
TestBuffer = processor_of(ops.buffer(1_000_000))
TestBufferThatWaits = processor_of(ops.buffer(8, ops.Overflow.WAIT), buffer_size=8)
TestMerge = processor_of(ops.merge, buffer_size=32)
TestConcat = processor_of(ops.concat, buffer_size=0)
TestFlatMap = processor_of(ops.flat_map(just, 4), buffer_size=4)
TestRetry = processor_of(ops.retry(0), buffer_size=0)


class TestThrottle(ProcessorVerification):
    subscribers = "one"
    buffer_size = 0

    def processor(self, nursery: trio.Nursery):
        return as_processor(ops.throttle(1, nursery))


class TestRetryWithWaits(ProcessorVerification):
    subscribers = "one"
    buffer_size = 0

    def processor(self, nursery: trio.Nursery):
        return as_processor(
            ops.retry(backoff=Retry(max_attempts=2), nursery=nursery, when=lambda error: False)
        )


class TestBroadcast(ProcessorVerification):
    multicast = True
    coordinated = True
    buffer_size = 0

    def processor(self):
        return Broadcast()

    # It lets the first subscriber, which raises, use up an element before the others are there.
    # A publisher that is hot cannot give it to them: test_broadcast.py has both there in time.
    test_r2_13_errors_of_a_subscriber_stay_with_it = None


class TestBatch(PublisherVerification):
    def publisher(self, n):
        return pipe(from_iterable(range(2 * n)), ops.batch(2))

    def failing(self, n):
        def numbers():
            yield from range(2 * n)
            raise ValueError("the source fails")

        return pipe(from_iterable(numbers), ops.batch(2))

    def element(self, i):
        return [2 * i, 2 * i + 1]


class TestBatchWithTime(PublisherVerification):
    def publisher(self, n, nursery: trio.Nursery):
        return pipe(from_iterable(range(2 * n)), ops.batch(2, 1, nursery))

    def element(self, i):
        return [2 * i, 2 * i + 1]


class TestMapOfIterable(PublisherVerification):
    def publisher(self, n):
        return pipe(from_iterable(range(n)), ops.map(lambda number: number + 1))

    def failing(self, n):
        def numbers():
            yield from range(n)
            raise ValueError("the source fails")

        return pipe(from_iterable(numbers), ops.map(lambda number: number + 1))

    def element(self, i):
        return i + 1
