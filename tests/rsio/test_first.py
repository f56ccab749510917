"""`RemotePublisher.first`, a request with one answer, and the policy of a client for it."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import Budget, Circuit, CircuitOpen, Hedge, Repeats, Retry, rsio
from rsocket_trio.reactive_streams import failed, from_iterable, never
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere

QUICK = Retry(initial_delay=0.001, jitter=0, max_attempts=2)


class Asked:
    """Serves a publisher for each question; counts the questions."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.count = 0

    def __call__(self, name, connection):
        answer = self.answers[min(self.count, len(self.answers) - 1)]
        self.count += 1
        if answer is None:
            return never()
        if isinstance(answer, Exception):
            return failed(answer)
        return from_iterable(answer)


async def connected(nursery, asked):
    server = await nursery.start(rsio.serve, asked, "rsio://127.0.0.1:0")
    return server.uris[0]


async def test_the_first_element(nursery):
    asked = Asked([b"1", b"2"], [], rsio.PublisherError("no"))
    async with rsio.connect(await connected(nursery, asked)) as connection:
        numbers = connection.publisher("numbers")
        assert await numbers.first() == b"1"
        assert await numbers.first() is None
        with pytest.raises(rsio.PublisherError, match="no"):
            await numbers.first(idempotent=True)
        with pytest.raises(TypeError, match="idempotent"):
            await numbers.first(idempotent=1)
    assert asked.count == 3


@pytest.mark.parametrize("per_second", [3, 0])
async def test_what_fails_is_repeated_where_it_may_be(nursery, per_second):
    """If it is idempotent, and the budget allows it."""
    asked = Asked(rsio.PublisherError("no"))
    budget = Budget(ratio=0, per_second=per_second)
    policy = Repeats(retry=QUICK, budget=budget, also=(rsio.PublisherError,))
    async with rsio.connect(await connected(nursery, asked), repeats=policy) as connection:
        for idempotent in (False, True):
            with pytest.raises(rsio.PublisherError):
                await connection.publisher("it").first(idempotent=idempotent)
    assert asked.count == (2 + QUICK.max_attempts if per_second else 2)


async def test_a_slow_one_is_asked_twice(nursery):
    """The first answer counts, and the other subscription is cancelled."""
    asked = Asked(None, [b"2"])
    policy = Repeats(hedge=Hedge(after=0.001))
    async with rsio.connect(await connected(nursery, asked), repeats=policy) as connection:
        assert await connection.publisher("it").first(idempotent=True) == b"2"
        assert connection.statistics().subscriptions == 0
    assert asked.count == 2


async def test_while_all_fail_nothing_is_sent(nursery):
    asked = Asked(rsio.PublisherError("no"))
    policy = Repeats(circuit=Circuit(failures=2), also=(rsio.PublisherError,))
    async with rsio.connect(await connected(nursery, asked), repeats=policy) as connection:
        publisher = connection.publisher("it")
        for _ in range(2):
            with pytest.raises(rsio.PublisherError):
                await publisher.first()
        with pytest.raises(CircuitOpen):
            await publisher.first()
    assert asked.count == 2


async def test_a_connection_that_is_over_repeats_nothing(nursery):
    asked = Asked([b"1"])
    async with rsio.connect(await connected(nursery, asked), repeats=Repeats()) as connection:
        await connection.goodbye()
        with pytest.raises(trio.ClosedResourceError):
            await connection.publisher("it").first(idempotent=True)
    assert asked.count == 0


async def test_cancelled_everywhere(nursery):
    """Nothing is left of it, and the connection goes on."""
    asked = Asked([b"1"])
    async with rsio.connect(await connected(nursery, asked), repeats=Repeats()) as connection:
        publisher = connection.publisher("it")

        async def operation():
            assert await publisher.first(idempotent=True) == b"1"

        async def check():
            assert await publisher.first() == b"1"

        assert await cancel_everywhere(operation, check) > 1


async def test_repeats_is_a_policy():
    with pytest.raises(TypeError, match="repeats must be of type Repeats"):
        async with rsio.connect("rsio://127.0.0.1:1", repeats=3):
            pass
