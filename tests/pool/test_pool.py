"""A pool sends each request to a target that takes it, and is one requester."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    Budget,
    Caller,
    Canceled,
    Circuit,
    ConnectionClosed,
    ConnectionLost,
    ConnectionState,
    Forbidden,
    Hedge,
    NotConnected,
    Payload,
    Pool,
    PoolOptions,
    Reconnect,
    Rejected,
    Repeats,
    Requester,
    Retry,
    StreamedPayload,
    connect_pool,
)
from tests.pool.fleet import ask, fleet, pool_of

TURNS = PoolOptions(choose="round_robin")


async def settled(pool, count):
    """Wait until so many targets are connected."""
    while sum(t.state is ConnectionState.CONNECTED for t in pool.targets()) < count:
        await trio.sleep(0.01)


@pytest.mark.parametrize("choose", ["round_robin", "least_in_flight", "latency"])
async def test_requests_are_spread(choose, autojump_clock):
    """Each way gives every well target a share; round robin the same one."""
    async with fleet(4) as servers:
        async with pool_of(servers, options=PoolOptions(choose=choose)) as pool:
            await settled(pool, 4)
            names = Counter()

            async def caller():
                for _ in range(50):
                    names[await ask(pool)] += 1

            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(caller)
            assert len(names) == 4
            assert min(names.values()) >= (100 if choose == "round_robin" else 40)
            assert {each.in_flight for each in pool.targets()} == {0}
        assert not any(server.open for server in servers)


async def test_it_is_one_requester(autojump_clock):
    """Whatever takes a `Requester` takes a pool; what is said of one connection has a meaning."""
    async with fleet(2) as servers:
        async with pool_of(servers) as pool:
            assert isinstance(pool, Requester)
            assert isinstance(pool, Pool)
            assert pool.state is ConnectionState.CONNECTING
            assert pool.transport.scheme == "pool"
            assert pool.leases is None
            caller = Caller(pool, codecs=Caller(pool)._codecs)
            assert caller.requester is pool
            await settled(pool, 2)
            await ask(pool)
            assert pool.transport.scheme == "memory"
            assert repr(pool) == "<Pool of 2 targets connected>"
            await pool.metadata_push(b"news")
            async with pool.request_stream(Payload(b"2")) as items:
                await items.receive()
                assert pool.statistics().open_streams == 1
                assert [each.in_flight for each in pool.targets()].count(1) == 1
            await trio.sleep(1)
            assert [server.pushed for server in servers] == [[b"news"], [b"news"]]
            assert not pool.closed
            assert not pool.draining
        assert pool.closed
        assert pool.state is ConnectionState.CLOSED
        assert isinstance(await pool.wait_closed(), trio.ClosedResourceError)
        await pool.wait_draining()
        with pytest.raises(trio.ClosedResourceError):
            await ask(pool)
        with pytest.raises(NotConnected):
            await pool.metadata_push(b"news")


async def test_the_first_request_waits_and_one_target_may_be_down(autojump_clock):
    """The block is entered at once; a target that is down is no failure, and is used later."""
    async with fleet(3) as servers:
        for server in servers:
            server.up = False
        async with pool_of(servers, options=TURNS) as pool:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, pool)
                await trio.sleep(3)
                assert pool.targets()[0].state in (
                    ConnectionState.WAITING,
                    ConnectionState.CONNECTING,
                )
                servers[0].up = servers[1].up = True
            await settled(pool, 2)
            assert {await ask(pool) for _ in range(6)} == {"s0", "s1"}
            servers[2].up = True
            await trio.sleep(3)
            assert {await ask(pool) for _ in range(6)} == {"s0", "s1", "s2"}


async def test_waiting_is_bounded(autojump_clock):
    """`Reconnect.wait` and `max_waiting` hold for the pool as a whole."""
    async with fleet(2) as servers:
        for server in servers:
            server.up = False
        reconnect = Reconnect(wait=1, max_waiting=1)
        async with pool_of(servers, reconnect=reconnect) as pool, trio.open_nursery() as nursery:

            async def first():
                with pytest.raises(NotConnected, match="waits for 1 s"):
                    await ask(pool)

            nursery.start_soon(first)
            await trio.sleep(0.5)
            with pytest.raises(NotConnected, match="max_waiting") as caught:
                await ask(pool)
            assert caught.value.unprocessed
            assert "is down" in str(caught.value)


@pytest.mark.parametrize("sent", [True, False])
async def test_a_draining_target_gets_nothing_new(sent, autojump_clock):
    """Its streams go on, and new requests go elsewhere, without an error."""
    async with fleet(2) as servers:
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 2)
            async with pool.request_stream(Payload(b"3")) as items:
                first = (await items.receive()).data.decode()
                draining, other = sorted(servers, key=lambda server: server.name != first)
                draining.drain(grace=60)
                if sent:
                    await trio.testing.wait_all_tasks_blocked()
                assert [await ask(pool, b"%d" % n) for n in range(10)] == [other.name] * 10
                assert len([item async for item in items]) == 2


async def test_what_was_not_processed_goes_to_another_target_once(autojump_clock):
    """A refusal is repeated by itself on another target; the second one is the caller's."""
    async with fleet(3) as servers:
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 3)
            servers[0].behaviour = "refuses"
            assert "s0" not in [await ask(pool) for _ in range(9)]
            assert sorted(bool(each.failed) for each in pool.targets()) == [False, False, True]
            servers[1].behaviour = servers[2].behaviour = "refuses"
            with pytest.raises(Rejected) as caught:
                await ask(pool)
            assert caught.value.unprocessed
            with pytest.raises(Rejected):
                async with pool.request_stream(Payload(b"1")) as items:
                    await items.receive()
            with pytest.raises(Rejected):
                await pool.request_response(StreamedPayload(b"once"))


