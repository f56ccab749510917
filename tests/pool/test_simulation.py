"""Ten servers, one of them slow and one that fails at once, and forty callers, in virtual time."""

from __future__ import annotations

import random

import pytest
import trio

from rsocket_trio import Canceled, Circuit, PoolOptions
from tests.pool.fleet import ask, fleet, pool_of

CALLS = 3000
NEVER = Circuit(failures=10**9)


async def simulated(choose, circuit):
    """Return the part of errors, and the 50th and 99th percentile of seconds, of the answers."""
    random.seed(3)
    times, errors = [], 0
    async with fleet(10) as servers:
        for server in servers:
            server.places = trio.CapacityLimiter(8)
            server.delay = lambda: random.expovariate(1 / 0.005)
        servers[8].delay = lambda: random.expovariate(1 / 0.1)
        servers[9].behaviour = "cancels"

        async def caller():
            nonlocal errors
            while len(times) + errors < CALLS:
                began = trio.current_time()
                try:
                    await ask(pool)
                    times.append(trio.current_time() - began)
                except Canceled:
                    errors += 1

        options = PoolOptions(choose=choose, circuit=circuit)
        async with pool_of(servers, options=options) as pool:
            await trio.sleep(1)
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(caller)
    times.sort()
    return errors / CALLS, times[len(times) // 2], times[len(times) * 99 // 100]


@pytest.mark.parametrize(
    ("choose", "circuit", "errors", "tail"),
    [
        ("latency", Circuit(), 0.004, 0.06),
        ("latency", NEVER, 0.03, 0.06),
        ("least_in_flight", Circuit(), 0.004, 0.4),
        ("round_robin", Circuit(), 0.004, 1.0),
    ],
)
async def test_errors_and_tail(choose, circuit, errors, tail, autojump_clock):
    """By latency the slow server hardly matters, and the one that fails does not look best.

    A failure that counts as no time would give it most calls.
    """
    part, median, last = await simulated(choose, circuit)
    assert part <= errors
    assert median <= 0.01
    assert last <= tail


async def test_what_the_bounds_are_worth(autojump_clock):
    """In turn, without a circuit, a tenth of the calls fails, and as many are slow."""
    part, _, last = await simulated("round_robin", NEVER)
    assert part > 0.08
    assert last > 0.2
