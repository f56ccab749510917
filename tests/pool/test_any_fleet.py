"""Servers that die, hang, refuse, slow down, drain, come back, come and go, in any order.

Modules of rsocket_trio.pool: members, choosing, sources.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rsocket_trio import (
    Canceled,
    ConnectionClosed,
    Lease,
    LeaseGranter,
    LeaseOptions,
    PoolOptions,
    Rejected,
)
from tests.pool.fleet import ask, fleet, pool_of

COUNT = 4
ACTIONS = [
    "kill",
    "stop",
    "drain",
    "slow",
    "refuse",
    "fail",
    "back",
    "remove",
    "add",
    "source fails",
]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, 0.3, 2.0, 9.0]),
        st.integers(1, COUNT - 1),
        st.sampled_from(ACTIONS),
    ),
    max_size=12,
)
AGAIN = 65.0
"""Seconds after which a target that is well gets requests again, whatever has happened."""


class Source:
    """Sets of targets, which the test sets; it may fail."""

    def __init__(self, servers):
        self.named = list(servers)
        self.asked = trio.Event()
        self.fails = False

    def changed(self):
        self.asked.set()

    async def __aiter__(self):
        while True:
            yield list(self.named)
            await self.asked.wait()
            self.asked = trio.Event()
            if self.fails:
                self.fails = False
                raise OSError("the resolver is away")


class Story:
    """What happens to the servers; ``s0`` stays as it is."""

    def __init__(self, servers):
        self.servers = servers
        self.source = Source(servers)
        self.deaths = 0

    def act(self, server, action):
        match action:
            case "kill":
                self.deaths += 1
                server.kill()
            case "stop":
                self.deaths += 1  # its connection is lost later
                server.stop()
            case "drain":
                self.deaths += 1  # of what is open longer than its grace
                server.drain()
            case "slow":
                server.delay = lambda: 1.0
            case "refuse":
                for each in self.servers:
                    each.behaviour = "well" if each.behaviour == "refuses" else each.behaviour
                server.behaviour = "refuses"
            case "fail":
                server.behaviour = "fails"
            case "back":
                self.restore(server)
            case "remove" if server in self.source.named:
                self.source.named.remove(server)
            case "add" if server not in self.source.named:
                self.source.named.append(server)
            case "source fails":
                self.source.fails = True
        self.source.changed()

    def restore(self, server):
        server.up = True
        server.thaw()
        server.delay = lambda: 0.01
        server.behaviour = "well"


async def tell(events, choose):
    async with fleet(COUNT) as servers:
        story = Story(servers)
        answers = Counter()
        wrong = []
        pause = 0.05

        async def caller(pool, number):
            """Call again and again; an error has to have its reason."""
            rest = number * 0.013
            while not pool.closed:
                before = story.deaths - hung(story)
                data = b"%d" % answers.total()
                idempotent = number % 2 == 0
                try:
                    answers[await ask(pool, data, idempotent=idempotent)] += 1
                except (ConnectionClosed, Canceled, Rejected) as error:
                    died = story.deaths - before
                    lost = error.sent and not error.unprocessed
                    if not lost or died < 1 + idempotent:
                        wrong.append((data, idempotent, died, repr(error)))
                except trio.ClosedResourceError:
                    assert pool.closed
                except Exception as error:
                    if "no database" not in str(error):
                        wrong.append((data, idempotent, repr(error)))
                await trio.sleep(pause + rest)

        async with trio.open_nursery() as nursery:
            async with pool_of(story.source, options=PoolOptions(choose=choose)) as pool:
                for number in range(6):
                    nursery.start_soon(caller, pool, number)
                for delay, number, action in events:
                    await trio.sleep(delay)
                    story.act(servers[number], action)
                for server in servers:
                    story.restore(server)
                if not story.source.named:
                    story.source.named = list(servers)
                story.source.changed()
                pause = 1.0
                await trio.sleep(AGAIN)
                answers.clear()
                await trio.sleep(20)
                named = {server.name for server in story.source.named}
                assert set(answers) == named, (answers, pool.targets())
                assert {server.name for server in servers if server.open} == named
                assert max(server.open for server in servers) == 1
                assert len(pool.targets()) == len(named)
        assert not wrong
        assert not any(server.open for server in servers)


def hung(story):
    """Return how many servers are stopped: a call may be sent to them, and lost."""
    return sum(not server.thawed.is_set() for server in story.servers)


@pytest.mark.parametrize("choose", ["latency", "least_in_flight", "round_robin"])
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(events=EVENTS, seed=st.integers(0, 1000))
@example(events=[(0.3, 1, "stop"), (9.0, 1, "back")], seed=0)
@example(events=[(0.3, 1, "refuse"), (9.0, 1, "back")], seed=0)
@example(events=[(0.3, 1, "remove"), (0.0, 1, "add"), (0.0, 1, "remove"), (0.0, 1, "add")], seed=0)
@example(events=[(0.3, each, "kill") for each in range(1, COUNT)], seed=0)
def test_any_story(events, seed, choose):
    """No call is lost while one target lives; none that is well is forgotten; nothing stays open.

    A call that was sent to a server which dies then may have been processed: it fails, and an
    idempotent one only if a second server has died meanwhile.
    """
    random.seed(seed)
    trio.run(tell, events, choose, clock=trio.testing.MockClock(autojump_threshold=0))


LEASES = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.005, 0.3, 3.0]),
        st.integers(0, 2),
        st.sampled_from(
            ["none", "one", "few", "short", "kill", "drain", "cancel", "back", "leave"]
        ),
    ),
    max_size=15,
)


async def tell_of_leases(events):
    granters = [LeaseGranter() for _ in range(3)]
    async with fleet(3) as servers:
        for server, granter in zip(servers, granters, strict=True):
            server.lease = granter
        leaving = trio.Event()
        answered, failed = Counter(), []

        async def caller(pool, number):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    if number % 3 == 0:

                        async def leave():
                            await leaving.wait()
                            scope.cancel()

                        nursery.start_soon(leave)
                    try:
                        answered[await ask(pool, b"%d" % number, idempotent=True)] += 1
                    except (ConnectionClosed, Canceled, Rejected) as error:
                        failed.append(error)
                    nursery.cancel_scope.cancel()

        async with pool_of(servers, lease=LeaseOptions()) as pool, trio.open_nursery() as nursery:
            for number, (delay, index, action) in enumerate(events):
                nursery.start_soon(caller, pool, 2 * number)
                nursery.start_soon(caller, pool, 2 * number + 1)
                await trio.sleep(delay)
                server, granter = servers[index], granters[index]
                match action:
                    case "none":
                        granter.grant(Lease(0, 0))
                    case "one":
                        granter.grant(Lease(1, 100))
                    case "few":
                        granter.grant(Lease(3, 100))
                    case "short":
                        granter.grant(Lease(100, 0.01))
                    case "kill":
                        server.kill()
                    case "drain":
                        server.drain()
                    case "cancel":
                        server.behaviour = "cancels"
                    case "back":
                        server.up, server.behaviour = True, "well"
                    case "leave":
                        leaving.set()
            for server in servers:
                server.up, server.behaviour = True, "well"
            granters[len(events) % 3].grant(Lease(1000, 1000))
            with trio.fail_after(30):  # the lease of one target is enough for all that wait
                while pool.statistics().waiting_requests:
                    await trio.sleep(0.1)
        assert all(error.sent for error in failed)


@settings(max_examples=25, deadline=None)
@given(events=LEASES, seed=st.integers(0, 1000))
def test_any_leases(events, seed):
    """A request that waits leaves with the first lease of any target, whatever has happened."""
    random.seed(seed)
    trio.run(tell_of_leases, events, clock=trio.testing.MockClock(autojump_threshold=0))