async def test_a_refused_stream_is_opened_on_another_target(autojump_clock):
    """Before its first item, as a request is repeated before its answer."""
    async with fleet(2) as servers:
        servers[0].behaviour = "refuses"
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 2)
            for _ in range(4):
                async with pool.request_stream(Payload(b"1")) as items:
                    assert (await items.receive()).data == b"s1"
            assert {each.in_flight for each in pool.targets()} == {0}


@pytest.mark.parametrize("choose", ["round_robin", "latency"])
async def test_a_hedge_goes_to_another_target(choose, autojump_clock):
    """A second request to the target that hangs would hang as well."""
    policy = Repeats(hedge=Hedge(after=0.05), budget=Budget(ratio=10, per_second=100))
    async with fleet(2) as servers:
        async with pool_of(servers, options=PoolOptions(choose=choose), repeats=policy) as pool:
            await settled(pool, 2)
            servers[0].delay = lambda: 1000
            for _ in range(20):
                with trio.fail_after(1):
                    async with trio.open_nursery() as two:  # so that turns come back to "s0"
                        two.start_soon(partial(ask, pool, idempotent=True))
                        two.start_soon(partial(ask, pool, idempotent=True))
            servers[0].kill()  # without another target, it goes to the same one
            servers[1].delay = lambda: 0.1
            await trio.sleep(1)
            before = servers[1].begun[b""]
            assert await ask(pool, idempotent=True) == "s1"
            assert servers[1].begun[b""] == before + 2


@pytest.mark.parametrize("stream", [True, False])
async def test_a_repeat_goes_to_another_target(stream, autojump_clock):
    """By latency it would go back to a target that was fast, and refuses now."""
    policy = Repeats(retry=Retry(initial_delay=0.01, jitter=0), budget=Budget(per_second=1000))
    options = PoolOptions(circuit=Circuit(failures=10**9))
    async with fleet(2) as servers:
        async with pool_of(servers, options=options, repeats=policy) as pool:
            await settled(pool, 2)
            for _ in range(40):
                await ask(pool)
            servers[0].behaviour = "cancels"
            for _ in range(40):
                if stream:
                    async with pool.request_stream(Payload(b"1"), idempotent=True) as items:
                        assert (await items.receive()).data == b"s1"
                else:
                    assert await ask(pool, idempotent=True) == "s1"
            failed, well = (each.failed for each in pool.targets())
            assert 0 < failed <= 40
            assert well == 0
            begun = [sum(server.begun.values()) for server in servers]
            assert begun == [each.answered + each.failed for each in pool.targets()]


async def test_only_what_is_idempotent_is_repeated(autojump_clock):
    """A request that may have been processed is the caller's error without the word for it."""
    async with fleet(2) as servers:
        servers[0].delay = lambda: 100
        async with pool_of(servers, options=TURNS) as pool:
            await settled(pool, 2)
            outcomes = {}

            async def asking(data, **options):
                try:
                    outcomes[data] = await ask(pool, data, **options)
                except ConnectionLost as error:
                    outcomes[data] = (error.sent, error.unprocessed)

            async with trio.open_nursery() as nursery:
                for number in range(4):
                    idempotent = number >= 2
                    nursery.start_soon(partial(asking, b"%d" % number, idempotent=idempotent))
                    await trio.sleep(0.1)
                servers[0].kill()
            assert sorted(map(str, outcomes.values())) == ["(True, False)", "s1", "s1", "s1"]
            assert all(count == 1 for count in servers[0].begun.values())


