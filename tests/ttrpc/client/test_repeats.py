"""Calls that are sent by a policy: `Repeats` of ttrpc's `connect`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio import Budget, CircuitOpen, ConnectionClosed, Hedge, Repeats, Retry
from rsocket_trio.ttrpc import (
    Aborted,
    CallError,
    Internal,
    Method,
    MethodKind,
    NotFound,
    ResourceExhausted,
    Service,
    Unavailable,
    Unimplemented,
    connect,
)
from tests.ttrpc.scenes import client_of

QUICK = Retry(initial_delay=0.1, jitter=0, max_attempts=2)
DO = Method.raw("s.S", "Do")


def scripted(*script):
    """A service that answers from a script, and the times at which it was called."""
    script = list(script)
    times = []
    service = Service("s.S")

    @service.method("Do")
    async def do(request: bytes) -> bytes:
        times.append(trio.current_time())
        step = script.pop(0) if script else b"ok"
        if isinstance(step, float):
            await trio.sleep(step)
            return b"late"
        if isinstance(step, Exception):
            raise step
        return step

    return service, times


@pytest.mark.parametrize(
    ("error", "idempotent", "tries"),
    [
        (Unavailable("stopping"), True, 3),
        (Unavailable("stopping"), False, 1),
        (Aborted("named by the policy"), True, 3),
        (Aborted("named by the policy"), False, 1),
        (NotFound("no"), True, 1),
        (Internal("no"), True, 1),
        (Unimplemented("no"), True, 1),
        (ResourceExhausted("too many requests: retry after 0.1 s"), True, 1),
    ],
)
async def test_what_is_repeated(error, idempotent, tries, autojump_clock):
    """By its code, where the call is idempotent."""
    service, times = scripted(*[error] * 5)
    repeats = Repeats(retry=QUICK, also=(Aborted,))
    async with client_of(service, repeats=repeats) as client:
        with pytest.raises(type(error)):
            await client.unary(DO, b"", idempotent=idempotent)
    assert len(times) == tries


async def test_a_limit_that_says_when(autojump_clock):
    """It is asked then, if the policy names its code."""
    service, times = scripted(ResourceExhausted("too many requests: retry after 1.5 s"))
    repeats = Repeats(also=(ResourceExhausted,))
    async with client_of(service, repeats=repeats) as client:
        assert await client.unary(DO, b"", idempotent=True) == b"ok"
    assert times[1] - times[0] == pytest.approx(1.5)


async def test_a_hedge(autojump_clock):
    """The second call answers first; the answer of the other one is dropped."""
    service, times = scripted(0.5)
    async with client_of(service, repeats=Repeats(hedge=Hedge(after=0.05))) as client:
        assert await client.unary(DO, b"", idempotent=True) == b"ok"
        await trio.sleep(1)
        assert client.statistics().ignored_frames == 1
        assert client.statistics().open_calls == 0
    assert len(times) == 2


async def test_the_circuit(autojump_clock):
    """After five failures calls of all kinds fail at once, until one has tested the server."""
    service, times = scripted(*[Unavailable("stopping")] * 5)

    @service.method("Ticks")
    async def ticks(request: bytes) -> AsyncIterator[bytes]:
        yield b"tick"

    stream = Method.raw("s.S", "Ticks", MethodKind.SERVER_STREAM)
    async with client_of(service, repeats=Repeats()) as client:
        for _ in range(5):
            with pytest.raises(Unavailable):
                await client.unary(DO, b"")
        with pytest.raises(CircuitOpen, match="stopping"):
            await client.unary(DO, b"")
        with pytest.raises(CircuitOpen):
            async with client.server_stream(stream, b""):
                raise AssertionError
        assert len(times) == 5
        await trio.sleep(5)
        async with client.server_stream(stream, b"") as items:
            assert [each async for each in items] == [b"tick"]
        assert await client.unary(DO, b"") == b"ok"


async def test_a_connection_that_is_over_ends_it(autojump_clock):
    """It is not made again, so that no other try could succeed."""
    service, times = scripted(Unavailable("stopping"))
    repeats = Repeats(retry=QUICK)
    async with client_of(service, repeats=repeats) as client:
        client._connection.lifecycle.end(ConnectionClosed("cut"))
        with pytest.raises(ConnectionClosed):
            await client.unary(DO, b"", idempotent=True)
        assert trio.current_time() < 0.1
    assert not times


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["ok", "unavailable", "other", "slow"]), max_size=10), st.booleans()
)
def test_what_is_not_idempotent_is_done_once(faults, hedged):
    """Whatever goes wrong, in any order."""
    trio.run(
        partial(_played, faults, hedged=hedged),
        clock=trio.testing.MockClock(autojump_threshold=0),
    )


async def _played(faults, *, hedged):
    steps = {"ok": b"ok", "unavailable": Unavailable("x"), "other": Internal("x"), "slow": 0.3}
    service = Service("s.S")
    faults = iter(faults)
    done = []

    @service.method("Do")
    async def do(request: bytes) -> bytes:
        done.append(request)
        step = steps[next(faults, "ok")]
        if isinstance(step, float):
            await trio.sleep(step)
        if isinstance(step, Exception):
            raise step
        return b"ok"

    hedge = Hedge(after=0.05) if hedged else None
    repeats = Repeats(hedge=hedge, circuit=None, budget=Budget(per_second=100))
    async with client_of(service, repeats=repeats) as client:

        async def one(number):
            try:
                await client.unary(DO, b"%d" % number, idempotent=number % 2 == 0)
            except CallError:
                assert b"%d" % number in done

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(one, number)
                await trio.sleep(0.05)
    assert all(done.count(b"%d" % number) == 1 for number in (1, 3, 5))


async def test_a_policy_of_a_wrong_type():
    """`connect` says so before it dials."""
    with pytest.raises(TypeError, match="repeats must be of type Repeats"):
        async with connect("unix:///nowhere", repeats=3):
            raise AssertionError
