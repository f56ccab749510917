"""Targets that fail, hang, have no lease or are new, and the requests that pass them by."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Canceled,
    Circuit,
    CustomError,
    Lease,
    LeaseGranter,
    LeaseOptions,
    MissingLease,
    Payload,
    PoolOptions,
)
from rsocket_trio.pool.choosing import FAILURE, Choice, PeakLatency
from tests.pool.fleet import ask, fleet, pool_of
from tests.pool.test_any_fleet import Source
from tests.pool.test_pool import TURNS, settled


async def outcomes(pool, times, **options):
    """Count who answers."""
    answers = Counter()
    for _ in range(times):
        try:
            answers[await ask(pool, **options)] += 1
        except (Canceled, CustomError) as error:
            answers[type(error).__name__] += 1
    return answers


@pytest.mark.parametrize("choose", ["latency", "least_in_flight", "round_robin"])
async def test_a_target_that_fails_is_put_aside_and_tested(choose, autojump_clock, caplog):
    """After 5 failures, for 5 s and then 10; one request tests it, and a success takes it back."""
    async with fleet(3) as servers:
        async with pool_of(servers, options=PoolOptions(choose=choose)) as pool:
            await settled(pool, 3)
            servers[0].behaviour = "cancels"
            while "put aside for 5 s" not in caplog.text:
                await outcomes(pool, 1)
            [aside] = [each for each in pool.targets() if each.aside_for]
            assert aside.failed == 5
            assert aside.latency >= FAILURE / 2
            assert (await outcomes(pool, 100))["Canceled"] == 0
            await trio.sleep(5)
            assert (await outcomes(pool, 100))["Canceled"] == 1
            assert "put aside for 10 s" in caplog.text
            servers[0].behaviour = "well"
            await trio.sleep(10)
            assert (await outcomes(pool, 60))["s0"] > 5
            assert not any(each.aside_for for each in pool.targets())


async def test_a_target_that_hangs(autojump_clock):
    """Requests whose time is over count as failures; those that are given up for no reason not."""
    async with fleet(2) as servers:
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 2)
            servers[0].delay = lambda: 1000
            for _ in range(6):
                with trio.CancelScope() as scope, trio.move_on_after(1):
                    trio.lowlevel.current_trio_token()
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(ask, pool)
                        await trio.sleep(0.5)
                        nursery.cancel_scope.cancel()
                assert not scope.cancelled_caught
            assert not any(each.failed for each in pool.targets())
            late = 0
            for _ in range(20):
                with trio.move_on_after(0.2) as scope:
                    await ask(pool)
                late += scope.cancelled_caught
            assert late == 5


@pytest.mark.parametrize(("count", "aside"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
async def test_at_most_half_are_put_aside(count, aside, autojump_clock, caplog):
    """Never all: where all fail, all are asked, and the log says so."""
    async with fleet(count) as servers:
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, count)
            for server in servers:
                server.behaviour = "cancels"
            for _ in range(20 * count):
                await outcomes(pool, 1)
                assert sum(bool(each.aside_for) for each in pool.targets()) <= aside
            assert "too many targets fail" in caplog.text


async def test_the_answers_of_an_application_are_no_failures(autojump_clock):
    """Its errors are not a sign of a bad target; nor do they make it look fast."""
    async with fleet(2) as servers:
        async with pool_of(servers) as pool:
            await settled(pool, 2)
            servers[0].behaviour = "fails"
            wrong = 0
            for _ in range(200):
                try:
                    await ask(pool)
                except ApplicationError:
                    wrong += 1
            assert 0 < wrong < 200
            assert min(each.latency for each in pool.targets()) > 0.005
            assert not any(each.failed or each.aside_for for each in pool.targets())


async def test_a_session_that_begins_anew_is_well(autojump_clock):
    """It is another process: what the last one did says nothing about it."""
    async with fleet(2) as servers:
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 2)
            servers[0].behaviour = "cancels"
            await outcomes(pool, 20)
            assert any(each.aside_for > 3 for each in pool.targets())
            servers[0].kill()
            servers[0].behaviour = "well"
            servers[0].up = True
            await trio.sleep(2)
            assert (await outcomes(pool, 10))["s0"] == 5


@pytest.mark.parametrize("prefetch", [0, None])
async def test_the_failures_of_streams(prefetch, autojump_clock):
    """Also of those that are not opened again, as their reader has granted items himself."""
    async with fleet(2) as servers:
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 2)
            servers[0].behaviour = "cancels"
            failed = 0
            for _ in range(20):
                async with pool.request_stream(Payload(b"1"), prefetch=prefetch) as items:
                    if prefetch == 0:
                        items.request_n(1)
                    try:
                        await items.receive()
                    except Canceled:
                        failed += 1
            assert failed == 5
            assert sorted(each.failed for each in pool.targets()) == [0, 5]


@pytest.mark.parametrize("how", ["late", "empty", "patient", "many"])
async def test_streams_that_are_answered(how, autojump_clock):
    """However they are read: 5 failures among them are not 5 in a row."""
    async with fleet(1) as servers:
        async with pool_of(servers) as pool:
            await settled(pool, 1)
            for _ in range(6):
                data = b"0" if how == "empty" else b"1"
                async with pool.request_stream(Payload(data)) as items:
                    if how == "late":
                        await trio.sleep(1)
                    elif how == "patient":
                        with trio.move_on_after(0.001):
                            await items.receive()
                    elif how == "many":
                        await items.receive_many()
                    async for _ in items:
                        pass
            [target] = pool.targets()
            assert (target.answered, target.failed, target.in_flight) == (6, 0, 0)
            assert (target.latency is None) == (how in ("late", "empty"))


async def test_a_new_target_gets_its_share(autojump_clock):
    """It is not avoided for what is not known of it, nor flooded."""
    async with fleet(4) as servers:
        source = Source(servers[:3])
        async with pool_of(source) as pool:
            await trio.sleep(1)
            await outcomes(pool, 100)
            source.named = servers
            source.changed()
            await trio.sleep(1)
            assert 10 <= (await outcomes(pool, 100))["s3"] <= 60


async def test_leases(autojump_clock):
    """A target without a lease is passed by while another has one; then the request says so."""
    granters = [LeaseGranter(Lease(1000, 1000)) for _ in range(2)]
    async with fleet(2) as servers:
        for server, granter in zip(servers, granters, strict=True):
            server.lease = granter
        lease = LeaseOptions(wait=False)
        async with pool_of(servers, options=TURNS, lease=lease) as pool:
            await settled(pool, 2)
            assert len(await outcomes(pool, 10)) == 2
            granters[0].grant(Lease(0, 0))
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(each.has_lease for each in pool.targets()) == [False, True]
            assert await outcomes(pool, 10) == {"s1": 10}
            granters[1].grant(Lease(0, 0))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(MissingLease):
                await ask(pool)


async def test_requests_wait_for_whichever_lease_comes_first(autojump_clock):
    """Not at the target that was chosen while none had one; and in the order in which they came."""
    granters = [LeaseGranter(Lease(0, 0)) for _ in range(3)]
    async with fleet(3) as servers:
        for server, granter in zip(servers, granters, strict=True):
            server.lease = granter
        async with pool_of(servers, lease=LeaseOptions(max_waiting=6)) as pool:
            await settled(pool, 3)
            answers = []

            async def asking(number):
                answers.append((number, await ask(pool)))

            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(asking, number)
                    await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(MissingLease, match=r"6 requests wait .*LeaseOptions"):
                    await ask(pool)
                assert not any(each.in_flight for each in pool.targets())
                granters[1].grant(Lease(4, 100))
                await trio.sleep(1)
                assert sorted(answers) == [(number, "s1") for number in range(4)]
                granters[0].grant(Lease(1, 100))
                await trio.sleep(1)
                granters[2].grant(Lease(10, 100))
            assert answers[4:] == [(4, "s0"), (5, "s2")]


async def test_a_lease_that_nobody_takes_is_the_next_ones(autojump_clock):
    """A request that is given up while it waits for room has not used it."""
    async with fleet(1) as servers:
        servers[0].lease = LeaseGranter(Lease(1, 100))
        async with pool_of(servers, lease=LeaseOptions()) as pool:
            await settled(pool, 1)
            room = pool._roster.ready[0].connection.outbox.room
            assert room.try_take(room.limit)

            async def leaving():
                with trio.move_on_after(1) as scope:
                    await ask(pool)
                assert scope.cancelled_caught

            with trio.fail_after(10):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(leaving)
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.start_soon(ask, pool)
                    await trio.sleep(2)
                    room.give_back(room.limit)


@pytest.mark.parametrize("seconds", [0.001, 0.02])
async def test_a_caller_with_little_time_says_nothing_about_a_target(seconds, autojump_clock):
    """Only a target that had the time to answer, and has answered nobody meanwhile, has failed."""
    async with fleet(2) as servers:
        async with pool_of(servers) as pool:
            await settled(pool, 2)
            with trio.move_on_after(0.001):  # before anything is known
                await ask(pool)
            await outcomes(pool, 10)
            servers[0].delay = servers[1].delay = lambda: 0.03
            for _ in range(50):
                with trio.move_on_after(seconds) as scope:
                    await ask(pool)
                assert scope.cancelled_caught
            assert [each.failed for each in pool.targets()] == [0, 0]
            assert max(each.latency for each in pool.targets()) < 0.05


async def test_a_target_that_hangs_is_avoided_by_those_with_little_time(autojump_clock):
    """Who leaves before an answer could come makes it look slower, if not failed."""
    async with fleet(3) as servers:
        async with pool_of(servers) as pool:
            await settled(pool, 3)
            await outcomes(pool, 30)
            servers[0].delay = lambda: 1000
            late = 0
            for _ in range(200):
                with trio.move_on_after(0.05) as scope:
                    await ask(pool)
                late += scope.cancelled_caught
            assert 0 < late < 10


def test_a_latency():
    """A peak counts at once, and is forgotten; a mean follows slowly."""
    latency = PeakLatency()
    latency.add(0.01, 0)
    latency.add(1.0, 1)
    assert latency.at(1) == 1.0
    latency.add(0.01, 1)
    assert latency.at(1) == 1.0
    latency.add(0.01, 11)
    assert 0.3 < latency.at(11) < 0.4
    assert latency.at(60) < 0.01
    assert latency.at(1e9) > 0


def test_two_choices_are_never_one_target_twice():
    """Two targets are compared, so the worst of all is never chosen."""

    class Fixed:
        turn = 0.0

        def __init__(self, latency):
            self.in_flight = 0
            self.latency = latency

        def latency_at(self, now):
            return self.latency

    import random

    targets = [Fixed(0.01), Fixed(0.02), Fixed(1.0)]
    choice = Choice("latency", random.random)
    chosen = Counter(choice.among(targets, 0).latency for _ in range(1000))
    assert chosen[1.0] == 0
    assert chosen[0.02] > 200
    assert choice.among(targets[2:], 0) is targets[2]


def test_a_circuit_of_ones_own():
    assert PoolOptions(circuit=Circuit(failures=2)).circuit.failures == 2