@pytest.mark.parametrize("first", ["refused", "lost"])
@pytest.mark.parametrize("repeats", [None, Repeats(retry=Retry(initial_delay=0.01))])
async def test_a_request_may_be_refused_and_lost(first, repeats, autojump_clock):
    """In any order: each has its own repeat, and what is lost needs `idempotent`."""
    async with fleet(3) as servers:
        async with pool_of(servers, options=TURNS, repeats=repeats) as pool:
            await settled(pool, 3)
            order = [await ask(pool) for _ in range(3)]
            one, other, _ = (next(s for s in servers if s.name == name) for name in order)
            refusing, losing = (one, other) if first == "refused" else (other, one)
            refusing.behaviour, losing.behaviour = "refuses", "cancels"
            assert await ask(pool, b"?", idempotent=True) == order[2]
            if first == "lost":
                return
            refusing.behaviour = "well"
            assert [await ask(pool)] == order[:1]
            refusing.behaviour = "refuses"
            await trio.sleep(1)
            losing.begun.clear()
            with pytest.raises(Canceled) as caught:
                while True:
                    await ask(pool, b"!")
            assert caught.value.sent
            assert not caught.value.unprocessed
            assert losing.begun[b"!"] == 1


async def test_refusals_of_all_cost_one_request_more(autojump_clock):
    """A policy repeats within its budget; what is free is free once, not with each try."""
    policy = Repeats(retry=Retry(initial_delay=0.01, max_attempts=5), circuit=None)
    async with fleet(3) as servers:
        async with pool_of(servers, options=TURNS, repeats=policy) as pool:
            await settled(pool, 3)
            for server in servers:
                server.behaviour = "refuses"
            with pytest.raises(Rejected):
                await ask(pool)
            assert sum(each.failed for each in pool.targets()) == 1 + 1 + 3  # the budget is 3


async def test_nothing_is_repeated_behind_the_first_item(autojump_clock):
    """Idempotent or not: the items that came would come again."""
    async with fleet(2) as servers:
        async with pool_of(servers) as pool:
            await settled(pool, 2)
            async with pool.request_stream(Payload(b"9"), idempotent=True) as items:
                name = (await items.receive()).data.decode()
                next(server for server in servers if server.name == name).kill()
                with pytest.raises(ConnectionClosed):
                    await items.receive()


async def test_all_targets_refuse(autojump_clock, caplog):
    """A request says why, at once; and a target that thinks better of it is used again."""
    async with fleet(2) as servers:
        for server in servers:
            server.refusal = Forbidden("not you")
        async with pool_of(servers) as pool:
            with pytest.raises(NotConnected, match=r"none of 2 targets.*not you"):
                await ask(pool)
            assert {each.state for each in pool.targets()} == {ConnectionState.CLOSED}
            await trio.sleep(150)  # refused again, and again
            for server in servers:
                server.refusal = None
            await trio.sleep(61)
            assert await ask(pool)
    assert "tried again in 60 s" in caplog.text


async def test_a_pool_of_one_waits_for_its_target(autojump_clock):
    """There is no other target, so it is the next session that a request waits for."""
    async with fleet(1) as servers:
        async with pool_of(servers) as pool:
            await ask(pool)
            servers[0].kill()
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, pool)
                await trio.sleep(2)
                servers[0].up = True
            servers[0].behaviour = "refuses"
            with pytest.raises(Rejected):
                await ask(pool)
            assert pool.targets()[0].failed == 1


class Unhashable:
    __hash__ = None

    def __call__(self):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("targets", "error", "text"),
    [
        ([], ValueError, "the list is empty"),
        (["tcp://a"], ValueError, "port"),
        ([7], TypeError, "a target of a pool is"),
        ([Unhashable()], TypeError, "has to be hashable"),
        (7, TypeError, "connect_pool needs a list"),
        ("nonsense", ValueError, "scheme"),
    ],
)
async def test_wrong_targets(targets, error, text):
    with pytest.raises(error, match=text):
        async with connect_pool(targets):
            pass


@pytest.mark.parametrize(
    "options",
    [
        {"choose": "best"},
        {"max_targets": 0},
        {"empty_after": 0},
        {"grace": -1},
        {"circuit": None},
        {"client_id": 7},
    ],
)
def test_wrong_options(options):
    with pytest.raises((TypeError, ValueError), match=r"PoolOptions\."):
        PoolOptions(**options)


async def test_the_states_of_a_pool(autojump_clock):
    """The best state of a target; a pool without a well target says so."""
    async with fleet(2) as servers:
        seen = []

        async def watch(pool):
            async for state in pool.states():
                seen.append(state.value)

        async with trio.open_nursery() as nursery:
            reconnect = Reconnect(retry=Retry(initial_delay=5, jitter=0), spread=1)
            async with pool_of(servers, reconnect=reconnect) as pool:
                nursery.start_soon(watch, pool)
                await trio.sleep(6)
                async with pool.request_stream(Payload(b"90")) as items:
                    await items.receive()
                    for server in servers:
                        server.drain(grace=100)
                    await pool.wait_draining()
                    await trio.sleep(1)
                    assert pool.draining
                for server in servers:
                    server.kill()
                await trio.sleep(30)
        assert seen[:3] == ["connecting", "connected", "draining"] or seen[:4] == [
            "connecting",
            "waiting",
            "connected",
            "draining",
        ]
        assert seen[-1] == "closed"
